"""The first process in the sandbox: it refuses some system calls, starts the command, and sees which files it writes.

It is run as a file, `python -I -S -B <this file> <processes> <files> <network> <count> <folder> ... <command> ...`, the
only one of ours that is mounted there. It is process 1 of the sandbox: it reaps what the command leaves, and everything
in the sandbox ends with it. No program there can trace it, and none is without its filter. `files` and `network` are
descriptors, -1 for none; `count` is how many folders follow it, of which the first is the workspace.

What is refused: namespaces do not cover everything. A process can ask for keys of the user by their numbers, sockets of
the kind `vsock` lead to the host of a virtual machine, and calls through an io_uring pass no filter. A user namespace
gives a program parts of the kernel that it could not use otherwise. A seccomp filter makes these calls fail.

What is seen of the network: where the sandbox has none, the kernel counts the packets and connections that had no
route, also those of questions for names (`sandbox.NO_RESOLVER`). Once there is one more than at the beginning, a byte
is written to `network`. Commands that share a loopback share the counts, too: then another one may be meant.

What is seen of files: with a descriptor, a second filter stops each system call that may change a file in the folders
by its name, until this process has written down the name (`seccomp_unotify(2)`). So it is known what the command wrote,
whatever else is changed in the workspace meanwhile. An entry in the descriptor ends with a NUL byte and begins with its
kind:

    + nothing else: from now on all is seen
    = a path that was opened for writing, made, removed or given other permissions
    / a path that was renamed, with everything below it
    > two paths, of which the first was renamed or linked to the second; before them, the length of the first in bytes
    ! the reason why something may be missing; the list is no witness then

The path of `=` and `/` follows what was there before: its mode, size, time of change and inode, or nothing; of a file
that is not empty also a checksum of a sample. A space comes before the path.

Each entry is written once, until the daemon empties the descriptor: then it has read them.

A signal may interrupt a call that is not looked at yet, as on a slow disk (EINTR).
A program may change a name in memory while it is read here. Then the list lacks the file, and the file counts as one
that somebody else changed. Nothing is permitted or forbidden by this list.
"""

import _socket
import _thread
import binascii
import ctypes
import errno
import fcntl
import os
import resource
import signal
import stat
import struct
import sys

PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32
"""Since Linux 5.19: signals do not interrupt a call that is being looked at."""
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_USER_NOTIF = 0x7FC00000
SECCOMP_RET_ERRNO = 0x00050000
NOTIF_RECEIVE = 0xC0502100
NOTIF_SEND = 0xC0182101
NOTIF_IS_VALID = 0x40082102
NOTIF_SET_FLAGS = 0x40082104
FD_SYNC_WAKE_UP = 1
"""Since Linux 6.6: the two processes take turns on one processor, which halves the time of a call."""
USER_NOTIF_FLAG_CONTINUE = 1
KEYCTL_JOIN_SESSION_KEYRING = 1
CLONE_NEWUSER = 0x10000000
AF_VSOCK = 40
X32 = 0x40000000  # x86-64 with short pointers: the same architecture to the filter, with this bit in each number

LOAD, IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF, of words of `struct seccomp_data`
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # places there; an argument has eight bytes, the lower half first

SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277}
"""The number of `seccomp` itself, by machine."""

_EVERYWHERE = {"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
_GENERIC = {"add_key": 217, "request_key": 218, "keyctl": 219, "unshare": 97, "clone": 220, "socket": 198}

SYSTEM_CALLS = {
    "x86_64": {
        0xC000003E: {"add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "clone": 56, "socket": 41},
        0x40000003: {
            "add_key": 286, "request_key": 287, "keyctl": 288, "unshare": 310, "clone": 120, "socket": 359,
            "socketcall": 102,
        },
    },
    "aarch64": {
        0xC00000B7: _GENERIC,
        0x40000028: {"add_key": 309, "request_key": 310, "keyctl": 311, "unshare": 337, "clone": 120, "socket": 281},
    },
    "riscv64": {0xC00000F3: _GENERIC},
}  # fmt: skip
"""By machine: the architectures it runs, 64 and 32 bits, and the numbers there of what is refused."""

REFUSED = ("add_key", "request_key", "keyctl", "socketcall", *_EVERYWHERE)
"""Always. Of `clone3` and `socketcall` a filter cannot read the arguments; libraries use `clone` and `socket` then."""

REFUSED_WITH = {"unshare": (0, CLONE_NEWUSER), "clone": (0, CLONE_NEWUSER)}
"""Where an argument, by its number, has a bit."""

AT_FDCWD = -100
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

NAMES_OF_CALLS = {
    "open": ((None, 0),),
    "openat": ((0, 1),),
    "openat2": ((0, 1),),
    "creat": ((None, 0),),
    "truncate": ((None, 0),),
    "mkdir": ((None, 0),),
    "mkdirat": ((0, 1),),
    "mknod": ((None, 0),),
    "mknodat": ((0, 1),),
    "rmdir": ((None, 0),),
    "unlink": ((None, 0),),
    "unlinkat": ((0, 1),),
    "link": ((None, 1),),
    "linkat": ((2, 3),),
    "symlink": ((None, 1),),
    "symlinkat": ((1, 2),),
    "rename": ((None, 0), (None, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
    "chmod": ((None, 0),),
    "fchmod": ((0, None),),
    "fchmodat": ((0, 1),),
    "fchmodat2": ((0, 1),),
}
"""What may change a file, and the arguments: the descriptor of a folder (None: the working folder), the path in it."""

LINKED = {"link": (None, 0), "linkat": (0, 1)}
"""Of what gives a file a second name, the arguments of its first name."""

RENAME_EXCHANGE = 2

_GENERIC_WRITES = {
    "openat": 56, "openat2": 437, "truncate": 45, "mkdirat": 34, "mknodat": 33, "unlinkat": 35, "linkat": 37,
    "symlinkat": 36, "renameat2": 276, "fchmod": 52, "fchmodat": 53, "fchmodat2": 452,
}  # fmt: skip

WRITES = {
    "x86_64": {
        "open": 2, "openat": 257, "openat2": 437, "creat": 85, "truncate": 76, "mkdir": 83, "mkdirat": 258,
        "mknod": 133, "mknodat": 259, "rmdir": 84, "unlink": 87, "unlinkat": 263, "link": 86, "linkat": 265,
        "symlink": 88, "symlinkat": 266, "rename": 82, "renameat": 264, "renameat2": 316, "chmod": 90, "fchmod": 91,
        "fchmodat": 268, "fchmodat2": 452,
    },
    "aarch64": {**_GENERIC_WRITES, "renameat": 38},
    "riscv64": _GENERIC_WRITES,
}  # fmt: skip
"""Their numbers, by machine; of programs of 32 bits every call is stopped, and the list is no witness."""

MOST_SEEN = 500_000
"""Paths: each takes 150 bytes here, and no build writes so many files."""

LONGEST_PATH = 4096

SAMPLED = 4096
"""Bytes at the beginning and at the end of a file by which its content is known again, with its size."""

LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
"""Why a folder cannot be opened, here as in the program, which has the same rights."""

LOOK_EVERY = 1.0
"""Seconds between two looks at the network's counts: what ends a command that takes too long also ends this process."""

UNROUTED = {"/proc/net/snmp": "OutNoRoutes", "/proc/net/snmp6": "Ip6OutNoRoutes"}
"""Where the kernel counts what had no route: in a table of two lines, and in lines of a name and a number."""

THREADS = 4
"""That receive calls: signals interrupt a call until it is received, so it does not wait until others are looked at."""


def main(arguments: list[str]) -> int:
    """Run the command and return how it ended, as a shell does; a filter that the kernel does not take ends it."""
    most = int(arguments[0])
    witness = int(arguments[1])
    network = int(arguments[2])
    count = int(arguments[3])
    folders = [os.fsencode(folder) for folder in arguments[4 : 4 + count]]
    command = arguments[4 + count :]

    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # here the kernel counts those of the sandbox alone
    machine = os.uname().machine
    refuse_calls(machine)
    # no program traces this process or reads its memory; the command is not affected
    _system().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)

    unrouted = count_unrouted() if network >= 0 else 0
    ours, theirs = _socket.socketpair()
    program = os.fork()
    if program == 0:
        ours.close()
        if network >= 0:
            os.close(network)
        _become(command, theirs, machine, witness)
    theirs.close()
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    if witness >= 0:
        _listen(ours, machine, witness, folders)
    if network >= 0:
        signal.signal(signal.SIGALRM, lambda _number, _frame: note_network(network, unrouted))
        signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == program:
            if network >= 0:
                note_network(network, unrouted)
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def note_network(output: int, before: int) -> None:
    """Write a byte once a program has tried to reach the network."""
    if count_unrouted() > before and os.fstat(output).st_size == 0:
        os.write(output, b"1")


def count_unrouted() -> int:
    """How much had no route, by the counts of the kernel; where it has none, nothing is known."""
    return sum(count_in(file, name) for file, name in UNROUTED.items())


def count_in(file: str, name: str) -> int:
    """A count of the kernel: the number after its name, or in the line below that and as far to the right."""
    try:
        with open(file, encoding="ascii") as table:  # noqa: PTH123 - `pathlib` takes longer to load than all of this
            lines = [line.split() for line in table]
    except OSError:
        return 0
    for number, words in enumerate(lines):
        if words[:1] == [name]:
            return int(words[1])
        if name in words:
            return int(lines[number + 1][words.index(name)])
    return 0


def _become(command: list[str], channel: "_socket.socket", machine: str, witness: int) -> None:
    """Turn the forked child into the command; does not return."""
    try:
        if witness >= 0:
            os.close(witness)
            try:
                listener = install(writing_filter(machine), machine, listens=True)
            except (OSError, KeyError) as error:
                channel.sendmsg([f"!{error}".encode()])
            else:
                descriptor = struct.pack("i", listener)
                channel.sendmsg([b"="], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])
                os.close(listener)
        channel.close()
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would hand that on
            signal.signal(ignored, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode("utf-8", "replace"))
    except BaseException as error:  # noqa: BLE001 - a forked child must not go on as a second init
        os.write(2, f"{command[0]} cannot be started: {error!r}\n".encode("utf-8", "replace"))
    os._exit(1)


def _system() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def refuse_calls(machine: str) -> None:
    """Take a new, empty session keyring, and let the system calls that are refused fail from now on.

    Raises:
        OSError: the kernel takes no filter.
    """
    known = SYSTEM_CALLS.get(machine)
    if known is None:
        return
    # may fail where a container's own filter forbids it
    _system().syscall(next(iter(known.values()))["keyctl"], KEYCTL_JOIN_SESSION_KEYRING, None)
    install(refusing_filter(known), machine)


def install(lines: list[tuple[int, int, int, int]], machine: str, *, listens: bool = False) -> int:
    """Have the kernel use a filter from now on; returns its listener, if one is wanted.

    Raises:
        OSError: the kernel takes no filter.
    """
    system = _system()
    program = b"".join(struct.pack("HBBI", *line) for line in lines)
    text = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_void_p))

    filtering = Program(len(program) // 8, ctypes.addressof(text))
    if system.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")
    if not listens:  # by the older call, which also a service without `seccomp` in its SystemCallFilter= may use
        if system.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filtering), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")
        return -1
    flags = SECCOMP_FILTER_FLAG_NEW_LISTENER
    for way in (flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, flags):
        listener = system.syscall(SECCOMP[machine], SECCOMP_SET_MODE_FILTER, way, ctypes.byref(filtering))
        if listener >= 0:
            return int(listener)
    raise OSError(ctypes.get_errno(), "the kernel gives no listener")


def refusing_filter(known: dict[int, dict[str, int]]) -> list[tuple[int, int, int, int]]:
    """Make the filter of what is refused: lines of operation, steps if so, steps if not, and value."""
    refuse = (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.ENOSYS)
    allow = (RETURN, 0, 0, SECCOMP_RET_ALLOW)
    lines = []
    for architecture, named in known.items():
        numbers = {**_EVERYWHERE, **named}
        block = [(LOAD, 0, 0, NUMBER), (IF_AT_LEAST, 0, 1, X32), refuse]
        for name in REFUSED:
            if name in numbers:
                block += [(IF_EQUAL, 0, 1, numbers[name]), refuse]
        for name, (argument, bit) in REFUSED_WITH.items():
            check = [(LOAD, 0, 0, ARGUMENTS + 8 * argument), (IF_ANY_BIT, 0, 1, bit)]
            block += [(IF_EQUAL, 0, 4, numbers[name]), *check, (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EPERM), allow]
        check = [(LOAD, 0, 0, ARGUMENTS), (IF_EQUAL, 0, 1, AF_VSOCK)]
        no_family = (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EAFNOSUPPORT)
        block += [(IF_EQUAL, 0, 4, numbers["socket"]), *check, no_family, allow, allow]
        lines += [(LOAD, 0, 0, ARCHITECTURE), (IF_EQUAL, 0, len(block), architecture), *block]
    return [*lines, refuse]


def writing_filter(machine: str) -> list[tuple[int, int, int, int]]:
    """Make the filter that stops what may change a file.

    Raises:
        KeyError: the numbers are not known for this machine.
    """
    notify = (RETURN, 0, 0, SECCOMP_RET_USER_NOTIF)
    allow = (RETURN, 0, 0, SECCOMP_RET_ALLOW)
    native = next(iter(SYSTEM_CALLS[machine]))
    lines = [(LOAD, 0, 0, ARCHITECTURE), (IF_EQUAL, 1, 0, native), notify, (LOAD, 0, 0, NUMBER)]
    for name, number in WRITES[machine].items():
        if name in ("open", "openat"):  # most only read
            flags = ARGUMENTS + 8 * (1 if name == "open" else 2)
            lines += [(IF_EQUAL, 0, 4, number), (LOAD, 0, 0, flags), (IF_ANY_BIT, 0, 1, WRITING), notify, allow]
        else:
            lines += [(IF_EQUAL, 0, 1, number), notify]
    return [*lines, allow]


def _listen(channel: "_socket.socket", machine: str, witness: int, folders: list[bytes]) -> None:
    """Take the listener from the child, and look at its calls from now on."""
    said, passed, _, _ = channel.recvmsg(512, _socket.CMSG_SPACE(4))
    channel.close()
    if not passed:
        os.write(witness, b"!" + said[1:] + b"\0")
        return
    listener = struct.unpack("i", passed[0][2])[0]
    try:  # noqa: SIM105 - `contextlib` takes longer to load than all that is done here
        fcntl.ioctl(listener, NOTIF_SET_FLAGS, FD_SYNC_WAKE_UP)
    except OSError:
        pass
    os.write(witness, b"+\0")
    seen = Witness(machine, witness, folders)
    for _ in range(THREADS):
        _thread.start_new_thread(seen.serve, (listener,))


def is_waiting(listener: int, number: int) -> bool:
    """Whether a call still waits: it does not where its process was killed meanwhile, and then little can be read."""
    try:
        fcntl.ioctl(listener, NOTIF_IS_VALID, struct.pack("Q", number))
    except OSError as error:
        return error.errno != errno.ENOENT
    return True


class CallFails(Exception):
    """A call that is looked at can change nothing."""


class Witness:
    """Writes down the names in system calls that may change a file below folders."""

    def __init__(self, machine: str, output: int, folders: list[bytes]) -> None:
        numbers = WRITES[machine]
        self._names = {number: NAMES_OF_CALLS[name] for name, number in numbers.items()}
        self._renames = {numbers.get(name) for name in ("rename", "renameat", "renameat2")}
        self._exchanges = numbers.get("renameat2")
        self._links = {number: LINKED[name] for name, number in numbers.items() if name in LINKED}
        self._native = next(iter(SYSTEM_CALLS[machine]))
        self._output = output
        self._folders = folders
        self._one = _thread.allocate_lock()
        self._seen: set[bytes] = set()
        self._length = 0

    def serve(self, listener: int) -> None:
        """Look at each call and let it go on, for as long as there is a process with the filter."""
        call = bytearray(80)
        while True:
            call[:] = bytes(80)
            try:
                fcntl.ioctl(listener, NOTIF_RECEIVE, call)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):  # the process was killed meanwhile
                    continue
                return
            number, process, _, system_call, architecture, _, *values = struct.unpack("QIIiIQ6Q", call)
            try:
                self._look(process, system_call, architecture, values)
            except (FileNotFoundError, CallFails):
                pass  # it changes nothing
            except Exception as error:  # noqa: BLE001 - the process waits, whatever is wrong here
                if is_waiting(listener, number):
                    self.write(b"!", repr(error).encode())
            try:
                fcntl.ioctl(listener, NOTIF_SEND, struct.pack("QqiI", number, 0, 0, USER_NOTIF_FLAG_CONTINUE))
            except OSError:
                continue

    def _look(self, process: int, system_call: int, architecture: int, values: list[int]) -> None:
        if architecture != self._native:
            self.write(b"!", b"a program of 32 bits")
            return
        kind = b"/" if system_call in self._renames else b"="
        first = []
        if system_call in self._links:
            first.append(self._found(process, self._links[system_call], values)[0][0])
        for place in self._names[system_call]:
            found = self._found(process, place, values)
            first.append(found[0][0])
            for name, about in found:
                if self._is_below(name):
                    self.write(kind, name, about)
        if len(first) == 2 and self._is_below(first[0]) and self._is_below(first[1]):
            self._write_move(first[0], first[1])
            if system_call == self._exchanges and values[4] & RENAME_EXCHANGE:
                self._write_move(first[1], first[0])

    def _is_below(self, name: bytes) -> bool:
        return any(name == folder or name.startswith(folder + b"/") for folder in self._folders)

    def _write_move(self, name: bytes, target: bytes) -> None:
        self.write(b">", b"%d %b%b" % (len(name), name, target))

    def _found(
        self, process: int, place: "tuple[int | None, int | None]", values: list[int]
    ) -> "list[tuple[bytes, os.stat_result | None]]":
        """The names that arguments lead to, with what is there now."""
        folder, path = place
        descriptor = AT_FDCWD if folder is None else ctypes.c_int(values[folder] & 0xFFFFFFFF).value
        return self._real(process, descriptor, self._text(process, values[path]) if path is not None else b"")

    def _text(self, process: int, address: int) -> bytes:
        """A text in the memory of a process, read page by page."""
        memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = b""
            while b"\0" not in text and len(text) < LONGEST_PATH:
                at = address + len(text)
                try:
                    page = os.pread(memory, 4096 - at % 4096, at)
                except OSError as error:
                    if error.errno == errno.EIO:  # no memory is there
                        raise CallFails from error
                    raise
                if not page:
                    raise ProcessLookupError  # it was killed meanwhile, and its memory is gone
                text += page
        finally:
            os.close(memory)
        return text.partition(b"\0")[0]

    def _real(self, process: int, descriptor: int, path: bytes) -> "list[tuple[bytes, os.stat_result | None]]":
        """The name itself, its folder without links; and what it leads to, if it is a link."""
        if not path.startswith(b"/"):
            base = b"cwd" if descriptor == AT_FDCWD else b"fd/%d" % descriptor
            start = os.readlink(b"/proc/%d/%s" % (process, base))  # noqa: PTH115 - bytes
            path = start + b"/" + path if path else start
        folder, _, name = path.rstrip(b"/").rpartition(b"/")
        if name in (b"", b".", b".."):
            real = os.path.realpath(path)
            return [(real, status_of(real))]
        try:
            opened = os.open(folder or b"/", os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in LEADS_NOWHERE:
                raise CallFails from error
            raise
        try:
            real = os.readlink(b"/proc/self/fd/%d" % opened).rstrip(b"/") + b"/" + name  # noqa: PTH115
        finally:
            os.close(opened)
        there = status_of(real)
        if there is None or not stat.S_ISLNK(there.st_mode):
            return [(real, there)]
        target = os.path.realpath(real)
        return [(real, there), (target, status_of(target))]

    def write(self, kind: bytes, text: bytes, about: "os.stat_result | None" = None) -> None:
        """Write an entry down, unless it is in the list already."""
        entry = kind + text
        with self._one:  # the daemon may empty the list at any moment; then it is shorter than it was left here
            length = os.fstat(self._output).st_size
            if length < self._length:
                self._seen.clear()
            if entry in self._seen or len(self._seen) > MOST_SEEN:
                return
            if len(self._seen) == MOST_SEEN:
                kind, text = b"!", b"too many files"
            if kind in b"=/":
                text = status_text(text, about) + b" " + text
            self._length = length + os.write(self._output, kind + text + b"\0")
            self._seen.add(entry)  # only then: another thread lets its call go on for what is in there


def status_of(path: bytes) -> "os.stat_result | None":
    """What is there; None where nothing is."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def status_text(path: bytes, about: "os.stat_result | None") -> bytes:
    """What is at a path as an entry has it; empty where nothing is."""
    if about is None:
        return b""
    text = b"%d,%d,%d,%d" % (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ino)
    if stat.S_ISREG(about.st_mode) and about.st_size:
        text += b"," + sample_of(path)
    return text


def sample_of(path: bytes) -> bytes:
    """A checksum of the beginning and the end of a file; empty where it cannot be read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        text = os.pread(opened, SAMPLED, 0)
        size = os.fstat(opened).st_size
        if size > SAMPLED:
            text += os.pread(opened, SAMPLED, max(SAMPLED, size - SAMPLED))
    except OSError:
        return b""
    finally:
        os.close(opened)
    return b"%08x" % binascii.crc32(text)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
