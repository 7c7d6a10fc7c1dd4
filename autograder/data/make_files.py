"""Writing data files: compressed arrays that are the same bytes each time, and their check sums."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from autograder.data.files import Array

_FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say: files do not differ by date


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an npz file whose bytes depend on nothing but the arrays (and the zlib in use).

    `numpy.savez` does not fix what a zip says about date and system.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=_FIXED_DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # "Unix", also where the script runs on another system
            with archive.open(member, "w") as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS: the check sum of every npz file in `folder`, hidden ones too."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.npz"))
    digests = (hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names)
    lines = (f"{digest}  {name}\n" for digest, name in zip(digests, names, strict=True))
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="ascii", newline="\n")
