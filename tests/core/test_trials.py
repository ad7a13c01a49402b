"""Which later trial shows what an earlier one should have, by the words of both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import programs
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest
from tenex.core.trials import TRIAL_CHARACTERS, shown_by, trial_of


def call(line: str) -> CallRequest:
    """A call of `shell`, or of another tool that is named before a colon."""
    for tool, argument in (("check", "path"), ("python", "program")):
        if line.startswith(f"{tool}: "):
            return CallRequest(id=CallId(""), tool=tool, arguments={argument: line.removeprefix(f"{tool}: ")})
    return CallRequest(id=CallId(""), tool="shell", arguments={"command": line.replace("\\n", "\n")})


SHOWN = r"""pytest -q | pytest -q
pytest tests/test_a.py -q | pytest
pytest tests/test_a.py::test_x | python -m pytest tests/test_a.py
pytest tests/test_a.py -k x | pytest -q tests
pytest -k x | pytest -n 4 --tb short
.venv/bin/python -m pytest -q 2>&1 | python3 -B -m pytest -q
python -m pytest | pytest --maxfail=1
cd pkg && pytest a.py | cd pkg && pytest
pytest && ruff check . | ruff check . && pytest
npm test -- a | npm test
go test ./a | go test ./...
uv run pytest a | pytest
npx jest a | jest
bash -c "pytest a" | pytest
./tool --bad | ! ./tool --bad
python -c "import a; a.f()" | python - <<'EOF'\nimport a\nEOF
check: tests/test_a.py | pytest -q
check: a.py | python a.py
FOO=1 timeout 30 make test | make test"""

NOT_SHOWN = r"""pytest | pytest tests/test_a.py
pytest | pytest -k x
pytest tests | pytest tests/test_a.py
pytest tests/test_a.py | pytest tests/test_ab.py
pytest tests/test_a.py | pytest --ignore tests/test_a.py
pytest a.py | cd pkg && pytest
pytest | ruff check .
pytest && ruff check . | pytest
python a.py 1 | python a.py
./tool --bad | ./tool
make test | make
python hello.py; [ "$(./prog)" = hi ] | python hello.py
python hello.py; python hello.py \| grep -q hi | python hello.py
python a.py | python -c 'import a'"""


HIDDEN = r"""pytest | tail
pytest; echo $?
pytest || true
if pytest; then echo a; fi
bash -c "cd a && pytest | tail"
bash -c pytest | tail"""


def pairs(lines: str) -> list[tuple[str, str]]:
    """Commands that failed, each with one that succeeded after it."""
    split = [line.replace(r"\|", "\0").rpartition(" | ") for line in lines.splitlines()]
    return [(failed.replace("\0", "|"), later.replace("\0", "|")) for failed, _, later in split]


@pytest.mark.parametrize(("failed", "later"), pairs(SHOWN))
def test_the_same_or_a_wider_trial_shows_what_the_failed_one_should_have(failed: str, later: str) -> None:
    assert shown_by(trial_of(call(failed)), [trial_of(call(later))])


@pytest.mark.parametrize(("failed", "later"), pairs(NOT_SHOWN))
def test_a_narrower_or_another_trial_does_not(failed: str, later: str) -> None:
    assert not shown_by(trial_of(call(failed)), [trial_of(call(later))])


def test_what_was_tried_in_one_line_may_be_shown_by_several() -> None:
    several = [trial_of(call("pytest")), trial_of(call("ruff check ."))]
    assert shown_by(trial_of(call("pytest -q a && ruff check .")), several)


@given(st.text(), st.text())
def test_any_text_has_a_trial_that_shows_itself(line: str, other: str) -> None:
    trial = trial_of(call(line))
    assert shown_by(trial, [trial])
    assert shown_by(trial, [trial_of(call(other))]) in (True, False)
    assert sum(len(word) for program in trial for word in program) <= TRIAL_CHARACTERS


@pytest.mark.parametrize("line", HIDDEN.splitlines())
def test_a_trial_whose_exit_status_is_that_of_another_program_is_hidden(line: str) -> None:
    assert programs.hides_trial(call(line))


@pytest.mark.parametrize(
    "line", ["pytest", "set -o pipefail; pytest | tail", "cat a | tail", "for f in *; do cat $f; done"]
)
def test_what_is_a_trial_or_tries_nothing_hides_none(line: str) -> None:
    assert not programs.hides_trial(call(line))
