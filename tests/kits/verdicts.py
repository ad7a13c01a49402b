"""A workplace whose files change and whose checks run, and requests that are verified in it."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

from tenex.core.config import Agent, Policy, Replay, ToolRule
from tenex.core.conversation import Conversation
from tenex.core.cycle.checks import ChangedFile, CheckResult, Inspection
from tenex.core.effects import Check, Effect, Inspect, ToolCall
from tenex.core.ids import Slug
from tenex.core.phases import Access, Phase
from tenex.core.port_values import ToolResult
from tenex.core.signals import Signal, ToolReturned
from tests.fakes.scenario import TOOLS, WAITS, Router, Scenario, model_by_phase, passed, reply, route, step_until
from tests.kits.team import TIDIES, team

SHELL = ToolRule(name="shell", access=Access.RUN, replay=Replay.ONCE)
DIFF = ToolRule(name="git_diff", access=Access.READ, replay=Replay.READ)
SAYS = ("complete", {"response": "it works", "verdict": "verified"})


class Workplace(Scenario):
    """A scenario with files, whose programs end with these exit statuses by their command line, else with 0.

    A call of `write_file` writes its `content`, or something new; with None it deletes the file.
    """

    has_network = False
    is_compared_at_once = True
    """Whether a call's result says which of its files are as the cycle has found them."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.statuses: dict[str, int] = {}
        self.files: dict[str, str] = {}
        self.begun: dict[int, dict[str, str]] = {}
        """What each cycle has found."""
        self.checked: list[tuple[str, bool]] = []
        """The checks that were run: their names, and whether on the tree of the cycle's beginning."""

    def perform(self, effect: Effect) -> Signal:
        if isinstance(effect, Check):
            self.checked.append((effect.name, effect.is_earlier))
        if not isinstance(effect, ToolCall):
            return super().perform(effect)
        arguments = effect.request.arguments
        match effect.request.tool:
            case "write_file":
                path = str(arguments["path"])
                begun = self.begun.setdefault(self.conversation.cycle.number, dict(self.files))
                self._write(path, arguments.get("content", f"version {effect.key.seq}"))
                is_as_before = self.is_compared_at_once and self.files.get(path) == begun.get(path)
                unchanged = (path,) if is_as_before else ()
                result = ToolResult(ok=True, content="written", touched=(path,), unchanged=unchanged)
            case "git_diff":
                known = {*self.files, *self.begun.get(self.conversation.cycle.number, ())}
                content = "".join(f"--- a/{path}\n+++ b/{path}\n" for path in sorted(known))
                result = ToolResult(ok=True, content=content)
            case "shell":
                status = self.statuses.get(str(arguments["command"]), 0)
                result = ToolResult(
                    ok=not status, content="ran", exit_status=status, has_outside_effect=self.has_network
                )
            case _:
                return super().perform(effect)
        return ToolReturned(key=effect.key, result=result)

    def _write(self, path: str, content: str | None) -> None:
        if content is None:
            self.files.pop(path, None)
        else:
            self.files[path] = content

    def inspect(self, effect: Inspect) -> Inspection:
        """What differs from what the cycle has found."""
        base = self.begun.get(effect.cycle, self.files)
        differs = sorted(path for path in {*base, *self.files} if base.get(path) != self.files.get(path))
        return Inspection(
            tree=tree_of(self.files),
            base=tree_of(base),
            changed=tuple(ChangedFile(path=path, added=1, kind=self._kind(base, path)) for path in differs),
            checks=self.check_names if differs else (),
        )

    def _kind(self, base: dict[str, str], path: str) -> Any:
        if path not in base:
            return "new"
        return "changed" if path in self.files else "deleted"


def tree_of(files: dict[str, str]) -> str:
    """The name of a tree."""
    return hashlib.sha1(json.dumps(files, sort_keys=True).encode()).hexdigest()


def with_shell(known: Policy, *, without: tuple[str, ...] = ()) -> Policy:
    """The policy with `shell` and `git_diff` for everyone but these, who can run nothing."""
    roster: dict[Slug, Agent] = {}
    for slug, one in known.roster.items():
        tools = one.tools - {"check"} if slug in without else one.tools | {"shell"}
        roster[slug] = dataclasses.replace(one, tools=tools | {"git_diff"})
    return dataclasses.replace(known, roster=roster, tools={**TOOLS, "shell": SHELL, "git_diff": DIFF})


def run(*lines: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(("shell", {"command": line}) for line in lines)


def writes(path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("write_file", {"path": path, **more})


DONE = ("complete", {"response": "built", "summary": "it is new"})


def builds(*paths: str) -> Any:
    return reply("", *map(writes, paths), DONE)


def work(*verifies: Any, paths: tuple[str, ...] = ("a.py",), config: Policy | None = None, **more: Any) -> Workplace:
    """A request that is carried out by rule, and verified by these steps."""
    steps = {"execute": [builds(*paths)], "verification": list(verifies), "chores": [TIDIES], **more}
    router = Router(route("execute", "executor"), WAITS)
    return Workplace(router, model_by_phase(**steps), config=config or with_shell(team()))


Ends = Callable[[Check], CheckResult]


def ends(now: dict[str, Any], then: dict[str, Any] | None = None) -> Ends:
    """Checks that end so on the files as they are, and so on those of before; without `then` they passed before."""
    return lambda effect: dataclasses.replace(passed(effect), **((then or {}) if effect.is_earlier else now))


def failed(*names: str, tests: int = 3, **more: Any) -> dict[str, Any]:
    """A run in which the tests of these names failed."""
    named: dict[str, Any] = {"outcome": "failed", "status": 1, "tests": tests, "failures": len(names), "failed": names}
    return {**named, **more}


def checking(end: Ends, *verifies: Any, names: tuple[str, ...] = ("test",), **more: Any) -> Workplace:
    """A request in a project that has checks."""
    scenario = work(*(verifies or [reply("", SAYS)]), **more)
    scenario.check_names, scenario.check = names, end
    return scenario


def at_check(scenario: Workplace, number: int = 1) -> Check:
    """Play until that many checks have been started; the last of them runs."""
    scenario.looks_at_once = False
    if not scenario.journal:
        scenario.user_writes("build it")

    def runs(it: Scenario) -> bool:
        return len(scenario.checked) == number - 1 and any(isinstance(one, Check) for one in it.running.values())

    step_until(scenario, runs)
    return running_check(scenario)


def running_check(scenario: Scenario) -> Check:
    (check,) = (effect for effect in scenario.running.values() if isinstance(effect, Check))
    return check


def repairs_with(*calls: tuple[str, dict[str, Any]]) -> Any:
    """Builds a.py, and then repairs it with these calls."""

    def build(conversation: Conversation, call: Any) -> Any:
        is_first = all(turn.phase is not Phase.VERIFICATION for turn in conversation.cycle.turns)
        first = reply("", writes("a.py", content="v1"), DONE)
        return first if is_first else reply("", *calls, ("complete", {"response": "it is right", "summary": "it is"}))

    return build
