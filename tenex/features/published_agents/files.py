"""Agents that others have published, as files of ours: written, found again, and brought up to date.

    their definition ──► a file (`agent_file`), of which a copy is kept as it was written
    the copy, the file as it is now, the newer definition ──► the file with the changes of both (`merged`)

The front matter is put together key by key, since each of ours is one line; the instructions by git, line by line.
Where the operator and the author have changed the same, the operator's words stay.
"""

import json
import re
import shutil
import subprocess
import tempfile
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tenex.core.errors import OperatorError, UsageError
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.text.foreign import CONTROL, INVISIBLE, plain
from tenex.nostr.keys import npub
from tenex.prompting.agents import AgentDefinition, read_agent

from .definitions import PublishedAgent

Kind = Literal["worker", "expert"]

COPIES: Final = "definitions"
"""The folder of the copies, in the data folder."""
NAME_CHARACTERS: Final = 60
LINE_CHARACTERS: Final = 1_000
"""Of a role, and of when an agent is used: the orchestrator reads them with every decision."""
SLUG_CHARACTERS: Final = 40
_KEPT: Final = frozenset("\n\u200c\u200d\ufe0e\ufe0f")
"""Line ends; joiners, by which Persian is spelt and pictures are put together; and how a picture is drawn."""
_HIDDEN_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_IN: Final = re.compile(r"^( {0,3}##)(?= +In )", re.MULTILINE)
"""A heading that would make what follows count in one phase only."""
_UPPER_HEADING: Final = re.compile(r"^( {0,3})#{1,2}(?= )", re.MULTILINE)
_SECONDS: Final = 10
"""For git, which needs a few ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """The file of a published agent, and what of the definition is not in it."""

    text: str
    tools: tuple[str, ...]
    """Those it asks for that are here."""
    missing: tuple[str, ...]
    """Those that are not."""
    phases_left_out: tuple[str, ...]
    hidden: int
    """How many characters were left out because they are not seen."""


def slug_for(agent: PublishedAgent) -> str:
    """A name made of its title; "" if that has no letters of the alphabet and no digits."""
    words = re.findall(r"[a-z0-9]+", plain(agent.title).lower())
    return "-".join(words)[:SLUG_CHARACTERS].strip("-")


def agent_file(agent: PublishedAgent, slug: str, kind: Kind, tools: Collection[str]) -> AgentFile:
    """Write the file of an agent.

    Args:
        agent: its definition.
        slug: its name here.
        kind: what it is to be; a definition says nothing about that.
        tools: every tool there is.

    Raises:
        OperatorError: the file would not be that of an agent.
    """
    role = agent.role or agent.description or agent.title
    use_when = agent.use_when or agent.description or role
    present = tuple(tool for tool in agent.tools if tool in tools)
    sections, left_out = _sections(agent)
    front = {
        "name": json.dumps(_line(agent.title, NAME_CHARACTERS), ensure_ascii=False),
        "role": json.dumps(_line(role, LINE_CHARACTERS), ensure_ascii=False),
        "kind": kind,
        "use_when": json.dumps(_line(use_when, LINE_CHARACTERS), ensure_ascii=False),
        "tools": f"[{', '.join(present)}]",
        "origin": json.dumps(_origin(agent), ensure_ascii=False),
    }
    lines = "\n".join(f"{key}: {value}" for key, value in front.items())
    body = _IN.sub(r"\1#", _cleaned(agent.instructions)).strip()
    text = f"---\n{lines}\n---\n{body}\n{sections}"
    faults: list[str] = []
    read_agent(Slug(slug), text, f"{slug}.md", tools, faults)
    if faults:
        raise OperatorError(f"The definition makes no agent: {faults[0]}")
    parts = (agent.title, agent.description, agent.role, agent.use_when, agent.instructions)
    words = [*parts, *(text for _, text in agent.phases)]
    return AgentFile(
        text=text,
        tools=present,
        missing=tuple(tool for tool in agent.tools if tool not in tools),
        phases_left_out=left_out,
        hidden=sum(len(_spaced(each)) - len(_cleaned(each)) for each in words),
    )


def is_version_of(known: AgentDefinition, slug: str, agent: PublishedAgent) -> bool:
    """Whether an agent here was made of this definition, or of an older or newer one of the same name and author."""
    origin = known.origin
    wanted = _origin(agent)
    if origin.get("author") != wanted["author"] or origin.get("name", "") != wanted["name"]:
        return False
    return bool(wanted["name"]) or origin.get("event") == agent.event or known.slug == slug


def kind_in(text: str) -> Kind:
    """What a file of `agent_file` makes its agent; instructions that look like front matter do not count."""
    return "worker" if _by_key(_split(text)[0]).get("kind") == "kind: worker" else "expert"


def merged(mine: str, base: str, theirs: str) -> str:
    """The file of an agent as it is now, with what its author has changed since `base` was written.

    Raises:
        UsageError: git is not installed.
        OperatorError: the file has no front matter any more, or git failed.
    """
    my_front, my_body = _split(mine)
    base_front, base_body = _split(base)
    their_front, their_body = _split(theirs)
    front = _merged_front(my_front, _by_key(base_front), _by_key(their_front))
    return "\n".join(["---", *front, "---", _merged_body(my_body, base_body, their_body)])


def _merged_front(mine: list[str], base: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    front: list[str] = []
    for line in mine:
        key = line.partition(":")[0]
        is_as_written = key == "origin" or base.get(key) == line
        front.append(theirs[key] if is_as_written and key in theirs else line)
    return front


def _merged_body(mine: str, base: str, theirs: str) -> str:
    git = shutil.which("git")
    if git is None:
        raise UsageError("git is needed to put your changes and the author's together. Install it.")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("mine", mine), ("base", base), ("theirs", theirs)):
            (Path(folder) / name).write_text(text, "utf-8", newline="")
        done = subprocess.run(
            [git, "merge-file", "--ours", "-p", "mine", "base", "theirs"],
            cwd=folder,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise OperatorError(f"git could not put the changes together: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()


def _split(text: str) -> tuple[list[str], str]:
    lines = text.split("\n")
    end = next((index for index, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if lines[0].strip() != "---" or end is None:
        raise OperatorError("The agent's file has no front matter. `tenex config check` shows what is wrong.")
    return lines[1:end], "\n".join(lines[end + 1 :])


def _by_key(front: list[str]) -> dict[str, str]:
    return {line.partition(":")[0]: line for line in front}


def _origin(agent: PublishedAgent) -> dict[str, str]:
    return {"author": npub(agent.author), "event": str(agent.event), "name": _line(agent.identifier, LINE_CHARACTERS)}


def _sections(agent: PublishedAgent) -> tuple[str, tuple[str, ...]]:
    """The instructions for single phases, and the names of phases that are none here."""
    texts: dict[Phase, str] = {}
    left_out: list[str] = []
    for name, text in agent.phases:
        phase = Phase.parse(name)
        words = _UPPER_HEADING.sub(r"\1###", _cleaned(text)).strip()
        if phase is None or phase in texts or not words:
            left_out.append(name)
        else:
            texts[phase] = words
    return "".join(f"\n## In {phase}\n\n{text}\n" for phase, text in texts.items()), tuple(left_out)


def _line(text: str, most: int) -> str:
    line = " ".join(_cleaned(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _cleaned(text: str) -> str:
    """A text without what is not seen in it, and read by models."""
    return "".join(char for char in _spaced(text) if char in _KEPT or not _is_hidden(char))


def _spaced(text: str) -> str:
    """A text whose lines end in line feeds, with spaces in place of tabs."""
    return text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)


def _is_hidden(char: str) -> bool:
    is_no_character = ord(char) & 0xFFFE == 0xFFFE
    is_odd = CONTROL.match(char) or INVISIBLE.match(char) or unicodedata.category(char) in _HIDDEN_CATEGORIES
    return is_no_character or bool(is_odd)
