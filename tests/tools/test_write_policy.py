"""What each phase lets a call change, written out by hand."""

import pytest

from tenex.core.phases import Phase
from tenex.tools.tool import Refusal
from tenex.tools.write_policy import check_chores, is_confined, may_change

from .conftest import make_context

FREE = {Phase.EXECUTE}


@pytest.mark.parametrize("phase", Phase)
def test_only_execute_may_change_whatever_it_likes(phase: Phase) -> None:
    assert is_confined(phase) is (phase not in FREE)
    assert may_change("src/app.py", make_context(phase)) is (phase in FREE)
    if phase is not Phase.CHORES:  # elsewhere not even what this cycle has changed
        assert may_change("mine.py", make_context(phase, touched=frozenset({"mine.py"}))) is (phase in FREE)


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("mine.py", True),
        ("README", True),
        ("docs/x.html", True),
        ("CHANGELOG.md", True),
        ("other.py", False),
        ("src/mine.py", False),
        (".gitignore", False),
        ("data.txt", False),
    ],
)
def test_chores_change_documentation_and_what_this_cycle_has_changed(path: str, may: bool) -> None:
    context = make_context(Phase.CHORES, touched=frozenset({"mine.py"}))
    assert may_change(path, context) is may
    if may:
        check_chores(path, context)
    else:
        with pytest.raises(Refusal, match=r"mine\.py"):
            check_chores(path, context)
