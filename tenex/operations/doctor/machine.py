"""The machine: Python and packages, clock, service manager, disk, sandbox and git."""

import importlib.metadata
import importlib.util
import os
import resource
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from tenex.configuration.build import environment_of
from tenex.core.errors import StoreError
from tenex.core.installation import DISTRIBUTION, pip_install
from tenex.operations.workspace_commands import checks_run, containment_of, lacks
from tenex.tools.daemon_programs import find_program
from tenex.tools.git_config import GIT_ALONE, why_no_repository
from tenex.tools.project_needs import ecosystems_found
from tenex.tools.sandbox import bubblewrap_fault

from .findings import Case, Finding, fault, ok, warning
from .sandbox_remedies import remedy_of

MIN_OPEN_FILES: Final = 512
"""200 journals, a socket for each relay, pipes of tools, the index, and room."""
GIT_TIMEOUT: Final = 20.0
"""Seconds `git rev-parse` may take; it needs milliseconds, and a busy machine is no damaged repository."""

DISK_FULL: Final = 50_000_000
"""Bytes: an hour of busy agents fills more."""
DISK_LOW: Final = 1_000_000_000
PROBE: Final = ".doctor."
"""Begins the name of the file that is flushed as a test; another doctor may meet it."""
FLUSHES: Final = 5
SLOW_FLUSH: Final = 0.05
"""Seconds; a reply waits for two flushes or more."""
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_ON_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.s3fs"})


def program(_: Case) -> Iterator[Finding]:
    """Report packages that are missing or of a version that does not fit."""
    try:
        required = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        message = "tenex is not installed as a package, so its requirements are not known"
        yield warning(message, sys.prefix, f"in the checkout: {shlex.quote(sys.executable)} -m pip install .")
        return
    bad = list(unmet_requirements(required))
    for requirement, reason in bad:
        yield fault(reason, sys.prefix, pip_install(requirement=requirement))
    if not bad:
        version = ".".join(map(str, sys.version_info[:3]))
        yield ok(f"Python {version}, and every package in a version that fits", sys.executable)


def unmet_requirements(required: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Requirements that are not met, each with the reason; what only an extra needs may be missing."""
    for name, specifier, marker in ((one.name, one.specifier, one.marker) for one in map(Requirement, required)):
        is_extra = marker is not None and not marker.evaluate({"extra": ""})
        if is_extra and "extra" not in str(marker):
            continue
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if not is_extra:
                yield f"{name}{specifier}", f"{name} is not installed"
            continue
        if not specifier.contains(version, prereleases=True):
            yield f"{name}{specifier}", f"{name} is installed as {version}, and must be {specifier}"


def service(case: Case) -> Iterator[Finding]:
    """Report too few open files, a port that is taken, and traces without their package."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < MIN_OPEN_FILES:
        message = f"only {soft} files may be open at once (up to {hard} are permitted)"
        yield warning(message, "the limit on open files", "raise it: `ulimit -n 4096`, or LimitNOFILE= in the unit")
    host = case.settings.metrics.host
    port = case.settings.metrics.port
    if port is not None and not case.daemon:
        try:
            socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
        except OSError as error:
            message = f"port {port} of {host} cannot be used ({(error.strerror or str(error)).partition(' (')[0]})"
            yield fault(message, "metrics.port", "choose another port, or end the program that uses it")
    if case.settings.traces.endpoint and importlib.util.find_spec("opentelemetry.sdk") is None:
        message = "traces are configured, and OpenTelemetry is not installed"
        yield fault(message, "traces.endpoint", pip_install(extra="otel"))


def disk(case: Case) -> Iterator[Finding]:
    """Report free space, the kind of file system, and how long a flush takes."""
    folder = case.paths.conversations if case.paths.conversations.is_dir() else case.data
    if not folder.is_dir():
        return
    yield free_space(folder)
    for other in (case.paths.workspace, case.paths.checkpoints):
        if other.is_dir() and other.stat().st_dev != folder.stat().st_dev:
            yield free_space(other, is_store=False)
    kind = file_system(folder)
    if kind in _IN_MEMORY:
        yield warning(f"this is a {kind}: everything is lost when the machine stops", folder, "use a folder on a disk")
    elif kind in _ON_NETWORK:
        message = f"this is on the network ({kind}): locks and flushes may not work there"
        yield warning(message, folder, "use a local disk, and copy to the network for a backup")
    elif kind == "overlay":
        yield warning("this is a container's own layer, deleted with the container", folder, "mount a volume there")
    yield _flush(folder)


def free_space(folder: Path, *, is_store: bool = True) -> Finding:
    """How full the disk under a folder is; only where the conversations are stored a full disk is a fault."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    no_files = bool(found.f_files and not found.f_favail)
    message = "no more files can be created" if free >= DISK_LOW else f"only {free / 1e6:.0f} MB are free"
    if not is_store and (free < DISK_FULL or no_files):
        return warning(message, folder, "make room: agents cannot change files, or their changes cannot be restored")
    if is_store and free < DISK_FULL:
        return fault(message, folder, "make room: what cannot be written stops every conversation", StoreError)
    if is_store and free < DISK_LOW:
        return warning(message, folder, "make room before it stops the conversations")
    if is_store and no_files:
        return fault(message, folder, "remove some files: the file system is out of inodes", StoreError)
    return ok(f"{free / 1e9:.1f} GB are free", folder)


def file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The type of the file system a folder is on; empty where it is not known."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        here = folder.resolve()
    except OSError:
        return ""
    known = [(fields[1].replace("\\040", " "), fields[2]) for fields in map(str.split, lines) if len(fields) > 2]
    above = [(len(mount), number, kind) for number, (mount, kind) in enumerate(known) if here.is_relative_to(mount)]
    return max(above, default=(0, 0, ""))[2]  # the last one of a place is the one on top


def _flush(folder: Path) -> Finding:
    seconds = []
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=PROBE, suffix=".tmp", buffering=0) as file:
            for _ in range(FLUSHES):
                start = time.perf_counter()
                file.write(b"x" * 700)
                os.fdatasync(file.fileno())
                seconds.append(time.perf_counter() - start)
    except OSError as error:
        fix = "make room, repair the disk, or give the folder to the user who runs tenex"
        return fault(f"nothing can be written here ({error.strerror})", folder, fix, StoreError)
    typical = statistics.median(seconds)
    if typical > SLOW_FLUSH:
        message = f"a flush to this disk takes {typical * 1000:.0f} ms"
        return warning(message, folder, "every answer waits for several; use a faster disk")
    return ok(f"a flush takes {typical * 1000:.2f} ms", folder)


def sandbox(case: Case) -> Iterator[Finding]:
    """Report whether programs of agents can be confined, and so which tools are on."""
    tools = case.settings.tools
    said = bubblewrap_fault()
    works = said is None
    bwrap = find_program("bwrap", case.paths.workspace)
    remedy = ""
    if said is None:
        yield ok("programs of agents run in a sandbox (bubblewrap)", bwrap or "")
    else:
        remedy = remedy_of(said, bwrap)
        reason = f"does not work here ({said})" if bwrap else "is not installed"
        yield warning(f"bubblewrap {reason}, so there is no sandbox", bwrap or "tools", remedy)
    if tools.shell.network and tools.shell.sandbox != "off":
        message = "commands of agents may use the network"
        yield warning(message, "tools.shell.network", "set it to false, unless their work needs it")
    is_offline = {name for chain in case.settings.models.named().values() for name in chain} == {"offline"}
    for setting, value, unconfined, tool in (
        ("tools.shell.sandbox", tools.shell.sandbox, "none", "a shell"),
        ("tools.check", tools.check, "on", "a tool that runs what they wrote"),
    ):
        if value == "off":
            yield ok(f"agents do not have {tool}, as configured", setting)
        elif setting == "tools.check" and value == "auto" and not is_offline:
            yield ok(f"only the offline model has {tool}", setting)
        elif works and value != "none":
            yield ok(f"agents have {tool}, in the sandbox", setting)
        elif value == unconfined:
            yield warning(f"agents have {tool}, with all rights of this user", setting, 'set it to "auto"')
        elif is_offline and setting == "tools.check":
            yield ok("the offline model checks what it wrote, without a sandbox", setting)
        else:
            yield warning(f"agents do not have {tool}, because there is no sandbox", setting, remedy)


def containment(case: Case) -> Iterator[Finding]:
    """Report how the workspace is kept from what programs write where no changes are permitted."""
    try:
        found = containment_of(case.settings, case.paths)
    except OSError as error:
        yield warning(f"nothing can be written there ({error.strerror})", case.paths.views, "give it to this user")
        return
    if found is None:
        return
    message = f"what programs write in verification and chores: {found.sentence}"
    if not found.fix:
        yield ok(message, case.paths.workspace)
    else:
        yield warning(f"{message} ({'; '.join(found.faults)})", case.paths.workspace, found.fix)


def git(case: Case) -> Iterator[Finding]:
    """Report whether git can keep checkpoints of the workspace, and be used in it by agents."""
    workspace = case.paths.workspace
    if os.path.lexists(workspace / ".git") and (why := why_no_repository(workspace.resolve())):
        fix = "clone the repository into the workspace, or make it a worktree with `git worktree add`"
        yield warning(f"agents cannot use git there: {why}", workspace, fix)
    if not case.settings.tools.checkpoints:
        yield ok("no checkpoints of the workspace are kept, as configured", "tools.checkpoints")
        return
    executable = find_program("git", workspace)
    folder = case.paths.checkpoints
    if executable is None:
        message = "git is not installed: what a command changed is not known and cannot be restored"
        yield warning(message, "tools.checkpoints", "install git, or set this to false")
    elif not folder.exists() or (folder.is_dir() and not any(folder.iterdir())) or _is_repository(executable, folder):
        yield ok("git keeps checkpoints of the workspace", folder)
    else:
        fix = "move it away while no daemon runs; the next start creates a new one"
        yield fault("this is not a repository of tenex, or a damaged one", folder, fix)


def _is_repository(git: str, folder: Path) -> bool:
    command = [git, f"--git-dir={folder}", "rev-parse", "--git-dir"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_TIMEOUT, check=False, cwd="/", env=GIT_ALONE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _looked_at(case: Case) -> str:
    """What was looked at of the project, where nothing of it is missing."""
    kinds = ecosystems_found(environment_of(case.settings, case.paths))
    if not kinds:
        return "no file of a known kind tells what the project needs"
    looked_at = (f"{kind.kind.title} ({', '.join(kind.programs)})" for kind in kinds)
    return f"nothing is missing of what the project's files name: {', '.join(looked_at)}"


def workspace(case: Case) -> Iterator[Finding]:
    """Report what agents will miss when they work on the project, and which checks the daemon runs."""
    found = [warning(lack.message, lack.place, lack.fix) for lack in lacks(case.settings, case.paths)]
    yield from found or [ok(_looked_at(case), case.paths.workspace)]
    checks = ", ".join(check.name for check in checks_run(case.settings, case.paths))
    if checks:
        yield ok(f"checks that run after a turn which changed files: {checks}", "checks")
    else:
        yield ok("no check of the project is known that can run here: a verifier alone judges the work", "checks")
