"""`tenex workflows add` and `tenex agents add --like`: what ships is listed, copied whole, and replaces nothing."""

from pathlib import Path

import pytest

from tenex.cli.shared import examples
from tenex.settings import example_folder
from tests.kits.commands import Tenex

FILES = {
    "researcher": ["researcher.md"],
    "fact-checker": ["fact_checker.py"],
    "claude": ["claude.md"],
    "codex": ["codex.md"],
    "critic": ["critic.md", "risks.py"],
    "opencode": ["opencode.md"],
    "draft-and-review": ["draft-and-review.toml"],
    "mission": ["mission.py"],
    "triage": ["triage.py"],
}
AGENTS = ("claude", "codex", "critic", "fact-checker", "opencode", "researcher")
ADD = {name: f"agents add --like {name}" if name in AGENTS else f"graph add {name}" for name in FILES}


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_every_shipped_file_belongs_to_an_example_that_is_listed(tenex: Tenex, data: Path) -> None:
    for command, names in (("workflows", set(FILES) - set(AGENTS)), ("agents", AGENTS)):
        out, err = tenex(f"{command} add --data {data}")
        head, *lines = out.splitlines()
        assert head.split() == ["EXAMPLE", "ABOUT"]
        assert [line.split()[0] for line in lines] == sorted(names)
        assert all(line.split()[1:] for line in lines)
        assert f"tenex {command} add" in err
    assert list(data.iterdir()) == []
    kinds = examples.agent_examples() | examples.workflow_examples()
    there = {path for kind in ("agents", "workflows") for path in example_folder(kind).iterdir() if path.is_file()}
    assert {file for one in kinds.values() for file in (one.file, *one.beside)} == there


def test_all_together_are_copied_unchanged_and_are_right(tenex: Tenex, data: Path) -> None:
    for name, files in FILES.items():
        out, err = tenex(ADD[name])
        written = [Path(line) for line in out.splitlines()]
        assert sorted(path.name for path in written) == files
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in written)
        shipped = example_folder("agents" if name in AGENTS else "workflows")
        assert all(path.read_text() == (shipped / path.name).read_text() for path in written)
        assert "`tenex reload`" in err
    checked = [line.split()[0] for line in tenex("graph check").out.splitlines()]
    assert checked == ["fact-checker", "researcher", "draft-and-review", "mission", "triage"]
    assert {*AGENTS, "skeptic"} < {line.split()[0] for line in tenex("agents list").out.splitlines()}
    before = texts(data)
    for line in ADD.values():
        assert "exists" in tenex(line, code=2).err
    assert texts(data) == before


def test_an_agent_is_copied_under_another_name_with_what_it_needs(tenex: Tenex, data: Path) -> None:
    tenex("agents add proof-reader --like fact-checker")
    tenex("agents add doubter --like critic")
    tenex("agents add pessimist --like critic")  # the states exist already, and serve both
    assert set(texts(data)) == {"proof_reader.py", "doubter.md", "pessimist.md", "risks.py"}
    tenex("graph check proof-reader")


@pytest.mark.parametrize(
    ("there", "line", "sentence"),
    [
        ("", "graph add unknown", "There is no example 'unknown'. Choose from draft-and-review, mission, triage"),
        ("", "agents add --like unknown", f"'unknown'. Choose from {', '.join(AGENTS)}"),
        ("", "agents add --like critic --kind worker", "--kind is for a new file"),
        ("", "agents add Doubter --like critic", "Did you mean doubter?"),
        ("", "agents add planner --like critic", "planner exists already"),
        ("agents/risks.py", "agents add --like critic", "risks.py exists"),
        ("config/workflows/triage.toml", "graph add triage", "triage.toml exists"),
        ("agents/skeptic.md", "agents add --like fact-checker", "skeptic exists already"),
        ("agents/triage.md", "graph add triage", "triage is the name of an agent"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(
    tenex: Tenex, data: Path, there: str, line: str, sentence: str
) -> None:
    if there:
        file = data / there
        file.parent.mkdir(parents=True)
        agent = "---\nname: One\nrole: speaks\nkind: expert\nuse_when: wanted\n---\nSpeak.\n"
        file.write_text(agent if file.suffix == ".md" else "from tenex.output_states import Thinking as T\n")
    before = texts(data)
    assert sentence in tenex(line, code=2).err
    assert texts(data) == before
