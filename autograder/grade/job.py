"""One run as plain bytes: what it needs, what it leaves. So it can happen here or elsewhere."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.grade.executed import untrusted
from autograder.sandbox import Outcome, Pool


class Outage(RuntimeError):
    """Nobody can be graded now, and it is nobody's fault: the batch ends, and goes on later."""


@dataclass(frozen=True)
class Job:
    """What a run needs beside the files of its release.

    Attributes:
        notebook: the restored notebook, as JSON.
        settings: what the worker is told in job.json, as JSON.
        further: other files, by their path in the job folder.
    """

    notebook: str
    settings: str
    further: Mapping[str, bytes]


@dataclass(frozen=True)
class Ran:
    """What a run left.

    Attributes:
        outcome: how it ended, and its events.
        executed: the notebook with its outputs, untrusted; empty where there is none.
    """

    outcome: Outcome
    executed: bytes


Place = Callable[[Job], Ran]  # where a run happens; one run at a time


@dataclass(frozen=True)
class Here:
    """A place on this machine.

    Attributes:
        pool: runs the job.
        files: those of the release, by their path in the job folder.
        scratch: the folder for the job's own folder.
        most_mib: of the executed notebook, the rest is cut off.
    """

    pool: Pool
    files: Mapping[str, bytes]
    scratch: Path
    most_mib: int

    def __call__(self, job: Job) -> Ran:
        """Run the job in a folder that is removed at the end."""
        with tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True) as temporary:
            folder = Path(temporary)
            put({**self.files, **job.further}, folder)
            (folder / "notebook.ipynb").write_text(job.notebook, encoding="utf-8")
            (folder / "job.json").write_text(job.settings, encoding="utf-8")
            outcome = self.pool.run(folder, lambda _: None)
            return Ran(outcome, untrusted(folder / "executed.ipynb", self.most_mib))


def put(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files, given by their path in the folder."""
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
