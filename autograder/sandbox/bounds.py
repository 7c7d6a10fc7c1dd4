"""What a job may use, and the signal that it has to be ended."""

from dataclasses import dataclass
from typing import Literal

Ended = Literal["finished", "died", "cell_limit", "notebook_limit", "infrastructure"]


@dataclass(frozen=True)
class Bounds:
    """What one job may use: seconds, MiB, KiB of log, numbers of processes and files."""

    cell_s: float
    notebook_s: float
    memory_mib: int
    file_mib: int
    disk_mib: int
    files: int
    open_files: int
    processes: int
    output_kib: int
    grace_s: float


class Stop(Exception):
    """The job has to be ended: how it counts, and why."""

    def __init__(self, ended: Ended, reason: str) -> None:
        """Reason is for people, without a full stop."""
        super().__init__(reason)
        self.ended: Ended = ended
        self.reason = reason
