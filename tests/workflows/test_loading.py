"""A graph from a file or a module; what is wrong is reported with the file, the line or the key, and what to do."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenex.core.errors import ConfigurationError
from tenex.workflows.speakers import TransitionGraph, load_graph

GRAPH = TransitionGraph.sequence(["ann", "bob"])


def fault(reference: str | Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        load_graph(reference)
    return str(refused.value)


def test_a_file_holds_a_graph(tmp_path: Path) -> None:
    (tmp_path / "graph.toml").write_text(GRAPH.to_toml())
    (tmp_path / "graph.json").write_text("\ufeff" + GRAPH.dumps())
    assert load_graph(tmp_path / "graph.toml") == load_graph(str(tmp_path / "graph.json")) == GRAPH


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.toml",
            b'initial_speaker = "a"\nmax_turns = = 1\n',
            "a.toml: This is no TOML: Invalid value (at line 2, column",
        ),
        ("a.toml", b"x = " + b"[" * 50_000, "a.toml: This"),
        ("a.toml", b"initial_speaker = 5\n", "a.toml: initial_speaker must be the name of who speaks first."),
        (
            "a.toml",
            b'initial_speaker = "a"\n[default_target]\nname = "t"\njson = "{"',
            "a.toml: default_target.json: This is",
        ),
        ("a.toml", b'initial_speaker = "a"\ntransitions = 5', "a.toml: transitions must be a list"),
        ("a.json", b'{"initial_speaker": "a",\n}', "a.json: This is no JSON: "),
        ("a.json", b'{"initial_speaker":\n"\xff"}', "a.json: line 2 is not UTF-8; save the file as UTF-8."),
        ("a.json", b" " * 1_048_577, "a.json is larger than 1048576 bytes"),
        ("a.json", b"", "a.json: This is no JSON: Expecting value (line 1, column 1)"),
        ("a.yaml", b"", "a.yaml is neither a .toml or .json file nor of the form package.module:graph"),
    ],
)
def test_a_wrong_file_is_reported_with_its_place(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    found = fault(tmp_path / name)
    assert found.startswith(f"{tmp_path}/{expected}")


def test_every_fault_of_a_file_bears_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"transitions": [{}]}')
    lines = fault(path).splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{path}: ") for line in lines)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert fault(tmp_path / "none.toml").endswith(
        "none.toml cannot be read: No such file or directory. Check the path and its rights."
    )
    (tmp_path / "folder.toml").mkdir()
    assert "folder.toml cannot be read: Is a directory." in fault(tmp_path / "folder.toml")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package on the path of modules, forgotten afterwards."""
    folder = tmp_path / "their_flows"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "good.py").write_text(
        "from tenex.workflows.speakers import TransitionGraph\n"
        "class Flows:\n    inner = TransitionGraph.sequence(['ann', 'bob'])\n"
        "graph = Flows.inner\nother = 5\n"
    )
    (folder / "lacking.py").write_text("import nothing_of_that_name\n")
    (folder / "failing.py").write_text("raise LookupError('not set up')\n")
    (folder / "broken.py").write_text("def :\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("their_flows")]:
        del sys.modules[name]


@pytest.mark.usefixtures("package")
def test_a_module_holds_a_graph() -> None:
    assert load_graph("their_flows.good:graph") is load_graph("their_flows.good:Flows.inner")
    assert load_graph("their_flows.good:graph") == GRAPH


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("their_flows.none:graph", "their_flows.none:graph: there is no module their_flows.none. Install it,"),
        ("no_such_flows.a:graph", "no_such_flows.a:graph: there is no module no_such_flows. Install it,"),
        ("their_flows.lacking:graph", "their_flows.lacking:graph: their_flows.lacking needs nothing_of_that_name,"),
        (
            "their_flows.failing:graph",
            "their_flows.failing:graph: their_flows.failing failed while it was imported: LookupE",
        ),
        (
            "their_flows.broken:graph",
            "their_flows.broken:graph: their_flows.broken failed while it was imported: SyntaxErr",
        ),
        ("their_flows.good:grph", "their_flows.good:grph: their_flows.good has no grph. The graphs there: graph."),
        (
            "their_flows.good:other.x",
            "their_flows.good:other.x: their_flows.good has no other.x. The graphs there: graph.",
        ),
        ("their_flows.good:other", "their_flows.good:other is a int and no TransitionGraph; name a variable"),
        ("their_flows.good", "their_flows.good is neither a .toml or .json file nor of the form"),
        ("their_flows.good:a b", "their_flows.good:a b is neither a .toml or .json file nor of the form"),
    ],
)
def test_a_module_that_is_wrong_is_reported(reference: str, expected: str) -> None:
    assert fault(reference).startswith(expected)
