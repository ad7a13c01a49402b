"""Namespaces of programs of the workspace: an overlay of their own, and what several programs share.

It is run as a file, `python -I -S -B namespaces.py <what> ...`:

    overlay <workspace> <upper> <work> <command> ...     mounts an overlay for one program, and becomes that program
    make <socket> <network> [<workspace> <upper> <work>] makes namespaces, and sends them through the socket
    join <user> <mount> <network> <command> ...          enters such namespaces, and becomes the command
    listen <socket> <user> <network> <count>             listens on the loopback of such a network, sends the sockets

A namespace is sent as an open file: it lasts as long as somebody holds that file or a process is in it. So no process
waits in it, and the kernel ends it with the daemon. A socket stays in the network in which it was made, also where
another process holds it: so the daemon accepts connections from a network that it is not in. With `make`, `network` is
1 for a network in which nothing but its own loopback is reached, and 0 for none; with the three folders it has a mount
namespace with an overlay. With `join` the numbers are of open files, -1 where the program stays where it is.

No privilege is needed: all is in a new user namespace. Where the system does not permit it, it ends with `NOT_MOUNTED`,
and the program does not run.
"""

import ctypes
import os
import sys

CLONE_NEWNS = 0x20000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1
SIGKILL = 9
ALL_IDS = 4294967295
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
BACKLOG = 64
"""Connections that may wait until they are accepted."""

NOT_MOUNTED = 121
"""The exit status where there are no such namespaces; no common program ends with it."""


def main(arguments: list[str]) -> None:
    """Do what the first argument says."""
    what, *rest = arguments
    try:
        if what in ("make", "listen"):
            _make(*rest) if what == "make" else _listen(*rest)
            return
        command = _mounted(*rest) if what == "overlay" else _joined(*rest)
    except OSError as error:
        os.write(2, f"namespaces: {error}\n".encode())
        os._exit(NOT_MOUNTED)
    os.execv(command[0], command)  # noqa: S606 - no shell is the point


def _mounted(root: str, upper: str, work: str, *command: str) -> list[str]:
    """Enter namespaces of our own with an overlay over the workspace."""
    parent = os.getppid()
    folder = os.getcwd()  # noqa: PTH109 - `pathlib` takes longer to load than all that is done here
    _enter_namespaces(CLONE_NEWNS)
    _mount_overlay(root, upper, work)
    os.chdir(folder)  # the same path, in the overlay
    _die_with(parent)
    return list(command)


def _make(channel: str, network: str, *layers: str) -> None:
    """Make namespaces and send them: of the user, of mounts and of the network, where they are wanted."""
    kinds = ["user"]
    flags = 0
    if layers:
        kinds.append("mnt")
        flags |= CLONE_NEWNS
    if network == "1":
        kinds.append("net")
        flags |= CLONE_NEWNET
    _enter_namespaces(flags)
    if layers:
        _mount_overlay(*layers)
    if network == "1":
        _bring_loopback_up()
    _send(channel, [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds])


def _listen(channel: str, user: str, network: str, count: str) -> None:
    """Enter a network, listen at so many ports of its loopback that the kernel chooses, and send the sockets."""
    import _socket

    _enter(user, CLONE_NEWUSER)
    _enter(network, CLONE_NEWNET)
    listening = []
    for _ in range(int(count)):
        opened = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        opened.bind(("127.0.0.1", 0))
        opened.listen(BACKLOG)
        listening.append(opened)
    _send(channel, [opened.fileno() for opened in listening])


def _send(channel: str, opened: list[int]) -> None:
    """Send open files through a socket."""
    import _socket
    import struct

    sending = _socket.socket(fileno=int(channel))
    sending.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(opened)}i", *opened))])


def _joined(user: str, mount: str, network: str, *command: str) -> list[str]:
    """Enter namespaces that were made before; of the user first, which gives the right to enter the others."""
    parent = os.getppid()
    folder = os.getcwd()  # noqa: PTH109
    _enter(user, CLONE_NEWUSER)
    for text, kind in ((network, CLONE_NEWNET), (mount, CLONE_NEWNS)):
        if text != "-1":
            _enter(text, kind)
    for text in (user, network, mount):
        if text != "-1":
            os.close(int(text))  # the command gets no handle of a namespace
    os.chdir(folder)  # the same path, in the overlay
    _die_with(parent)
    return list(command)


def _enter(number: str, kind: int) -> None:
    """Enter a namespace that is open by this number."""
    _check(_system().setns(int(number), kind), "setns")


def _bring_loopback_up() -> None:
    """Give the network namespace its loopback; the kernel adds 127.0.0.1 and ::1."""
    import _socket
    import fcntl
    import struct

    asking = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(asking.fileno(), SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    asking.close()


def _mount_overlay(root: str, upper: str, work: str) -> None:
    """Mount an overlay over the workspace."""
    layers = (("lowerdir", root), ("upperdir", upper), ("workdir", work))
    # `volatile`: the layers are thrown away, so nothing of them has to be on the disk
    options = ",".join([*(f"{name}={escaped(path)}" for name, path in layers), "userxattr", "volatile"])
    flags = MS_NOSUID | MS_NODEV
    _check(_system().mount(b"overlay", os.fsencode(root), b"overlay", flags, os.fsencode(options)), "mount")


def _die_with(parent: int) -> None:
    """Have the kernel end this process with its parent: new credentials may have cleared that."""
    _system().prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(NOT_MOUNTED)


def escaped(path: str) -> str:
    """A path as the options of an overlay have it."""
    return "".join(f"\\{letter}" if letter in "\\:," else letter for letter in path)


def _enter_namespaces(flags: int) -> None:
    """Enter a user namespace with the same ids, and others; mounts of a mount namespace are seen by no other process.

    Root maps all ids; anybody else can map only their own, so files of others cannot be written in the overlay.
    """
    user = os.geteuid()
    group = os.getegid()
    if user == 0 and _has_all_ids():
        _enter_with_all_ids(flags)
    else:
        _check(_system().unshare(CLONE_NEWUSER | flags), "unshare")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    if flags & CLONE_NEWNS:
        _check(_system().mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


def _enter_with_all_ids(flags: int) -> None:
    """Have a child that stays outside write the maps: from inside that is not permitted."""
    main_process = os.getpid()
    reading, writing = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(writing)
        os.read(reading, 1)  # until we are inside
        status = 0
        try:
            for kind in ("uid", "gid"):
                _write(f"/proc/{main_process}/{kind}_map", f"0 0 {ALL_IDS}")
        except OSError:
            status = 1
        os._exit(status)
    os.close(reading)
    try:
        _check(_system().unshare(CLONE_NEWUSER | flags), "unshare")
    finally:
        os.close(writing)
        _, status = os.waitpid(helper, 0)
    _check(status, "the map of ids")


def _has_all_ids() -> bool:
    """Whether our own user namespace has all ids, as outside of containers."""
    with open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123
        return file.read().split() == ["0", "0", str(ALL_IDS)]


def _write(path: str, text: str) -> None:
    opened = os.open(path, os.O_WRONLY)
    try:
        os.write(opened, text.encode())
    finally:
        os.close(opened)


def _system() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
