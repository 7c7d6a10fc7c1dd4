"""Calls to the Linux kernel that Python has no function for."""

import ctypes
import os
import sys

NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS = (
    0x10000000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000,
)  # fmt: skip
NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PDEATHSIG, DUMPABLE, SECCOMP, CHILD_SUBREAPER, NO_NEW_PRIVS = 1, 4, 22, 36, 38  # of prctl
_MOUNT_SETATTR, _HERE, _ALL_BELOW, _READ_ONLY = 442, -100, 0x8000, 1
_DETACH, _CAPABILITIES_3 = 2, 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int, more: object = 0) -> None:
    """Set an option of this process. Does nothing where there is no prctl."""
    if sys.platform == "linux":
        _call("prctl", option, ctypes.c_ulong(value), more, 0, 0)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _call("unshare", flags)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system, or `source` itself with BIND."""
    name = kind.encode() if kind else None
    _call("mount", source.encode(), target.encode(), name, ctypes.c_ulong(flags), data.encode())


def read_only(target: str, *, below: bool = True) -> None:
    """Make a mount read-only, with all mounts below it. Needs Linux 5.12."""
    wanted = (ctypes.c_uint64 * 4)(_READ_ONLY | NOSUID, 0, 0, 0)
    flags = _ALL_BELOW if below else 0
    _call("syscall", _MOUNT_SETATTR, _HERE, target.encode(), flags, wanted, ctypes.sizeof(wanted))


def pivot_root(target: str) -> None:
    """Make the mount `target` the root folder, and let go of everything else."""
    os.chdir(target)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up all capabilities, for good: no program that is started later gains any."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())
    prctl(NO_NEW_PRIVS, 1)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        words = " ".join(a.decode() for a in arguments if isinstance(a, bytes) and a)
        raise OSError(number, f"{os.strerror(number)}: {name} {words}".strip())
