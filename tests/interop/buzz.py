"""A person of Buzz as a process: buzzkit, which others wrote, in an environment of its own with a newer Python."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.nostr.keys import SecretKey

from .answers import Answer
from .scripts import HERE, Script, started

OLDEST = (3, 12)
"""The Python that buzzkit asks for."""
PACKAGE = "buzzkit==0.3.1"
ENVIRONMENT = HERE / ".venv-buzzkit"
INSTALLING = 180
"""Seconds pip may take; it takes ten."""


def install() -> Path:
    """Install buzzkit, once for each version; returns the Python that has it. Skips the test where that cannot be done.

    Two sessions at a time are one after the other: this file is the lock.
    """
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / ".installed"
    with Path(__file__).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == PACKAGE:
            return python
        newer = next(filter(_is_new_enough, _pythons()), None)
        if newer is None:
            pytest.skip(f"a Python {'.'.join(map(str, OLDEST))} or newer is needed for buzzkit; none was found")
        _run(newer, "-m", "venv", "--clear", str(ENVIRONMENT))
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
        _run(str(python), *pip, PACKAGE)
        stamp.write_text(PACKAGE)
    return python


def _pythons() -> Iterator[str]:
    """This Python, those on PATH, and those of pyenv."""
    yield sys.executable
    folders = [Path(folder) for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path("~/.pyenv").expanduser())
    folders += sorted(pyenv.glob("versions/*/bin"))
    for folder in folders:
        for path in sorted(folder.glob("python3.[0-9]*")):
            if path.name.removeprefix("python3.").isdecimal():
                yield str(path)


def _is_new_enough(python: str) -> bool:
    """Whether a program is such a Python that can make environments; pyenv's shims may start none."""
    wanted = f"import sys, ensurepip; sys.exit(sys.version_info < {OLDEST} or sys.version_info.releaselevel != 'final')"
    asked = subprocess.run([python, "-c", wanted], capture_output=True, timeout=30, check=False)
    return asked.returncode == 0


def _run(*words: str) -> None:
    """Run a command of the installation; skips the test with its last words if it fails."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=INSTALLING, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"buzzkit cannot be installed: it took more than {INSTALLING} s")
    if ended.returncode:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        pytest.skip(f"buzzkit cannot be installed: {' '.join(ended.stderr.split())[-300:]}")


class BuzzPerson:
    """Somebody in rooms of a relay, with a client of Buzz."""

    def __init__(self, script: Script) -> None:
        self._script = script

    @property
    def key(self) -> str:
        return self._script.pubkey

    @property
    def heard(self) -> list[Answer]:
        """The messages of others, in order."""
        return self._script.received

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """What buzzkit makes of each of them: `verified`."""
        return self._script.outputs

    async def enter(self, room: str) -> None:
        await self._script.do("enter", room=room)

    async def listen(self, **wanted: Any) -> None:
        """Hear what matches a filter, such as `kinds` and `_p`."""
        await self._script.listen(**wanted)

    async def publish(self, builder: str, **given: Any) -> Answer:
        """Build an event by a function of buzzkit with these arguments; the relay must take it. Returns the event."""
        event: Answer = await self._script.do("publish", builder=builder, given=given)
        return event

    async def say(
        self, room: str, text: str, *, mentions: tuple[str, ...] = (), to: str | None = None, root: str | None = None
    ) -> str:
        """Write in a room, below `to` in the thread of `root` where they are given; returns the event's id."""
        event = await self.publish(
            "build_message_event",
            channel_id=room,
            content=text,
            mentions=list(mentions),
            reply_to=to,
            reply_root=root,
        )
        return str(event["id"])

    async def react(self, event_id: str, picture: str) -> str:
        event = await self.publish("build_reaction_event", target_event_id=event_id, emoji=picture)
        return str(event["id"])

    async def until(self, holds: Callable[[list[Answer]], object]) -> None:
        """Wait until the messages of others are as asked."""
        await self._script.until(holds)


@asynccontextmanager
async def buzz_person(url: str, key: SecretKey, *rooms: str) -> AsyncIterator[BuzzPerson]:
    """Connect a person who hears what is new in these rooms."""
    async with started(str(install()), str(HERE / "clients" / "buzz.py")) as script:
        script.pubkey = (await script.do("join", url=url, secret=key.nsec))["pubkey"]
        person = BuzzPerson(script)
        for room in rooms:
            await person.enter(room)
        yield person
