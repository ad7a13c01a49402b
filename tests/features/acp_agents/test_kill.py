"""`kill -9` of the daemon while an agent's program is at work: nothing happens twice, and no process stays."""

from collections import Counter
from pathlib import Path

import pytest

from tenex.core import records as r
from tests.programs import needs_bubblewrap, needs_git
from tests.service import person
from tests.service.kit import Folder, of_kind, ordered
from tests.service.moments import APPENDS, Moment

from .kit import agent_file, noted, processes_of, put_agent

pytestmark = [needs_bubblewrap, needs_git]

RAN = "echo ran >> ran.txt"
FIRST = [("say", "I begin."), ("run", RAN), ("ask", "echo asked >> asked.txt"), ("say", "Done.")]
AGAIN = [("run", "cat ran.txt asked.txt; true"), ("say", "Looked, and done.")]
SETTINGS = """
[workspace]
path = ["{programs}"]
[conversations]
agent = "executor"
[[approve]]
tool = "acp_permission"
decision = "allow"
"""
"""One agent alone, so that all records are of its run."""

SWEPT = [(moment, at) for moment in APPENDS for at in range(1, 8)]
"""All appends of such a conversation."""
SOME = [("append", 3), ("appended", 3), ("torn append", 4), ("appended", 5), ("append", 7)]


def _deaths() -> list[object]:
    rest = [death for death in SWEPT if death not in SOME]
    return [*SOME, *(pytest.param(*death, marks=pytest.mark.soak) for death in rest)]


@pytest.mark.parametrize(("moment", "at"), _deaths())
async def test_a_killed_daemon_goes_on_with_its_program(tmp_path: Path, relay: str, moment: Moment, at: int) -> None:
    folder = Folder(tmp_path / "data", relay, SETTINGS.format(programs=tmp_path / "programs"))
    put_agent(folder, agent_file([FIRST, AGAIN]))
    async with ordered(folder, moment, at) as first:
        name = await folder.write("Work")
        await person.until((folder.marks / "died").exists)
        await first.ended()
    await person.until(lambda: not processes_of(tmp_path), 3.0)
    async with ordered(folder) as second:
        await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        await folder.delivered(name)
        assert not second.errors, second.stderr

    records = folder.records(name)
    assert [record.outcome for record in of_kind(records, r.RunEnded)] == ["finished"]
    for file in ("ran.txt", "asked.txt"):
        lines = (folder.workspace / file).read_text().splitlines() if (folder.workspace / file).exists() else []
        assert len(lines) <= 1
    begun = Counter(record.call for record in of_kind(records, r.ToolCallStarted))
    assert set(begun.values()) <= {1}
    assert noted(folder, name, "answers") in ([], ["once"])
    ends = [event for event in await folder.replies(name) if "one." in event["content"]]
    assert len(ends) == 1
    await person.until(lambda: not processes_of(tmp_path), 3.0)
