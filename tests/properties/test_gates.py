"""Random verifiers, routers and words of a person: no end and no gate that is not earned, and no word passed over."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core.config import GateRules
from tenex.core.conversation import Conversation
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import Check, Effect, Inspect, ModelCall, ToolCall
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.signals import Signal, ToolReturned
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Scenario,
    check_invariants,
    passed,
    plain_model,
    policy,
    reply,
    route,
    routed_by_rule,
    thanked,
    wish,
)

from .earned import Earned, pending_words

WRITES = ("write_file", {"path": "a.py"})
NOTES = ("write_file", {"path": "n.md"})
DEPLOYS = ("send", {"path": ""})
"""Changes something outside, and no file."""
READS = ("read_file", {"path": "n.md"})
CHECKS = ("check", {"path": "a.py"})
FAILS = ("check", {"path": "b.py"})
BUILT = ("complete", {"response": "built", "summary": "it is there"})
SAYS = ("complete", {"response": "it works", "verdict": "verified"})
FINDS = ("complete", {"response": "it fails", "verdict": "issues", "issues": "no output"})
CANNOT = ("complete", {"response": "not run", "verdict": "untried", "issues": "there is no screen"})


class Checked(Scenario):
    """A scenario in which `b.py` fails where it is the first, third, fifth call, and looks and checks end as drawn.

    `send` changes what is outside.
    """

    trees: Sequence[str] = ("now",)
    """What the workspace holds at each look; "base" where nothing differs any more, "" where that is not known."""
    outcomes: Mapping[tuple[str, str], Mapping[str, Any]] = {}
    """How each check ends on each tree; it passes where none is given."""
    looks = 0

    def perform(self, effect: Effect) -> Signal:
        """Give its exit status."""
        signal = super().perform(effect)
        if not (isinstance(signal, ToolReturned) and isinstance(effect, ToolCall)):
            return signal
        if effect.request.tool == "send":
            result = dataclasses.replace(signal.result, touched=(), has_outside_effect=True)
            return dataclasses.replace(signal, result=result)
        if (effect.request.tool, effect.request.arguments) != FAILS or self.ran.total() % 2 == 0:
            return signal
        return dataclasses.replace(signal, result=dataclasses.replace(signal.result, exit_status=1))

    def inspect(self, effect: Inspect) -> Inspection:
        """The next look."""
        tree = self.trees[self.looks % len(self.trees)]
        self.looks += 1
        if not tree:
            return Inspection(fault="there are no checkpoints")
        changed = super().inspect(effect).changed if tree != "base" else ()
        return Inspection(tree=tree, base="base", changed=changed, checks=self.check_names if changed else ())

    def ended(self, effect: Check) -> CheckResult:
        """As drawn."""
        return dataclasses.replace(passed(effect), **self.outcomes.get((effect.name, effect.tree), {}))


_trees = st.lists(st.sampled_from(["one", "one", "one", "two", "two", "base", ""]), min_size=1, max_size=4)
_failed = st.builds(
    lambda names, is_named: {
        "outcome": "failed",
        "status": 1,
        "failures": len(names),
        "failed": tuple(sorted(names)) if is_named else (),
    },
    st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
    st.sampled_from([True, True, False]),
)
_ended = (
    _failed
    | st.sampled_from(["failed", "timeout", "nothing", "missing", "changed"]).map(
        lambda outcome: {"outcome": outcome, "status": None, "tests": None}
    )
    | _failed.map(lambda result: {**result, "environment": "other packages"})
)
_outcomes = st.dictionaries(
    st.tuples(st.sampled_from(["types", "test"]), st.sampled_from(["one", "two", "base"])), _ended
) | _ended.map(lambda ended: {("test", tree): ended for tree in ("one", "two", "base")})
_checks = st.sampled_from([(), ("test",), ("test",), ("types", "test")])
_built = st.sampled_from([(WRITES,), (WRITES,), (WRITES,), (NOTES,), (NOTES, WRITES), (READS,), (DEPLOYS,)])
_verified = st.tuples(
    st.sampled_from([(), (READS,), (CHECKS,), (READS, CHECKS), (FAILS, CHECKS), (READS, FAILS)]),
    st.sampled_from([SAYS, SAYS, SAYS, FINDS, CANNOT]),
)
_words = st.sampled_from(
    ["that's enough, no more checks", "yes", "no", "make it green", "/stop", "/skip verification", ""]
)
_ways = st.sampled_from([
    ENDS,
    WAITS,
    wish(ENDS, "verification", "chores"),
    wish(ENDS, "chores", "reflection", words="that's enough, no more checks"),
    thanked(ENDS, "make it green"),
    thanked(WAITS, "yes"),
    route("execute", "executor"),
    route("verification", "executor"),
    route("verification", "executor"),
    route("verification", "executor"),
    route("verification", "executor", "security"),
    route("chores", "executor"),
])  # fmt: skip


@given(
    builds=st.lists(_built, min_size=1, max_size=3),
    verdicts=st.lists(_verified, min_size=1, max_size=4),
    ways=st.lists(_ways, min_size=1, max_size=6),
    words=st.lists(_words, max_size=3),
    when=st.integers(0, 40),
    by_rule=st.sampled_from([True, True, False]),
    by_need=st.booleans(),
    at_once=st.booleans(),
    checks=_checks,
    trees=_trees,
    outcomes=_outcomes,
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_end_is_without_evidence_a_waiver_or_an_accepted_untried(
    builds: list[Any],
    verdicts: list[Any],
    ways: list[Any],
    words: list[str],
    when: int,
    checks: tuple[str, ...],
    trees: list[str],
    outcomes: dict[tuple[str, str], dict[str, Any]],
    *,
    by_rule: bool,
    by_need: bool,
    at_once: bool,
) -> None:
    counts = {Phase.EXECUTE: 0, Phase.VERIFICATION: 0}

    def worker(conversation: Conversation, call: ModelCall) -> ModelStep:
        run = conversation.work.runs[call.run]
        if run.phase not in counts:
            return plain_model(conversation, call)
        place = counts[run.phase]
        counts[run.phase] += 1
        if run.phase is Phase.EXECUTE:
            return reply("", *builds[place % len(builds)], BUILT)
        calls, said = verdicts[place % len(verdicts)]
        return reply("", *calls, said)

    def router(question: dict[str, Any]) -> Any:
        if question["phase"] == "chat":
            return WAITS if question["turns"] else route("execute", "executor")
        left = question["still_to_reflect"]
        if question["phase"] in ("chores", "reflection") and left:
            return route("reflection", *left)
        return ways[len(scenario.journal) % len(ways)]

    known = dataclasses.replace(policy(), gates=GateRules(), has_lessons=lambda: True) if by_need else policy()
    scenario = Checked(router, worker, config=routed_by_rule(known) if by_rule else known)
    scenario.check_names, scenario.check = checks, scenario.ended
    scenario.trees, scenario.outcomes, scenario.looks_at_once = trees, outcomes, at_once
    dice = random.Random(when)
    scenario.user_writes("build it")
    for text in ["", *words]:
        if text:
            scenario.user_writes(text)
        for _ in range(when):
            if not scenario.step(lambda effects: dice.choice(effects)):
                break
    scenario.settle(when)
    earned = Earned()
    for decision in scenario.journal:
        earned.follow(decision)
    check_invariants(scenario)
    is_at_rest = "user" in (scenario.conversation.cycle.waiting_for or "user")
    assert pending_words(scenario.conversation) == [] or not is_at_rest
