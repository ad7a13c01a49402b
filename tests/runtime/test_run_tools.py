"""What a run is offered of servers stays as it was when it began; the next run has what there is then."""

from types import SimpleNamespace
from typing import Any, cast

from tenex.core.config import Policy
from tenex.core.ids import ConversationId, Slug
from tenex.core.messages import ToolSpec
from tenex.core.work.run import Run
from tenex.runtime.run_tools import KEPT, RunTools

CONVERSATION = ConversationId("c" * 64)


def specs(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name=name, description=name, parameters={"type": "object"}) for name in names)


class Offers:
    """What runs are offered where the tools are as they are set."""

    def __init__(self, *names: str) -> None:
        self.now = specs(*names)
        self.policy = cast("Policy", SimpleNamespace())
        self._tools = RunTools()

    def to(self, run: str) -> list[str]:
        fake: Any = SimpleNamespace(id=run)
        of_run = self._tools.of(CONVERSATION, cast("Run", fake), self.policy, lambda _phase, _agent: self.now)
        return [tool.name for tool in of_run(None, Slug("executor"))]


def test_within_a_run_nothing_is_added_or_taken_away() -> None:
    offers = Offers("read_file", "git__log")
    assert offers.to("1") == ["read_file", "git__log"]
    offers.now = specs("read_file", "git__diff")
    assert offers.to("1") == ["read_file", "git__log"]
    assert offers.to("2") == ["read_file", "git__diff"]


def test_the_tools_of_a_server_that_was_starting_are_added() -> None:
    offers = Offers("read_file", "git__log")
    offers.to("1")
    offers.now = specs("read_file", "api__get", "git__diff")
    assert offers.to("1") == ["read_file", "api__get", "git__diff"]


def test_a_reload_counts_at_once() -> None:
    offers = Offers("read_file", "git__log")
    offers.to("1")
    offers.now = specs("read_file")
    offers.policy = cast("Policy", SimpleNamespace())
    assert offers.to("1") == ["read_file"]


def test_where_tools_are_found_new_ones_can_be_found() -> None:
    """They are at the end, and hidden until `find_tools` finds them."""
    offers = Offers("find_tools", "git__log")
    offers.to("1")
    offers.now = specs("find_tools", "git__blame", "git__log")
    assert offers.to("1") == ["find_tools", "git__log", "git__blame"]


def test_without_servers_nothing_is_kept_and_of_many_runs_the_newest() -> None:
    offers = Offers("read_file")
    offers.to("1")
    offers.now = specs("write_file")
    assert offers.to("1") == ["write_file"]
    offers.now = specs("git__log")
    for number in range(KEPT + 1):
        offers.to(str(number))
    offers.now = specs("git__diff")
    assert offers.to("0") == ["git__diff"]
    assert offers.to(str(KEPT)) == ["git__log"]
