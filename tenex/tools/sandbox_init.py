"""The first program in the sandbox: gives up the kernel's keyrings and bounds processes, then becomes the command.

It is run as text, `python -I -S -B -c <this file> <processes> <command> ...`, because nothing of ours is mounted there.

The user and network namespaces do not cover keys: a process of the same user can find the user's keyring by its number,
link it and read what is in it. So the system calls for keys fail as on a kernel without them, by a seccomp filter.
"""

import ctypes
import errno
import os
import resource
import signal
import struct
import sys

PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_ERRNO = 0x00050000
KEYCTL_JOIN_SESSION_KEYRING = 1
X32 = 0x40000000  # x86-64 with short pointers: the same architecture to the filter, with this bit in each number

LOAD, IF_EQUAL, IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # BPF, of words at a place in `struct seccomp_data`
NUMBER, ARCHITECTURE = 0, 4  # places there

SYSTEM_CALLS: dict[str, dict[int, tuple[int, int, int]]] = {
    "x86_64": {0xC000003E: (248, 249, 250), 0x40000003: (286, 287, 288)},
    "aarch64": {0xC00000B7: (217, 218, 219), 0x40000028: (309, 310, 311)},
    "riscv64": {0xC00000F3: (217, 218, 219)},
}
"""By machine: the architectures it runs, 64 and 32 bits, and the numbers of add_key, request_key and keyctl there."""


def main(arguments: list[str]) -> None:
    """Become the command; a filter that the kernel does not take ends it."""
    most = int(arguments[0])
    command = arguments[1:]
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # here the kernel counts those of the sandbox alone
    give_up_keys(os.uname().machine)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would hand that on
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")


def give_up_keys(machine: str) -> None:
    """Take a new, empty session keyring, and let every system call for keys fail from now on.

    Raises:
        OSError: the kernel takes no filter.
    """
    system = ctypes.CDLL(None, use_errno=True)
    known = SYSTEM_CALLS.get(machine)
    if known is None:
        return
    # may fail where a container's own filter forbids it
    system.syscall(next(iter(known.values()))[2], KEYCTL_JOIN_SESSION_KEYRING, None)
    program = b"".join(struct.pack("HBBI", *line) for line in key_filter(known))
    lines = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_void_p))

    filtering = Program(len(program) // 8, ctypes.addressof(lines))
    for option, value, more in (
        (PR_SET_NO_NEW_PRIVS, 1, None),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filtering)),
    ):
        if system.prctl(option, value, more, None, None) != 0:
            raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")


def key_filter(known: dict[int, tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Make the filter: lines of operation, steps if so, steps if not, and value."""
    refuse = (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.ENOSYS)
    lines = []
    for architecture, numbers in known.items():
        block = [(LOAD, 0, 0, NUMBER), (IF_AT_LEAST, 0, 1, X32), refuse]
        for number in numbers:
            block += [(IF_EQUAL, 0, 1, number), refuse]
        block.append((RETURN, 0, 0, SECCOMP_RET_ALLOW))
        lines += [(LOAD, 0, 0, ARCHITECTURE), (IF_EQUAL, 0, len(block), architecture), *block]
    return [*lines, refuse]


if __name__ == "__main__":
    main(sys.argv[1:])
