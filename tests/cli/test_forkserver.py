"""A forked program behaves like one that was started: streams, exit code, environment, folder, end."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.forkserver import begin, forkserver, run

from .conftest import Done, environment

Tenex = Callable[..., Done]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["graph", "show"], 0), (["grahp"], 2), (["config", "show"], 3)],
    ids=["works", "usage", "faults"],
)
def test_it_prints_what_a_started_one_prints(
    installed: Tenex, tenex: Tenex, tmp_path: Path, words: list[str], code: int
) -> None:
    env = {"TENEX_DATA": str(tmp_path), "TENEX_LIMITS__SAME_ROUTE": "0"}
    one, other = installed(*words, **env), tenex(*words, **env)
    assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)
    assert one.returncode == code


def test_it_has_the_folder_and_the_standard_input_it_is_given(tmp_path: Path) -> None:
    words = ["tenex.cli.main", "init", "--dir", "here", "--model", "openai:x", "--no-check", "--api-key-file", "-"]
    assert run(words, environment(), tmp_path, given=b"sk-given\n").returncode == 0
    assert (tmp_path / "here" / "keys" / "openai.api-key").read_text() == "sk-given\n"


def test_one_that_is_killed_is_seen_to_be_and_the_next_is_another(tmp_path: Path) -> None:
    children = []
    for _ in range(2):
        child, error_pipe = begin(["tenex.cli.main", "relay"], environment(), tmp_path)
        with os.fdopen(error_pipe, "rb", 0) as stderr:
            with pytest.raises(TimeoutError):
                child.wait(0.05)
            child.kill()
            assert child.wait(10) == -signal.SIGKILL
            stderr.read()  # no other process holds its end
        children.append(child.pid)
    assert len({*children, forkserver().pid}) == 3
