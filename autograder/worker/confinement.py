"""A world of its own for one job: what it sees, and how it can't leave it.

Two steps, as a process that asks for a new process table isn't in it; its children are. `enter`
is for the supervisor, outside; `seal` for the first process inside, before anything of the
student's runs. Needs Linux 5.12, and root or unprivileged user namespaces. What this gives is
said in autograder.sandbox.
"""

import contextlib
import os
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import linux, syscalls

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime",
    "/sys/devices/system/cpu",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
INSIDE = Path("/job")
SCRATCH = {"job": "job", "shm": "dev/shm", "tmp": "tmp"}  # folder of the scratch disk -> its place
OUTSIDE = {"home", "tmp", "worker.log"}  # entries of a job folder that aren't shown
WRITABLE = "executed.ipynb"
NO_DEVICES = linux.NOSUID | linux.NODEV


@dataclass(frozen=True)
class World:
    """What a job sees beside the system, whom it runs as, and its limits.

    `visible` are read-only folders, `hidden` folders below these that look empty, `devices` names
    in /dev. The scratch disk, in memory, holds the work, home and tmp folders and shared memory;
    `files` bounds their number there. The user is our own, or one without an account for root.
    """

    uid: int
    visible: list[str]
    hidden: list[str]
    devices: list[str]
    disk_mib: int
    files: int
    memory_mib: int
    processes: int


def enter(job: Path, base: Path, world: World) -> None:
    """Leave network and process table, and build in `base`, any folder, what the job will see.

    Raises OSError where the system doesn't allow it.
    """
    spaces = linux.NEWNS | linux.NEWPID | linux.NEWNET | linux.NEWIPC | linux.NEWUTS
    if os.getuid() == 0:
        linux.unshare(spaces)
    else:
        _own_users(spaces)
    linux.mount("", "/", None, linux.RECURSIVE | linux.PRIVATE)
    linux.mount("tmpfs", str(base), "tmpfs", NO_DEVICES, "size=4m,mode=755")
    _scratch(job, base, world)
    _system(base, world)
    (base / "etc" / "passwd").write_text(f"student:x:{world.uid}:{world.uid}::{INSIDE}/home:\n")
    (base / "proc").mkdir()


def seal(base: Path, world: World) -> Path:
    """Leave the system's folders; give up root and all capabilities. Gives the job's new path."""
    # Users without rights may mount a process table only while they still see the old one.
    linux.mount("proc", str(base / "proc"), "proc", NO_DEVICES | linux.NOEXEC)
    linux.pivot_root(str(base))
    linux.read_only("/", below=False)
    if os.getuid() == 0:
        _give_up_root(world.uid)
    with contextlib.suppress(OSError):  # root, where user namespaces are switched off anyway
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    bound(resource.RLIMIT_NPROC, world.processes)
    if not world.devices:  # drivers of GPUs reserve without end
        # One process runs into its own bound, a MemoryError, before the grader ends them all.
        bound(resource.RLIMIT_DATA, _data_bytes() + (world.memory_mib << 20) * 7 // 8)
    linux.drop_capabilities()
    syscalls.refuse()
    return INSIDE


def bound(kind: int, value: int) -> None:
    """Set a resource limit that can't be raised again."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _data_bytes() -> int:
    """What RLIMIT_DATA counts of this process already: what its imports have reserved."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))


def _own_users(spaces: int) -> None:
    """New namespaces with a table of users that knows only ourselves."""
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.NEWUSER | spaces)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                       ("gid_map", f"{gid} {gid} 1")):  # fmt: skip
        Path(f"/proc/self/{name}").write_text(text)


def _give_up_root(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    linux.prctl(linux.DUMPABLE, 1)  # or /proc/self still belongs to root
    with contextlib.suppress(OSError):  # counts processes apart from other jobs of this user
        _own_users(0)


def _scratch(job: Path, base: Path, world: World) -> None:
    """The scratch disk with the job's files, put where it will be seen."""
    disk = base / "tmp"
    disk.mkdir()
    size = f"size={world.disk_mib}m,nr_inodes={world.files},mode=755"
    linux.mount("tmpfs", str(disk), "tmpfs", NO_DEVICES, size)
    for name, place in SCRATCH.items():
        (disk / name).mkdir()
        (disk / name).chmod(0o1777)
        (base / place).mkdir(parents=True, exist_ok=True)
    _fill(disk / "job", job, world.uid)
    for name, place in SCRATCH.items():  # tmp comes last, as it covers the disk's own place
        _bind(disk / name, base / place)


def _fill(inside: Path, job: Path, uid: int) -> None:
    """The job's files, read-only; its own folders; the one file outside that it may write."""
    (job / WRITABLE).touch()
    _give(job, uid)
    shutil.copytree(job / "work", inside / "work")
    for name in ("home", "tmp"):
        (inside / name).mkdir()
    _give(inside, uid)
    for path in (p for p in job.iterdir() if p.name not in OUTSIDE | {"work"}):
        _bind(path, inside / path.name)
        if path.name != WRITABLE:
            linux.read_only(str(inside / path.name))


def _give(folder: Path, uid: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, -1, follow_symlinks=False)


def _system(base: Path, world: World) -> None:
    """The system's and Python's own folders, read-only, and what there is of /dev."""
    shown: list[Path] = []
    for source in sorted(map(Path, (*SYSTEM, *world.visible)), key=lambda path: len(path.parts)):
        if source.exists() and not any(source.is_relative_to(path) for path in shown):
            _show(source, base)
            shown.append(source)
    for source in map(Path, world.hidden):
        if any(source.is_relative_to(path) for path in shown):
            linux.mount("tmpfs", str(_under(base, source)), "tmpfs", NO_DEVICES, "size=4k,mode=555")
    for name in (*DEVICES, *world.devices):
        _bind(Path("/dev", name), base / "dev" / name)
    for name, target in LINKS.items():
        (base / "dev" / name).symlink_to(target)


def _show(source: Path, base: Path) -> None:
    target = _under(base, source)
    if source.is_symlink() and source.parent == Path("/"):  # /bin -> usr/bin
        target.symlink_to(source.readlink())
    else:
        _bind(source.resolve(), target)
        linux.read_only(str(target))


def _bind(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    linux.mount(str(source), str(target), None, linux.BIND | linux.RECURSIVE)


def _under(base: Path, path: Path) -> Path:
    return base / path.relative_to("/")
