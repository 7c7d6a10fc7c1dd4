"""Which workers of a cluster there are, and which of them can run submissions of a batch."""

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from distributed import Client

FRESH_S = 1.0  # so long one look serves all who ask


@dataclass
class Workers:
    """Those that fit: with the label that is asked for, and not left out.

    Attributes:
        client: connected to the cluster.
        address: of its scheduler.
        needs: resources of Dask that a submission takes, {"GPU": 1.0} or none.
        wait_s: how long to wait for one, before giving up.
        left_out: addresses of those that must not run any.
    """

    client: Client
    address: str
    needs: Mapping[str, float]
    wait_s: float
    left_out: set[str] = field(default_factory=set)
    _seen: tuple[float, dict[str, int]] = (0.0, {})

    def room(self) -> dict[str, int]:
        """How many submissions each one can run side by side, by address."""
        when, there = self._seen
        if time.monotonic() - when > FRESH_S:
            there = self._look()
            self._seen = time.monotonic(), there
        return {address: count for address, count in there.items() if address not in self.left_out}

    def choose(self, tried: Collection[str] = ()) -> list[str]:
        """Addresses of some that fit, if possible others than those; waits until there are any.

        Raises:
            LookupError: there were none for too long; the message says what to do.
        """
        patience = time.monotonic() + self.wait_s
        while not (there := [*self.room()]):
            if time.monotonic() > patience:
                raise LookupError(self._lonely())
            with contextlib.suppress(TimeoutError):
                self.client.wait_for_workers(len(self.client.nthreads()) + 1, timeout=FRESH_S)
        return [address for address in there if address not in tried] or there

    def _look(self) -> dict[str, int]:
        there = self.client.scheduler_info(n_workers=-1)["workers"]
        room = {
            address: min([about["nthreads"], *(about["resources"].get(n, 0) for n in self.needs)])
            for address, about in there.items()
        }
        return {address: int(count) for address, count in room.items() if count >= 1}

    def _lonely(self) -> str:
        label = " with --resources GPU=1" if self.needs else ""
        fitting = " that fits" if self.left_out else ""
        return (
            f"No worker{label}{fitting} has been at {self.address} for {self.wait_s:g} s. "
            f"Start one: dask worker {self.address}{' --resources GPU=1' if self.needs else ''}"
        )
