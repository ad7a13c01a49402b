"""`tenex workflows add` and `tenex agents add --like`: what ships is listed, copied whole, and replaces nothing."""

from pathlib import Path

import pytest

from tenex.cli import examples
from tenex.cli.main import main
from tenex.settings import example_folder

FILES = {
    "researcher": ["researcher.md"],
    "fact-checker": ["fact_checker.py"],
    "critic": ["critic.md", "risks.py"],
    "draft-and-review": ["draft-and-review.toml"],
    "mission": ["mission.py"],
    "triage": ["triage.py"],
}
AGENTS = ("critic", "fact-checker", "researcher")


def add(data: Path, *words: str) -> int:
    """Add an agent where `--like` is given, else a workflow."""
    return main(["--data", str(data), "agents" if "--like" in words else "graph", "add", *words])


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_one_of_each_kind_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command, names in (("workflows", set(FILES) - set(AGENTS)), ("agents", AGENTS)):
        assert main(["--data", str(tmp_path), command, "add"]) == 0
        out, stderr = capsys.readouterr()
        head, *lines = out.splitlines()
        assert head.split() == ["EXAMPLE", "ABOUT"]
        assert [line.split()[0] for line in lines] == sorted(names)
        assert all(line.split()[1:] for line in lines), "each has a description"
        assert f"`tenex --data {tmp_path} {command} add" in stderr
    assert list(tmp_path.iterdir()) == []


def test_every_shipped_file_belongs_to_an_example() -> None:
    kinds = examples.agent_examples() | examples.workflow_examples()
    folders = (example_folder("agents"), example_folder("workflows"))
    there = {path for folder in folders for path in folder.iterdir() if path.is_file()}
    assert {file for one in kinds.values() for file in (one.file, *one.beside)} == there


def test_all_together_are_copied_unchanged_and_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, files in FILES.items():
        assert add(tmp_path, *(["--like", name] if name in AGENTS else [name])) == 0
        out, stderr = capsys.readouterr()
        written = [Path(line) for line in out.splitlines()]
        assert sorted(path.name for path in written) == files
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in written)
        shipped = example_folder("agents" if name in AGENTS else "workflows")
        assert all(path.read_text() == (shipped / path.name).read_text() for path in written)
        assert "SIGHUP" in stderr
    assert main(["--data", str(tmp_path), "graph", "check"]) == 0
    checked = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert checked == ["fact-checker", "researcher", "draft-and-review", "mission", "triage"]
    assert main(["--data", str(tmp_path), "agents", "list"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {*AGENTS, "skeptic"} < listed
    before = texts(tmp_path)
    for name in FILES:
        assert add(tmp_path, *(["--like", name] if name in AGENTS else [name])) == 2
        assert "exists" in capsys.readouterr().err
    assert texts(tmp_path) == before


def test_an_agent_is_copied_under_another_name_with_what_it_needs(tmp_path: Path) -> None:
    assert add(tmp_path, "proof-reader", "--like", "fact-checker") == 0
    assert add(tmp_path, "doubter", "--like", "critic") == 0
    assert add(tmp_path, "pessimist", "--like", "critic") == 0, "the states that are there and the same serve both"
    assert set(texts(tmp_path)) == {"proof_reader.py", "doubter.md", "pessimist.md", "risks.py"}
    assert main(["--data", str(tmp_path), "graph", "check", "proof-reader"]) == 0


@pytest.mark.parametrize(
    ("there", "words", "stderr"),
    [
        ("", ["unknown"], "There is no example 'unknown'. Choose from draft-and-review, mission, triage"),
        ("", ["--like", "unknown"], "There is no example 'unknown'. Choose from critic, fact-checker, researcher"),
        ("", ["--like", "critic", "--kind", "worker"], "--kind is for a new file"),
        ("", ["Doubter", "--like", "critic"], "Did you mean doubter?"),
        ("", ["planner", "--like", "critic"], "planner exists already"),
        ("agents/risks.py", ["--like", "critic"], "risks.py exists"),
        ("config/workflows/triage.toml", ["triage"], "triage.toml exists"),
        ("agents/skeptic.md", ["--like", "fact-checker"], "skeptic exists already"),
        ("agents/triage.md", ["triage"], "triage is the name of an agent"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str, words: list[str], stderr: str
) -> None:
    if there:
        file = tmp_path / there
        file.parent.mkdir(parents=True)
        agent = "---\nname: One\nrole: speaks\nkind: expert\nuse_when: wanted\n---\nSpeak.\n"
        file.write_text(agent if file.suffix == ".md" else "from tenex.output_states import Thinking as T\n")
    before = texts(tmp_path)
    assert add(tmp_path, *words) == 2
    assert stderr in capsys.readouterr().err
    assert texts(tmp_path) == before
