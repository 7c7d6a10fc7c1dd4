"""Our ends of a job's pipes."""

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Iterator


class Readers:
    """Several pipes, each with a function that takes what comes out of it."""

    def __init__(self, *others: int) -> None:
        """`others` are descriptors that `read` waits for as well, but leaves alone."""
        self._selector = selectors.DefaultSelector()
        for descriptor in others:
            self._selector.register(descriptor, selectors.EVENT_READ)

    @contextlib.contextmanager
    def pipe(self, reader: Callable[[bytes], None]) -> Iterator[int]:
        """A pipe's end for writing, closed when the block ends."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._selector.register(read, selectors.EVENT_READ, reader)
        try:
            yield write
        finally:
            os.close(write)

    def read(self, timeout_s: float) -> bool:
        """Read once from each pipe that has something; False if none had."""
        if not self._selector.get_map():
            time.sleep(min(timeout_s, 0.01))
            return False
        ready = [key for key, _ in self._selector.select(timeout_s) if key.data]
        for key in ready:
            data = os.read(key.fd, 1 << 16)
            if data:
                key.data(data)
            else:
                self._selector.unregister(key.fd)
                os.close(key.fd)
        return bool(ready)

    def close(self) -> None:
        """Close all pipes."""
        for key in list(self._selector.get_map().values()):
            if key.data:
                os.close(key.fd)
        self._selector.close()
