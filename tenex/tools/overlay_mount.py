"""Mounts an overlay over the workspace, seen by one program alone, and becomes that program.

It is run as a file, `python -I -S -B overlay_mount.py <workspace> <upper> <work> <command> ...`. The mount is in a
mount namespace of its own, and no privilege is needed: it is made in a new user namespace. It vanishes with the
program. Where the system does not permit it, it ends with `NOT_MOUNTED`, and the program does not run.
"""

import ctypes
import os
import sys

CLONE_NEWNS = 0x20000
CLONE_NEWUSER = 0x10000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1
SIGKILL = 9
ALL_IDS = 4294967295

NOT_MOUNTED = 121
"""The exit status where there is no overlay; no common program ends with it."""


def main(arguments: list[str]) -> None:
    """Mount and become the command."""
    root, upper, work, *command = arguments
    parent = os.getppid()
    folder = os.getcwd()  # noqa: PTH109 - `pathlib` takes longer to load than all that is done here
    try:
        _enter_namespaces()
        layers = (("lowerdir", root), ("upperdir", upper), ("workdir", work))
        # `volatile`: the layers are thrown away, so nothing of them has to be on the disk
        options = ",".join([*(f"{name}={escaped(path)}" for name, path in layers), "userxattr", "volatile"])
        flags = MS_NOSUID | MS_NODEV
        _check(_system().mount(b"overlay", os.fsencode(root), b"overlay", flags, os.fsencode(options)), "mount")
        os.chdir(folder)  # the same path, in the overlay
    except OSError as error:
        os.write(2, f"overlay: {error}\n".encode())
        os._exit(NOT_MOUNTED)
    _system().prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)  # new credentials may have cleared it
    if os.getppid() != parent:
        os._exit(NOT_MOUNTED)
    os.execv(command[0], command)  # noqa: S606 - no shell is the point


def escaped(path: str) -> str:
    """A path as the options of an overlay have it."""
    return "".join(f"\\{letter}" if letter in "\\:," else letter for letter in path)


def _enter_namespaces() -> None:
    """Enter a user namespace with the same ids, and a mount namespace whose mounts no other process sees.

    Root maps all ids; anybody else can map only their own, so files of others cannot be written in the overlay.
    """
    user = os.geteuid()
    group = os.getegid()
    if user == 0 and _has_all_ids():
        _enter_with_all_ids()
    else:
        _check(_system().unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _check(_system().mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


def _enter_with_all_ids() -> None:
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
        _check(_system().unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
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
