"""System calls that a submission is refused, by a filter in the kernel (seccomp)."""

import ctypes
import errno
import platform
import struct

from .linux import SECCOMP, prctl

# x86-64, arm64. Memory that no process has mapped is seen by no limit; keys belong to the user
# and not to a namespace; the others have no use in a notebook and a history of holes.
REFUSED = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "open_by_handle_at": (304, 265),
}  # fmt: skip
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, linux/audit.h
X32 = 0x40000000  # numbers from here on are a second door to the same calls on x86-64

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # linux/bpf_common.h
_ALLOW, _ERROR, _FILTER = 0x7FFF0000, 0x00050000, 2  # linux/seccomp.h
_NUMBER, _MACHINE = 0, 4  # offsets in struct seccomp_data


def refuse() -> None:
    """Refuse the calls from now on. On other machines than those above nothing is refused."""
    if platform.machine() not in MACHINES:
        return
    code = _program(*MACHINES[platform.machine()])
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    prctl(SECCOMP, _FILTER, ctypes.c_char_p(program))


def _program(column: int, machine: int) -> bytes:
    numbers = [row[column] for row in REFUSED.values()]
    last = len(numbers) + 1  # steps from the first comparison to the refusal
    steps = [
        (_LOAD, 0, 0, _MACHINE), (_EQUAL, 0, last + 2, machine), (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, last, 0, X32),
        *((_EQUAL, last - 1 - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | errno.EPERM),
    ]  # fmt: skip
    return b"".join(struct.pack("HBBI", *step) for step in steps)
