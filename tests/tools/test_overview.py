"""What an agent is shown of the workspace before it begins: bounded, and nothing but names."""

import os
from pathlib import Path

import pytest

from tenex.tools.overview import CHARACTERS, LOOKED_AT, NAMED, overview


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        file = root / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_the_files_of_the_root_come_before_those_of_folders(tmp_path: Path) -> None:
    write(tmp_path, z_py="", a__b__c_py="", a__x_py="", README_md="")
    assert overview(tmp_path, runs=False) == "Its files: README.md, z.py, a/x.py, a/b/c.py."


def test_an_empty_or_missing_workspace_is_empty(tmp_path: Path) -> None:
    assert overview(tmp_path, runs=True) == overview(tmp_path / "none", runs=True) == "It is empty."


def test_what_other_programs_wrote_links_to_folders_and_odd_names_are_left_out(tmp_path: Path) -> None:
    for name in (".git/config", "node_modules/x.js", "pkg/__pycache__/x.pyc", "pkg/a.py", ".tenex-1", "two\nlines.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "elsewhere").symlink_to("/etc")
    (tmp_path / os.fsdecode(b"\xff.py")).write_text("")
    assert overview(tmp_path, runs=False) == "Its files: elsewhere, pkg/a.py."


def test_many_files_are_counted_and_very_many_are_not_looked_at(tmp_path: Path) -> None:
    for number in range(NAMED + 20):
        (tmp_path / f"{number:04}.py").write_text("")
    text = overview(tmp_path, runs=False)
    assert text.endswith(f"{NAMED - 1:04}.py and 20 more.")
    (tmp_path / "below").mkdir()
    for number in range(LOOKED_AT):
        (tmp_path / "below" / f"{number}.py").write_text("")
    assert overview(tmp_path, runs=False).endswith(" and more.")


def test_long_names_are_cut_off_by_their_length(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}{'x' * 200}").write_text("")
    text = overview(tmp_path, runs=False)
    assert len(text) < CHARACTERS + 100
    assert text.endswith(" more.")


@pytest.mark.parametrize(
    ("file", "text", "command"),
    [
        ("Makefile", ".PHONY: test\n\ntest: build\n\tcc\n", "make test"),
        ("Makefile", "test := 1\ntests:\n", ""),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", "python -m pytest"),
        ("pyproject.toml", "[project]\n", ""),
        ("pytest.ini", "[pytest]\n", "python -m pytest"),
        ("package.json", '{"scripts": {"test": "vitest"}}', "npm test"),
        ("package.json", '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}', ""),
        ("package.json", '{"scripts": []}', ""),
        ("package.json", "{", ""),
    ],
)
def test_the_command_for_the_tests_is_named_where_it_is_obvious(
    tmp_path: Path, file: str, text: str, command: str
) -> None:
    (tmp_path / file).write_text(text)
    assert overview(tmp_path, runs=False) == f"Its files: {file}."
    assert overview(tmp_path, runs=True) == f"Its files: {file}." + (
        f"\nIts tests are run by `{command}`." * bool(command)
    )


def test_a_pipe_and_a_link_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Makefile")
    (tmp_path / "real").write_text("[tool.pytest]")
    (tmp_path / "pyproject.toml").symlink_to(tmp_path / "real")
    assert "tests are run" not in overview(tmp_path, runs=True)
