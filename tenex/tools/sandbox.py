"""The sandbox: bubblewrap's command line, and the question whether it works on this machine.

Inside, a program sees the system's programs and the workspace, all read-only by default, an empty /tmp that vanishes
with it, no network and no other process. Where the workspace may be written to, repositories in it
may not: a hook or a setting planted there would run when a person next uses git, outside.
"""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from tenex.log import get_logger

from . import restore
from .daemon_programs import find_program
from .process import PROBE_DEADLINE, probe
from .project_environment import SYSTEM, SYSTEM_PATH
from .tool import Refusal
from .toolchains import PARTS

HOME: Final = "/tmp/home"  # noqa: S108 - inside the sandbox, where /tmp is its own
_INIT: Final = "/.init"
"""Where the sandbox has the file of `sandbox_init`."""

SETTINGS: Final = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives"),
    *("localtime", "locale.alias", "mime.types", "fonts"),
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf", "crypto-policies"),
    *("pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf"),
    *("java", "java-*", "maven*/logging", "maven*/m2.conf", "maven*/toolchains.xml"),
    *("perl", "php", "php.ini", "php.d", "python3*", "ruby*"),
)
"""Patterns below /etc: what interpreters, compilers and libraries of the system read there, of Debian and of Fedora.

`maven/settings.xml`, `npmrc` and private keys are not among them: these may hold passwords.
"""

_NETWORK_FILES: Final = ("/etc/resolv.conf", "/etc/hosts")
NO_RESOLVER: Final = "nameserver 192.0.2.1\noptions attempts:1\n"
"""`/etc/resolv.conf` where there is no network: an address that no machine has (RFC 5737). So a question for a name
fails at once, and the kernel counts it as without a route (`sandbox_init`)."""
_KEY_FILES: Final = ("/proc/keys", "/proc/key-users")
"""Names of keys of the user, also those outside."""
LARGEST_SCRATCH: Final = 2 * 1024**3
"""Bytes of /tmp, and of shared memory: both are the machine's memory, half of which they could take otherwise."""

MOST_PROCESSES: Final = 1_280
"""Threads count too; above what the supervisor stops, for the moments between two of its counts. Not for root."""

_log = get_logger(__name__)


class RunPolicy(StrEnum):
    """How programs of agents run."""

    SANDBOXED = "sandboxed"
    UNSANDBOXED = "unsandboxed"
    """With all rights of the daemon's user, where the operator has set that."""
    OFF = "off"


class SandboxMissing(Refusal):
    """There is no bubblewrap."""


@asynccontextmanager
async def scratch_folder(inside: Path | None) -> AsyncIterator[Path]:
    """An empty folder for one program, in the system's unless given; it is removed whatever the program did to it."""
    folder = Path(tempfile.mkdtemp(prefix="tenex-run-", dir=inside))
    try:
        yield folder
    finally:
        await asyncio.to_thread(restore.clear_away, folder)


def clean_environment(scratch: str) -> dict[str, str]:
    """All a program gets to know of where it runs: no keys, no names, no proxies."""
    return {"PATH": ":".join(SYSTEM_PATH), "LANG": "C.UTF-8", "HOME": scratch, "TMPDIR": scratch}


def wrapped(
    root: Path,
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    *,
    cwd: Path | None = None,
    can_write: bool = False,
    network: bool = False,
    files: Mapping[str, Path] | None = None,
    folders: Iterable[Path] = (),
    private: Iterable[Path] = (),
    protected: Iterable[Path] = (),
    scratch: Path | None = None,
    mount: Sequence[str] = (),
    opened: Iterable[tuple[str, Path]] = (),
    witness: int = -1,
    watched: Iterable[Path] = (),
    attempts: int = -1,
    joins: bool = False,
) -> list[str]:
    """The command that runs `command` in the sandbox.

    Args:
        root: the workspace, its real path.
        command: what runs, and its arguments.
        environment: all it gets; None for that which bubblewrap is started with: a command line can be read by every
            user of the machine.
        cwd: where it starts; the workspace unless given.
        can_write: whether the workspace may be written to.
        network: whether it shares the machine's network, services on this machine included.
        files: further files and folders it sees, read-only, by where it sees them.
        folders: further folders and files it sees, read-only, in their own places.
        private: where it has an empty folder of its own, which it may write to; what of `folders` is in it is seen.
        protected: what is in the workspace and may not be written to all the same; no links.
        scratch: the folder that it has as /tmp; an empty one that vanishes with it unless given.
        mount: the options of the workspace in its place (`workspace_view`); the workspace itself unless given.
        opened: what of `protected` and `folders` may be written to all the same: options and folders, in order.
        witness: the descriptor to which `sandbox_init` writes what it changes in the workspace; -1 for none.
        watched: further folders in which it sees what the command tries to change.
        attempts: the descriptor to which it writes whether the command has tried to reach a network; -1 for none.
        joins: whether it stays in the network that it is started in, which has a loopback alone (`shared_namespaces`).

    Raises:
        SandboxMissing: there is no bubblewrap.
    """
    bubblewrap = find_program("bwrap", root)
    if bubblewrap is None:
        raise SandboxMissing("Nothing can be run: the sandbox (bubblewrap) is gone. The operator has to fix that.")
    line = [bubblewrap, "--die-with-parent", "--unshare-all", "--unshare-user", "--new-session", "--as-pid-1"]
    line += ["--cap-drop", "ALL", *(["--disable-userns"] if _can_forbid_namespaces(bubblewrap) else [])]
    line += [*(["--share-net"] if network or joins else []), *_variables(environment)]
    for folder in SYSTEM:
        if Path(folder).is_symlink():
            line += ["--symlink", str(Path(folder).readlink()), folder]
        else:
            line += ["--ro-bind-try", folder, folder]
    for file in (*_settings(), *(_NETWORK_FILES if network else ())):
        line += ["--ro-bind-try", file, file]
    own_init = Path(__file__).with_name("sandbox_init.py")
    for place, file in {**(files or {}), _INIT: own_init}.items():
        line += ["--ro-bind", str(file), place]
    line += [*_machinery(bubblewrap, scratch), "--dir", HOME]
    mounts = {str(folder): "--tmpfs" for folder in private}
    mounts |= {str(folder): "--ro-bind" for folder in folders}
    mounts[str(root)] = "--bind" if can_write else "--ro-bind"
    init, needed = _init_interpreter()
    mounts |= dict.fromkeys(needed, "--ro-bind")
    for prefix in (Path(sys.base_prefix), Path(sys.prefix)):
        mounts |= _our_python(prefix, root, can_write=can_write)
    if scratch is not None:
        for place in (HOME, *mounts):
            _clear_place(scratch, place)
    # a folder within another comes after it, or it would not be seen
    for place, kind in sorted(mounts.items()):
        line += mount if mount and place == str(root) else _mounted(kind, place, bubblewrap)
    shut = (("--ro-bind-try", path) for path in protected) if can_write else ()
    for option, path in (*shut, *opened):
        line += [option, str(path), str(path)]
    line += ["--remount-ro", "/", "--chdir", str(cwd or root), "--"]
    seen = [str(folder) for folder in (root, *watched)]
    numbers = [str(MOST_PROCESSES), str(witness), str(attempts), str(len(seen))]
    return [*line, init, "-I", "-S", "-B", _INIT, *numbers, *seen, *command]


def _settings() -> Iterator[str]:
    """The settings of the system's programs that are there and that every user of the machine may read."""
    for pattern in SETTINGS:
        for place in sorted(Path("/etc").glob(pattern)):
            try:
                is_public = bool(place.stat().st_mode & stat.S_IROTH)
            except OSError:
                continue
            if is_public:
                yield str(place)


def _variables(environment: Mapping[str, str] | None) -> Iterator[str]:
    """The options that give a program its environment and nothing else."""
    if environment is not None:
        yield "--clearenv"
        for name, value in environment.items():
            yield from ("--setenv", name, value)


def _clear_place(scratch: Path, place: str) -> None:
    """Remove what a program has put where something is mounted next: bubblewrap would follow a link."""
    if not Path(place).is_relative_to("/tmp"):  # noqa: S108 - in the sandbox
        return
    folder = scratch
    for name in Path(place).parts[2:]:
        folder = folder / name
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()


def _machinery(bubblewrap: str, scratch: Path | None) -> list[str]:
    """/proc, /dev and /tmp."""
    size = _size(bubblewrap)
    line = ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm"]  # noqa: S108
    line += [*size, "--tmpfs", "/tmp"] if scratch is None else ["--bind", str(scratch), "/tmp"]  # noqa: S108
    if os.geteuid() == 0:  # root owns the machine's settings inside too, and an owner needs no privilege to write
        line += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for file in _KEY_FILES:
        if Path(file).exists():
            line += ["--ro-bind", os.devnull, file]
    return [*line, "--remount-ro", "/dev"]


@cache
def _init_interpreter() -> tuple[str, tuple[str, ...]]:
    """The Python that `sandbox_init` is run by, and the folders it needs that are not the system's.

    It is the system's where that has one: then nothing of the daemon's is seen in the sandbox.
    """
    ours = getattr(sys, "_base_executable", "") or sys.executable
    if any(Path(os.path.realpath(ours)).is_relative_to(folder) for folder in SYSTEM):
        return ours, ()
    for folder in SYSTEM_PATH:
        found = f"{folder}/python3"
        try:
            needs = [found, "-I", "-S", "-B", "-c", "import ctypes, resource, sys; sys.exit(sys.version_info < (3, 9))"]
            done = subprocess.run(needs, capture_output=True, timeout=PROBE_DEADLINE, check=False, cwd="/", env={})
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return found, ()
    needed = (Path(sys.base_prefix) / name for name in PARTS)
    return ours, tuple(str(folder) for folder in needed if folder.is_dir())


def _our_python(prefix: Path, root: Path, *, can_write: bool) -> dict[str, str]:
    """How the folder of the daemon's Python is mounted where it lies in the workspace, by place: never writable."""
    if not prefix.is_relative_to(root):
        return {}
    # what is mounted on cannot be renamed, so it cannot be replaced
    above = [folder for folder in prefix.parents if folder != root and folder.is_relative_to(root)]
    return {str(folder): "--bind" if can_write else "--ro-bind" for folder in above} | {str(prefix): "--ro-bind"}


def _mounted(kind: str, place: str, bubblewrap: str) -> list[str]:
    """The options of a folder in its own place, or of an empty one there."""
    return [*_size(bubblewrap), kind, place] if kind == "--tmpfs" else [kind, place, place]


def _size(bubblewrap: str) -> list[str]:
    """The option that bounds the next folder in memory, where this bubblewrap has it."""
    return ["--size", str(LARGEST_SCRATCH)] if _can_size(bubblewrap) else []


@cache
def _can_size(bubblewrap: str) -> bool:
    """Whether this bubblewrap bounds what it keeps in memory (since 0.7)."""
    try:
        done = subprocess.run([bubblewrap, "--help"], capture_output=True, timeout=PROBE_DEADLINE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--size" in done.stdout + done.stderr


@cache
def _can_forbid_namespaces(bubblewrap: str) -> bool:
    """Whether bubblewrap can forbid user namespaces in the sandbox (since 0.8), which a masked /proc prevents."""
    options = ["--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "--proc", "/proc"]
    try:
        done = probe([bubblewrap, *options, "/bin/true"], cwd=Path("/"), environment={})
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def probe_bubblewrap() -> bool:
    """Whether a program really runs in the sandbox here and really cannot write there; blocks, up to ten seconds.

    Where bubblewrap is missing or user namespaces are forbidden (most containers) it returns False and logs why.
    """
    return bubblewrap_fault() is None


def bubblewrap_fault() -> str | None:
    """Why no program runs in the sandbox here, in bubblewrap's own words where it has said some; None where one does.

    The text is empty where there is no bubblewrap. Blocks as `probe_bubblewrap` does.
    """
    try:
        # named, for to find one by itself `tempfile` writes into each it knows, and a full disk takes nothing
        place = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the folder made in it has a name of its own
        scratch = tempfile.TemporaryDirectory(prefix="tenex-probe-", dir=place)
    except OSError as error:
        _log.warning("sandbox.broken", error=str(error))
        return f"no folder can be made in {place}: {error.strerror}"
    with scratch as folder:
        root = Path(folder).resolve()
        command = ["/bin/sh", "-c", 'echo x > x || echo confined "$0"', root.name]
        try:
            line = wrapped(root, command, clean_environment(HOME))
            done = probe(line, cwd=root, environment=clean_environment(HOME))
        except SandboxMissing:
            _log.info("sandbox.absent", program="bwrap")
            return ""
        except (OSError, subprocess.TimeoutExpired) as error:
            _log.warning("sandbox.broken", error=type(error).__name__)
            return "it has not ended in time" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        works = done.returncode == 0 and done.stdout.decode("utf-8", "replace").split() == ["confined", root.name]
        if works:
            return None
        said = done.stderr.decode("utf-8", "replace").strip()
        _log.warning("sandbox.broken", status=done.returncode, stderr=said[:200])
        first = next(iter(said.splitlines()), "")
        return first[:200] or f"a program in it was not confined, or ended with {done.returncode}"
