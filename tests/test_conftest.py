"""The rules in `conftest` that hold for all tests, tried on small test files of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "test_some.py": """
import pytest

def test_passes(): ...

def test_skips(): pytest.skip("no node here")

@pytest.mark.skip(reason="not today")
def test_is_skipped(): ...

@pytest.mark.xfail(reason="known", strict=True)
def test_fails_as_known(): assert False

def test_programs_do_not_see_it():
    import os
    assert "TENEX_NO_SKIPS" not in os.environ

@pytest.mark.soak
def test_is_long(): ...
""",
    "test_module.py": "import pytest\npytest.importorskip('no_such_module')\ndef test_never_seen(): ...\n",
    "pytest.ini": "[pytest]\nmarkers = soak: long\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    rules = Path(__file__).with_name("conftest.py").read_text()
    (tmp_path / "conftest.py").write_text(rules)
    return tmp_path


def outcome(folder: Path, *arguments: str, no_skips: str = "") -> str:
    """Run pytest there; what it says, counts last."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **({"TENEX_NO_SKIPS": no_skips} if no_skips else {})}
    words = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False).stdout


def test_a_skip_is_a_skip_where_nobody_asks_for_more(folder: Path) -> None:
    said = outcome(folder)
    assert "2 passed, 3 skipped, 1 deselected, 1 xfailed" in said
    assert "no node here" in said


def test_a_skip_is_a_failure_in_ci_and_gives_its_reason(folder: Path) -> None:
    """Skipped in the test, by a mark, and a whole module; an expected failure stays what it is."""
    said = outcome(folder, "--continue-on-collection-errors", no_skips="1")
    assert "skipped" not in said.splitlines()[-1]
    assert "1 failed, 2 passed, 1 deselected, 1 xfailed, 2 errors" in said
    for reason in ("no node here", "not today", "could not import 'no_such_module'"):
        assert f"skipped in CI: {reason}" in said


def test_long_sweeps_run_only_where_they_are_named(folder: Path) -> None:
    """What `-m` says of them holds; without it they are left out, as the first test here shows."""
    assert "1 passed, 5 deselected" in outcome(folder, "-m", "soak", "test_some.py")
    assert "2 passed, 2 skipped, 1 deselected, 1 xfailed" in outcome(folder, "-m", "not soak", "test_some.py")


def test_workers_of_a_parallel_run_go_by_the_same_rules(folder: Path) -> None:
    said = outcome(folder, "-n", "2", "test_some.py", no_skips="1")
    assert "1 failed, 2 passed, 1 xfailed, 1 error" in said
    for reason in ("no node here", "not today"):
        assert f"skipped in CI: {reason}" in said
    assert "no_such_module" not in said
    assert "is_long" not in said
