"""The sandbox: bubblewrap's command line, and the question whether it works on this machine.

Inside, a program sees the system's programs, Python and the workspace, all read-only unless told otherwise, an empty
/tmp that vanishes with it, no network and no other process. Where the workspace may be written to, its `.git` may not:
a hook or a setting planted there would run when a person next uses git, outside.

Never: fall back to running without it; the operator decides that.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import structlog

HOME: Final = "/tmp/home"  # noqa: S108 - inside the sandbox, where /tmp is its own
PROBE_DEADLINE: Final = 10.0
"""Seconds: starting it takes about 20 ms; a machine that needs longer cannot be used this way."""

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_FILES: Final = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_NETWORK_FILES: Final = ("/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates", "/etc/pki")
_log = structlog.get_logger(__name__)


def clean_environment(scratch: str) -> dict[str, str]:
    """All a program gets to know of where it runs: no keys, no names, no proxies."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": scratch, "TMPDIR": scratch}


def wrapped(
    root: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    can_write: bool = False,
    network: bool = False,
    files: Mapping[str, Path] | None = None,
) -> list[str] | None:
    """The command that runs `command` in the sandbox; None where there is no bubblewrap.

    Args:
        root: the workspace, its real path.
        command: what runs, and its arguments.
        environment: all it gets.
        cwd: where it starts; the workspace unless given.
        can_write: whether the workspace may be written to, but for `.git`.
        network: whether it shares the machine's network, services on this machine included.
        files: further files it sees, read-only, by where it sees them.
    """
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        return None
    line = [bubblewrap, "--die-with-parent", "--unshare-all", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    if network:
        line.append("--share-net")
    for name, value in environment.items():
        line += ["--setenv", name, value]
    for folder in _SYSTEM:
        if Path(folder).is_symlink():
            line += ["--symlink", str(Path(folder).readlink()), folder]
        else:
            line += ["--ro-bind-try", folder, folder]
    for file in (*_FILES, *(_NETWORK_FILES if network else ())):
        line += ["--ro-bind-try", file, file]
    for place, file in (files or {}).items():
        line += ["--ro-bind", str(file), place]
    line += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", HOME]  # noqa: S108 - as above
    # a folder within another comes after it, or it would not be seen
    for folder in sorted({sys.base_prefix, sys.prefix, str(root)} - set(_SYSTEM)):
        line += ["--bind" if can_write and folder == str(root) else "--ro-bind", folder, folder]
    own = root / ".git"
    if can_write and own.exists() and not own.is_symlink():
        line += ["--ro-bind", str(own), str(own)]
    return [*line, "--remount-ro", "/", "--chdir", str(cwd or root), "--", *command]


def probe_bubblewrap() -> bool:
    """Whether a program really runs in the sandbox here and really cannot write there; blocks, up to ten seconds.

    Where bubblewrap is missing or user namespaces are forbidden (most containers) it says no, and logs why.
    """
    with tempfile.TemporaryDirectory(prefix="tenex-probe-") as folder:
        root = Path(folder).resolve()
        script = "import sys\ntry: open('x', 'w')\nexcept OSError: print('confined', sys.argv[1])"
        command = [sys.executable, "-I", "-B", "-c", script, root.name]
        line = wrapped(root, command, clean_environment(HOME))
        if line is None:
            _log.info("sandbox.absent", program="bwrap")
            return False
        try:
            done = subprocess.run(
                line, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_DEADLINE, check=False,
                env=clean_environment(HOME),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.warning("sandbox.broken", error=type(error).__name__)
            return False
        works = done.returncode == 0 and done.stdout.decode("utf-8", "replace").split() == ["confined", root.name]
        if not works:
            _log.warning("sandbox.broken", status=done.returncode, said=done.stderr.decode("utf-8", "replace")[:200])
        return works
