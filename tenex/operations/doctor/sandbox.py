"""What agents work with: the sandbox, git, and which tools are on because of them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tenex.settings import Settings
from tenex.tools.sandbox import probe_bubblewrap

from .findings import Case, Finding, fault, ok, warning

GIT_DEADLINE: Final = 5.0
NEED: Final = (
    "install bubblewrap (`apt install bubblewrap`) and permit user namespaces "
    "(kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
)


def sandbox(case: Case) -> Iterator[Finding]:
    """Whether programs of agents can be confined, and so which tools there are."""
    chosen = case.settings
    if chosen is None or "tools" in case.doubtful:
        return
    works = probe_bubblewrap()
    if works:
        yield ok("programs of agents run in a sandbox (bubblewrap)", shutil.which("bwrap") or "")
    else:
        why = "does not work here" if shutil.which("bwrap") else "is not installed"
        yield warning(f"bubblewrap {why}, so there is no sandbox", "tools", NEED)
    yield from _shell(chosen, works=works)
    yield from _check(chosen, works=works)


def _shell(chosen: Settings, *, works: bool) -> Iterator[Finding]:
    match chosen.tools.shell.sandbox:
        case "off":
            yield ok("agents have no shell, as the settings say", "tools.shell.sandbox")
        case "none":
            yield warning(
                "commands of agents run with all rights of this user",
                "tools.shell.sandbox",
                'set it to "auto", unless the whole daemon is confined',
            )
        case _ if works:
            yield ok("agents have a shell, in the sandbox", "tools.shell.sandbox")
        case _:
            yield warning("agents have no shell, because there is no sandbox", "tools.shell.sandbox", NEED)
    if chosen.tools.shell.network and chosen.tools.shell.sandbox != "off":
        yield warning(
            "commands of agents may use the network",
            "tools.shell.network",
            "set it to false, unless their work needs it",
        )


def _check(chosen: Settings, *, works: bool) -> Iterator[Finding]:
    is_offline = {name for chain in chosen.models.named().values() for name in chain} == {"offline"}
    match chosen.tools.check:
        case "off":
            yield ok("agents do not run what they wrote, as the settings say", "tools.check")
        case _ if works:
            yield ok("agents check what they wrote, in the sandbox", "tools.check")
        case "on":
            yield warning("what agents wrote runs with all rights of this user", "tools.check", 'set it to "auto"')
        case _ if is_offline:
            yield ok("the offline model checks what it wrote, without a sandbox", "tools.check")
        case _:
            yield warning("agents cannot check what they wrote, because there is no sandbox", "tools.check", NEED)


def git(case: Case) -> Iterator[Finding]:
    """Git, for checkpoints of the workspace."""
    chosen, where = case.settings, case.places
    if chosen is None or where is None or "tools" in case.doubtful:
        return
    program = shutil.which("git")
    if not chosen.tools.checkpoints:
        yield ok("no checkpoints of the workspace are kept, as the settings say", "tools.checkpoints")
        return
    if program is None:
        yield warning(
            "git is not installed: what a command changed is not known and cannot be put back",
            "tools.checkpoints",
            "install git, or set this to false",
        )
        return
    yield from _repository(program, where.checkpoints)


def _repository(program: str, folder: Path) -> Iterator[Finding]:
    version = _said([program, "--version"])
    if version is None:
        yield warning("git cannot be run", program, "install it again")
        return
    if folder.is_dir() and any(folder.iterdir()):
        if _said([program, f"--git-dir={folder}", "rev-parse", "--git-dir"]) is None:
            yield fault(
                "this is no repository of ours, or a damaged one",
                folder,
                "move it away while no daemon runs; the next start makes a new one",
            )
            return
    elif folder.exists() and not folder.is_dir():
        yield fault("this is no folder", folder, "move it away; the next start makes it")
        return
    found = re.search(r"\d+(\.\d+)+", version)
    yield ok(f"git {found[0] if found else ''} keeps checkpoints of the workspace", folder)


def _said(words: list[str]) -> str | None:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_DEADLINE,
            check=False,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": "/nonexistent",
                "GIT_CONFIG_NOSYSTEM": "1",
                "LANG": "C",
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            },
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
