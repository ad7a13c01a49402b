"""Random verifiers, routers and words of a person: no end and no gate that is not earned, and no word passed over."""

import dataclasses
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core.conversation import Conversation
from tenex.core.effects import Effect, ModelCall, ToolCall
from tenex.core.messages import ModelStep
from tenex.core.phases import Phase
from tenex.core.signals import Signal, ToolReturned
from tests.fakes.scenario import (
    ENDS,
    WAITS,
    Scenario,
    check_invariants,
    plain_model,
    policy,
    reply,
    route,
    routed_by_rule,
)

from .earned import Earned

WRITES = ("write_file", {"path": "a.py"})
NOTES = ("write_file", {"path": "n.md"})
READS = ("read_file", {"path": "n.md"})
CHECKS = ("check", {"path": "a.py"})
FAILS = ("check", {"path": "b.py"})
BUILT = ("complete", {"response": "built", "summary": "it is there"})
SAYS = ("complete", {"response": "it works", "verdict": "verified"})
FINDS = ("complete", {"response": "it fails", "verdict": "issues", "issues": "no output"})
CANNOT = ("complete", {"response": "not run", "verdict": "untried", "issues": "there is no screen"})


class Failing(Scenario):
    """A scenario in which `b.py` fails where it is the first, third, fifth call."""

    def perform(self, effect: Effect) -> Signal:
        """Give its exit status."""
        signal = super().perform(effect)
        if not (isinstance(signal, ToolReturned) and isinstance(effect, ToolCall)):
            return signal
        if (effect.request.tool, effect.request.arguments) != FAILS or self.ran.total() % 2 == 0:
            return signal
        return dataclasses.replace(signal, result=dataclasses.replace(signal.result, exit_status=1))


_built = st.sampled_from([(WRITES,), (NOTES,), (NOTES, WRITES), (READS,), ()])
_verified = st.tuples(
    st.sampled_from([(), (READS,), (CHECKS,), (READS, CHECKS), (FAILS, CHECKS), (READS, FAILS)]),
    st.sampled_from([SAYS, FINDS, CANNOT]),
)
_words = st.sampled_from(
    ["that's enough, no more checks", "yes", "no", "make it green", "/stop", "/skip verification", ""]
)
_ways = st.sampled_from([
    ENDS,
    WAITS,
    {**ENDS, "waive": ["verification", "chores"]},
    {**ENDS, "waive": ["chores", "reflection"], "acknowledged": True},
    route("execute", "executor"),
    route("verification", "executor", "security"),
    route("chores", "executor"),
])  # fmt: skip


@given(
    builds=st.lists(_built, min_size=1, max_size=3),
    verdicts=st.lists(_verified, min_size=1, max_size=4),
    ways=st.lists(_ways, min_size=1, max_size=6),
    words=st.lists(_words, max_size=3),
    when=st.integers(0, 40),
    by_rule=st.booleans(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_end_is_without_evidence_a_waiver_or_an_accepted_untried(
    builds: list[Any], verdicts: list[Any], ways: list[Any], words: list[str], when: int, *, by_rule: bool
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

    scenario = Failing(router, worker, config=routed_by_rule(policy()) if by_rule else policy())
    scenario.user_writes("build it")
    for text in ["", *words]:
        if text:
            scenario.user_writes(text)
        for _ in range(when):
            if not scenario.step():
                break
    scenario.settle()
    earned = Earned()
    for decision in scenario.journal:
        earned.follow(decision)
    check_invariants(scenario)
