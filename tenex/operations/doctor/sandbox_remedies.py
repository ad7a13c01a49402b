"""What to do where bubblewrap does not work: each way in which it fails is seen, and has its own remedy."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

INSTALL: Final = "install bubblewrap: `apt install bubblewrap`, or `dnf install bubblewrap`"
NEWER: Final = "install bubblewrap 0.5 or newer: this one does not know an option that is needed"
SETUID: Final = "let bubblewrap use user namespaces: `chmod u-s {bwrap}`, as root"
CONTAINER: Final = "let the container make namespaces: the three `unconfined` of config/compose.yaml"
NO_ROOM: Final = "let /tmp be written to, or let TMPDIR name a folder that can be"
UNKNOWN: Final = "look what it says about these words; a program that it starts must be confined"
_SETTINGS: Final = (
    ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
)
"""Settings of the kernel below /proc/sys: the value that forbids user namespaces, and what permits them."""
_CONTAINERS: Final = (".dockerenv", "run/.containerenv")
"""Files that engines put into a container."""


def remedy_of(said: str, bwrap: str | None, root: Path = Path("/")) -> str:
    """What to do about bubblewrap that does not work.

    Args:
        said: its own words, or why it could not be asked.
        bwrap: its path; None where there is none.
        root: where /proc/sys and the marks of containers are looked for.
    """
    if bwrap is None:
        return INSTALL
    if "unknown option" in said.lower():
        return NEWER
    if said.startswith("no folder can be made"):
        return NO_ROOM
    return "; and ".join(_remedies(bwrap, root)) or UNKNOWN


def _remedies(bwrap: str, root: Path) -> Iterator[str]:
    is_container = any((root / mark).exists() for mark in _CONTAINERS)
    where = " on the host" if is_container else ""
    if _is_setuid(bwrap):
        yield SETUID.format(bwrap=bwrap)
    for name, forbids, permits in _SETTINGS:
        if _value(root / "proc" / "sys" / name) == forbids:
            yield f"permit user namespaces{where}: `sysctl -w {permits}`, as root"
    if is_container:
        yield CONTAINER


def _is_setuid(bwrap: str) -> bool:
    try:
        return bool(Path(bwrap).stat().st_mode & stat.S_ISUID)
    except OSError:
        return False


def _value(setting: Path) -> str:
    """The value of a setting of the kernel; "" where it has none."""
    try:
        return setting.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
