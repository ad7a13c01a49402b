"""A conversation under anything that can happen to it: bad models, any order, crashes, repeated signals."""

import copy
import dataclasses
import json
import random
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tenex.core import records as r
from tenex.core.agent_phases.program import Scope
from tenex.core.answers.yes_no import is_clear_yes
from tenex.core.config import Limits, Policy, Replay, Role, ToolRule
from tenex.core.conversation import Conversation, fold, new_conversation
from tenex.core.cycle.checks import CheckOutcome, CheckResult, Inspection
from tenex.core.dispatch import decide
from tenex.core.effects import Check, Effect, Inspect, ModelCall, Publish, Route, Show, Timer, ToolCall, Undo, Work
from tenex.core.ids import CallId, PublicKey, Slug
from tenex.core.inbox.commands import slash_commands
from tenex.core.messages import CallRequest, ModelStep, Usage
from tenex.core.pending import pending
from tenex.core.phases import AFTER_WORK, QUALITY_PHASES, Access, Phase, way
from tenex.core.ports import PublishOutcome, ToolResult
from tenex.core.signals import (
    Checked,
    Inspected,
    MessageDeleted,
    ModelAnswered,
    ModelFailed,
    Published,
    RouteAnswered,
    Signal,
    TimerFired,
    ToolReturned,
)
from tenex.core.snapshot import StateSnapshot
from tenex.core.work.run import CallState
from tenex.store.format import CONVERSATION
from tenex.workflows.phases import records as p
from tenex.workflows.phases.state import phases_of
from tests.fakes import agent_phases
from tests.fakes.scenario import (
    ALICE,
    ALWAYS,
    ID,
    TOOLS,
    Scenario,
    check_idle,
    check_invariants,
    diligent,
    plain_model,
    policy,
    reply,
    routed_by_rule,
)
from tests.fakes.subagents import calls_to, link, with_subagents

from .earned import Earned, pending_words

BOB = PublicKey("b" * 64)


def good(question: dict[str, Any]) -> dict[str, Any]:
    """A router that goes from wherever it finds itself to the end."""
    if question["phase"] == "plan" and "execute" not in question["permitted"]:
        return {"agents": ["USER"], "reason": "the plan needs approval"}
    here, present = question["phase"], [member["slug"] for member in question["roster"]]
    workers = [slug for slug in ("executor", "helper") if slug in present] or present[:1]
    last = question["turns"][-1]["completions"] if question["turns"] else []
    if question["can_end"] and here == "reflection":
        return {"agents": ["END"], "reason": "all is done"}
    if here == "verification":
        target = "chores" if "chores" in question["permitted"] else "execute"
        return {"phase": target, "agents": workers, "reason": f"{len(last)} have looked"}
    if here in ("chores", "reflection"):
        return {"phase": "reflection", "agents": question["still_to_reflect"] or ["END"], "reason": "what was learnt"}
    return {"phase": way(Phase(here), Phase.REFLECTION)[0], "agents": workers, "reason": "go on"}


ASKING = {"deploy": ToolRule(name="deploy", access=Access.CHANGE, replay=Replay.ONCE, asks=True)}
"""A tool about which a person is asked."""
CHECKS = ("types", "test")
"""Of the project."""
SLUGS = ["project-manager", "planner", "executor", "helper", "security"]
TEXTS = [
    "build it",
    "yes",
    "no",
    "skip the tests",
    "don't skip the tests",
    "",
    "\ud800\x00",
    "make it green",
    "/quick x",
]

ODD = ["command", "again", "death", "late", "roster"]

_slugs = st.lists(st.sampled_from(SLUGS), min_size=1, max_size=3)
_phases = st.sampled_from([*map(str, Phase), "deployment"])
_words = st.sampled_from(["END", "USER"])
_waivers = st.lists(st.sampled_from([*map(str, QUALITY_PHASES), "execute"]), max_size=3)
_settles = st.lists(
    st.fixed_dictionaries(
        {
            "words": st.sampled_from(["build it", "yes", "make it", "make it green", "skip the tests", "x"]),
            "as": st.sampled_from(["thanks", "waiver", "carried_out"]),
        },
        optional={"turn": st.sampled_from(["turn-1", "turn-2"])},
    ),
    max_size=2,
)
_decisions = st.builds(
    lambda agents, more: {"agents": agents, "reason": "because", **more},
    _slugs | _words.map(lambda word: [word]) | st.just(["wizard"]) | st.just(["END", "executor"]) | st.just([]),
    st.fixed_dictionaries({}, optional={"phase": _phases, "waive": _waivers, "settles": _settles}),
)
_garbage = st.sampled_from(["", "hm", "{", '{"agents": 7}', "[" * 2_000, "\ud800"])

_usages = st.builds(
    Usage, input_tokens=st.integers(0, 50), output_tokens=st.integers(0, 50), cost_usd=st.none() | st.just(0.01)
)
_arguments = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["a", "b", "n.md"]),
        "question": st.sampled_from(["Which?", ""]),
        "response": st.sampled_from(["done", ""]),
        "verdict": st.sampled_from(["verified", "verified", "issues", "untried", "maybe"]),
        "issues": st.just("there is no screen"),
        "summary": st.just("short"),
        "lesson": st.just("test early"),
    },
)
_SUBAGENTS = [name for name, _ in calls_to(*SLUGS)]
_calls = st.lists(
    st.builds(
        CallRequest,
        id=st.sampled_from(["", "k", "l"]).map(CallId),
        tool=st.sampled_from([*TOOLS, *ASKING, "teleport"]),
        arguments=_arguments,
    )
    | st.builds(
        CallRequest,
        id=st.sampled_from(["", "k", "l"]).map(CallId),
        tool=st.sampled_from(_SUBAGENTS),
        arguments=st.sampled_from([{"message": "look"}, {"message": "look"}, {}]),
    )
    | st.builds(
        CallRequest,
        id=st.just(CallId("k")),
        tool=st.sampled_from(["set_state", "second_to_first", "second_to_third"]),
        arguments=st.sampled_from([{"field": "n", "value": 1}, {"field": "n", "value": 0}, {"field": "n"}]),
    )
    | st.builds(
        CallRequest,
        id=st.just(CallId("k")),
        tool=st.just("hand_over"),
        arguments=st.builds(lambda phase: {"phase": phase, "reason": "go on"}, _phases),
    ),
    max_size=4,
)
_steps = st.builds(
    ModelStep, text=st.sampled_from(["", "done", "  "]), calls=_calls.map(tuple), usage=_usages, model=st.just("m")
)


EDGES = (("first", "second", lambda me: me.n >= 1), ("second", "first", lambda me: me.n < 1), ("second", "third", None))
OWN = agent_phases.program(
    EDGES,
    defaults={"n": 0},
    schema={"n": {"type": "integer"}},
    scopes={"send": Scope(phases=frozenset({"second"}))},
    has_triggers=True,
)
MOVES = {(slug, source, target) for slug in SLUGS for source, target, _ in EDGES}


def sub_agents(limits: Limits | None = None) -> Policy:
    """The rules of the tests, where everyone may call someone, and all who call have phases of their own."""
    known = with_subagents(
        policy(limits=limits),
        executor=["helper", "security", link("planner", is_shared=True)],
        helper=["executor", "planner"],
        planner=["helper", "project-manager"],
        security=["helper"],
    )
    roster = dict(known.roster)
    for slug, member in known.roster.items():
        if member.program is not None:
            own = dataclasses.replace(OWN, links=member.program.links)
            roster[slug] = dataclasses.replace(member, program=own)
    roster = {slug: dataclasses.replace(one, tools=one.tools | ASKING.keys()) for slug, one in roster.items()}
    return dataclasses.replace(known, roster=roster, tools={**known.tools, **ASKING})


def sociable(conversation: Conversation, call: ModelCall) -> ModelStep:
    """A diligent agent; an executor changes its state and calls sub-agents first, and one of those does too."""
    run, step = conversation.work.runs[call.run], diligent(conversation, call)
    if run.parent is not None:
        asked = (("set_state", {"field": "n", "value": 1}), *calls_to("planner"), ("write_file", {"path": "c"}))
        return reply("", *asked) if run.agent == "helper" and not run.steps else reply(f"{run.agent} has looked")
    if run.steps or run.phase is not Phase.EXECUTE or run.agent != "executor":
        return step
    calls = reply("", ("set_state", {"field": "n", "value": 1}), *calls_to("helper", "planner")).calls
    return dataclasses.replace(step, calls=(*calls, *(dataclasses.replace(one, id=CallId("")) for one in step.calls)))


class FollowedPlay(Scenario):
    """A scenario with a second state beside it, which receives nothing but the journal."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.follower, self.followed = new_conversation(ID), 0
        self.earned = Earned()
        self.answered_by_notice: set[str] = set()
        """Texts to which a notice was the answer, because the only agent was not there."""
        self.requests: dict[int, r.MessageRecorded] = {}
        """What people wrote that no turn could work on so far, that was no answer, and that no one has stopped."""
        self.without_open_work = 0
        """The seq of the newest message that came in execute while nothing was under way; 0 once a turn has begun."""
        self.to_verify = 0
        """The same, where the router chose to verify for it."""

    def refold(self) -> Conversation:
        """The state as the journal gives it, one decision at a time: folding all of it at each step is too slow."""
        for decision in self.journal[self.followed :]:
            self.earned.follow(decision)
            for record in decision:
                self._follow_requests(record)
                self.follower.apply(record)
        self.followed = len(self.journal)
        return self.follower

    def _follow_requests(self, record: r.Record) -> None:
        match record:
            case r.MessageRecorded():
                self.requests[record.seq] = record
                before = self.follower
                if (
                    before.cycle.status == "waiting"
                    and before.cycle.waiting_for != "waiver"
                    and before.cycle.phase is Phase.EXECUTE
                ):
                    self.without_open_work = record.seq
            case r.TurnOpened():
                self.to_verify = self.without_open_work if record.phase is Phase.VERIFICATION else 0
                self.without_open_work = 0
            case r.QuestionAnswered() | p.PlanApproved() | p.WaiverDeclined():
                self.requests.pop(record.message, None)
            case r.Routed(settled=settled) | p.WaiverRequested(settled=settled) if settled:
                for settlement in settled:
                    words = self.requests.pop(settlement.message).text
                    assert settlement.kind == "carried_out" or settlement.words == words, "all of a message, or none"
            case p.Waived():
                left = self.requests.items()
                self.requests = {seq: one for seq, one in left if one.event_id != record.message_id}
            case r.Stopped():
                self.requests = {}
            case r.RunEnded():
                run = self.follower.work.runs[record.run]
                worked_on = self.to_verify if run.phase in AFTER_WORK else run.shown
                if run.parent is None:
                    self.requests = {seq: one for seq, one in self.requests.items() if seq > worked_on}


class ConversationMachine(RuleBasedStateMachine):
    """Drives a `Play` by hand: every rule is something that may happen at any moment."""

    only_agent = Slug("")
    routes_by_rule = False
    plan_approval: Literal["router", "person"] = "router"
    gates = ALWAYS

    def __init__(self) -> None:
        super().__init__()
        limits = Limits(steps_per_run=6, turns_per_message=9, tokens_per_cycle=3_000, link_depth=2)
        config = dataclasses.replace(sub_agents(limits), only_agent=self.only_agent)
        if self.routes_by_rule:
            config = routed_by_rule(config)
        config = dataclasses.replace(config, gates=dataclasses.replace(self.gates, plan_approval=self.plan_approval))
        self.scenario = FollowedPlay(good, sociable, config=config)
        self.scenario.check_names = CHECKS
        self.scenario.looks_at_once = False
        self.old: list[Signal] = []
        self.looked_at = 0

    # ---- what may happen ----

    @initialize(text=st.sampled_from(TEXTS), steps=st.integers(0, 100))
    def begins(self, text: str, steps: int) -> None:
        """Someone writes for the first time, and good models bring the conversation to any phase."""
        self.scenario.user_writes(text)
        for _ in range(steps):
            if not self.scenario.step():
                self.scenario.user_writes("blue")

    @rule(
        text=st.sampled_from(TEXTS),
        role=st.sampled_from(Role),
        addressed=st.lists(st.sampled_from(SLUGS), max_size=2),
        replies=st.booleans(),
        author=st.sampled_from([ALICE, ALICE, BOB]),
    )
    def somebody_writes(self, text: str, role: Role, addressed: list[str], author: PublicKey, *, replies: bool) -> None:
        asked = next(iter(self.scenario.conversation.work.asks), None) if replies else None
        self.scenario.user_writes(text, role=role, addressed=tuple(addressed), reply_to=asked, author=author)

    def ready(self, kind: type[Effect] | tuple[type[Effect], ...]) -> list[Effect]:
        return [effect for effect in self.scenario.running.values() if isinstance(effect, kind)]

    def ends(self, effect: Effect, signal: Signal) -> None:
        """A task ends: its key is settled, the decision was pure, and the same news again is no news."""
        conversation, config, now = self.scenario.conversation, self.scenario.policy, self.scenario.now
        before = copy.copy(conversation)  # what is changed in place differs from the refold below
        decided = decide(conversation, signal, config, now).records
        assert decided == decide(conversation, signal, config, now).records
        assert conversation == before
        self.scenario.running.pop(effect.key)
        assert self.scenario.handle(signal), "a wanted key is never answered with silence"
        assert effect.key not in pending(self.scenario.conversation)
        assert not decide(self.scenario.conversation, signal, config, self.scenario.now).records
        self.old.append(signal)

    @precondition(lambda self: self.ready(Route))
    @rule(answer=_decisions | _garbage, usage=_usages)
    def the_router_answers(self, answer: Any, usage: Usage) -> None:
        (effect,) = self.ready(Route)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        self.ends(effect, RouteAnswered(key=effect.key, step=ModelStep(text=text, usage=usage)))

    @precondition(lambda self: self.ready(ModelCall))
    @rule(which=st.integers(0, 9), step=_steps)
    def an_agent_answers(self, which: int, step: ModelStep) -> None:
        calls = self.ready(ModelCall)
        effect = calls[which % len(calls)]
        self.ends(effect, ModelAnswered(key=effect.key, step=step))

    def verifiers(self) -> list[Effect]:
        """The model calls of agents who verify."""
        runs = self.scenario.conversation.work.runs
        calls = [effect for effect in self.ready(ModelCall) if isinstance(effect, ModelCall)]
        return [call for call in calls if runs[call.run].phase is Phase.VERIFICATION and runs[call.run].parent is None]

    @precondition(lambda self: self.verifiers())
    @rule(verdict=st.sampled_from(["verified", "verified", "untried"]))
    def a_verifier_only_says_so(self, verdict: str) -> None:
        """That it works, or that it cannot be tried, without a call that shows it."""
        effect = self.verifiers()[0]
        said = {"response": "as it should be", "verdict": verdict, "issues": "there is no screen"}
        self.ends(effect, ModelAnswered(key=effect.key, step=reply("", ("complete", said))))

    def builders(self) -> list[Effect]:
        """The model calls of agents who may change something."""
        runs = self.scenario.conversation.work.runs
        calls = [effect for effect in self.ready(ModelCall) if isinstance(effect, ModelCall)]
        return [call for call in calls if runs[call.run].phase is Phase.EXECUTE and runs[call.run].agent != "security"]

    @precondition(lambda self: self.builders())
    @rule(count=st.integers(1, 2), writes=st.booleans(), version=st.sampled_from("ab"))
    def an_agent_wants_what_asks(self, count: int, version: str, *, writes: bool) -> None:
        effect = self.builders()[0]
        calls = [("deploy", {"version": f"{version}{number}"}) for number in range(count)]
        step = reply("", *([("write_file", {"path": "a"})] if writes else []), *calls)
        self.ends(effect, ModelAnswered(key=effect.key, step=step))

    @precondition(lambda self: self.scenario.conversation.approvals.open)
    @rule(
        text=st.sampled_from(["yes", "yes", "no: later", "always", "20 min", "hm", "1 yes, 2 no", "2 yes", "1 no"]),
        role=st.sampled_from([Role.OWNER, Role.OWNER, Role.MEMBER, Role.GUEST]),
        author=st.sampled_from([ALICE, BOB]),
    )
    def somebody_answers_what_asks(self, text: str, role: Role, author: PublicKey) -> None:
        request = next(iter(self.scenario.conversation.approvals.open.values()))
        self.scenario.user_writes(text, reply_to=request.events[0], role=role, author=author)

    @precondition(lambda self: self.scenario.records(r.ApprovalAnswered))
    @rule(which=st.integers(0, 9), author=st.sampled_from([ALICE, ALICE, BOB]))
    def somebody_takes_an_answer_back(self, which: int, author: PublicKey) -> None:
        given = [one.event_id for one in self.scenario.records(r.ApprovalAnswered) if one.event_id is not None]
        if given:
            self.scenario.handle(MessageDeleted(event_id=given[which % len(given)], author=author))

    @precondition(lambda self: any(not isinstance(effect, Timer) for effect in self.scenario.running.values()))
    @rule(steps=st.integers(1, 30), seed=st.integers(0, 9))
    def work_goes_on(self, steps: int, seed: int) -> None:
        """Good models work for a while, in some order, so that later phases are reached as well."""
        dice = random.Random(seed)
        for _ in range(steps):
            ready = [effect for effect in self.scenario.running.values() if not isinstance(effect, Timer)]
            if not ready:
                break
            effect = dice.choice(ready)
            self.ends(effect, self.scenario.perform(effect))

    @precondition(lambda self: self.ready((ModelCall, Route)))
    @rule(which=st.integers(0, 9), retryable=st.booleans(), after=st.none() | st.integers(0, 10**6))
    def a_model_fails(self, which: int, retryable: bool, after: int | None) -> None:
        calls = self.ready((ModelCall, Route))
        effect = calls[which % len(calls)]
        failed = ModelFailed(key=effect.key, message="no", retryable=retryable, retry_after=after)
        self.ends(effect, failed)

    @precondition(lambda self: self.ready(ToolCall))
    @rule(
        which=st.integers(0, 9),
        ok=st.booleans(),
        touched=st.lists(st.sampled_from(["a", "b", "n.md"]), max_size=1),
        outside=st.booleans(),
        own=st.sampled_from([{}, {}, {"values": {"n": 1}}, {"values": {"m": 1}}, {"moves": (("second", "first"),)}]),
    )
    def a_call_returns(self, which: int, touched: list[str], own: dict[str, Any], *, ok: bool, outside: bool) -> None:
        """Calls that run at once return in any order, and may change who made them."""
        calls = self.ready(ToolCall)
        effect = calls[which % len(calls)]
        assert isinstance(effect, ToolCall)
        status = int(not ok) if effect.request.tool == "check" else None
        result = ToolResult(
            ok=ok,
            content="x",
            read={"a": "0"},
            touched=tuple(touched),
            exit_status=status,
            has_outside_effect=outside,
            **own,
        )
        self.ends(effect, ToolReturned(key=effect.key, result=result))

    @precondition(lambda self: self.ready(Inspect))
    @rule(tree=st.sampled_from(["", "base", "one", "one", "two"]), differs=st.sampled_from([True, True, False]))
    def somebody_looks(self, tree: str, *, differs: bool) -> None:
        """The workspace is as it was, or not, or that is not known."""
        (effect,) = self.ready(Inspect)
        assert isinstance(effect, Inspect)
        inspection = Inspection(fault="there are no checkpoints")
        if tree:
            changed = self.scenario.inspect(effect).changed if differs else ()
            inspection = Inspection(tree=tree, base="base", changed=changed, checks=CHECKS if changed else ())
        self.ends(effect, Inspected(key=effect.key, inspection=inspection))

    @precondition(lambda self: self.ready(Check))
    @rule(
        outcome=st.sampled_from(["passed", "passed", "failed", "nothing", "timeout", "changed", "missing"]),
        failed=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
        environment=st.sampled_from(["", "", "others"]),
    )
    def a_check_ends(self, outcome: CheckOutcome, failed: set[str], environment: str) -> None:
        (effect,) = self.ready(Check)
        assert isinstance(effect, Check)
        names = tuple(sorted(failed)) if outcome == "failed" else ()
        result = CheckResult(
            name=effect.name,
            command="make",
            tree=effect.tree,
            outcome=outcome,
            failures=len(names),
            failed=names,
            environment=environment,
        )
        self.ends(effect, Checked(key=effect.key, result=result))

    @precondition(lambda self: self.ready(Publish))
    @rule(accepted=st.booleans())
    def relays_answer(self, accepted: bool) -> None:
        for effect in self.ready(Publish):
            self.ends(effect, Published(key=effect.key, outcome=PublishOutcome(accepted=accepted)))

    @precondition(lambda self: self.ready(Timer))
    @rule(which=st.integers(0, 9))
    def a_timer_fires(self, which: int) -> None:
        timers = self.ready(Timer)
        effect = timers[which % len(timers)]
        assert isinstance(effect, Timer)
        self.scenario.now = max(self.scenario.now, effect.due)
        self.ends(effect, TimerFired(key=effect.key))

    @rule(odd=st.sampled_from(ODD), which=st.integers(0, 999), data=st.data())
    def something_odd_happens(self, odd: str, which: int, data: st.DataObject) -> None:
        """One rule for all that is rare, so that most steps are work."""
        match odd:
            case "command":
                name, role = data.draw(st.sampled_from(list(slash_commands()))), data.draw(st.sampled_from(Role))
                argument = {"skip": " chores", "reject": " use postgres"}.get(name, "")
                self.scenario.user_writes(f"/{name}{argument}", role=role)
            case "again":
                known = list(self.scenario.conversation.identity.seen)
                assert self.scenario.user_writes("again", event_id=known[which % len(known)]) == []
            case "death":
                self.the_process_dies()
            case "late" if self.old:
                assert self.scenario.handle(self.old[which % len(self.old)]) == []
            case "roster":
                self.the_roster_changes(SLUGS[1 + which % 4], present=data.draw(st.booleans()))

    def the_process_dies(self) -> None:
        calls = [effect for effect in self.ready(ToolCall) if isinstance(effect, ToolCall)]
        once = {call.key for call in calls if self.scenario.policy.tools[call.request.tool].replay == "once"}
        self.scenario.crash()
        assert not once & set(self.scenario.running), "what may run only once is not run again"

    def the_roster_changes(self, slug: str, *, present: bool) -> None:
        whole = sub_agents().roster
        kept = {name: member for name, member in self.scenario.policy.roster.items() if name != slug}
        roster = {**kept, Slug(slug): whole[Slug(slug)]} if present else kept
        self.scenario.policy = dataclasses.replace(self.scenario.policy, roster=roster)

    # ---- what always holds ----

    @invariant()
    def it_is_sound(self) -> None:
        """Legal transitions, one refold, usage as summed, and something runs if and only if it does not wait."""
        check_invariants(self.scenario)

    @invariant()
    def what_runs_is_what_is_wanted(self) -> None:
        """The reconciler and the state never disagree, and no key is of a kind that is not its effect's."""
        assert self.scenario.running.keys() == pending(self.scenario.conversation).keys()
        kinds = {
            Work.ROUTE: Route,
            Work.MODEL: ModelCall,
            Work.TOOL: ToolCall,
            Work.PUBLISH: Publish,
            Work.TIMER: Timer,
            Work.UNDO: Undo,
            Work.SHOW: Show,
            Work.INSPECT: Inspect,
            Work.CHECK: Check,
        }
        assert all(isinstance(effect, kinds[key.work]) for key, effect in self.scenario.running.items())
        assert len(self.ready(Route)) <= 1
        assert len(self.ready((Inspect, Check))) <= 1, "one thing is looked at after the other"

    @invariant()
    def a_checkpoint_holds_all_of_it(self) -> None:
        """Who goes on from it, written and read, is where this is, with the same work in flight."""
        conversation = self.scenario.conversation
        if conversation.next_seq % 3:  # a sample is enough: it is the dearest look of all
            return
        data = CONVERSATION.encode_decisions([[StateSnapshot.of(conversation)]])
        there = fold(conversation.id, CONVERSATION.decode_lines(data)[0])
        assert there == conversation
        assert (phases_of(there).worked_on, there.router.asked) == (
            phases_of(conversation).worked_on,
            conversation.router.asked,
        )
        assert pending(there) == pending(conversation)

    @invariant()
    def completions_are_counted_once(self) -> None:
        """Each agent of a closed turn has one completion; what it sent is sent once."""
        ended = [record.run for record in self.scenario.records(r.RunEnded)]
        assert len(ended) == len(set(ended))
        history = self.scenario.conversation.history
        assert history is not None
        for turn in history.turns:
            assert sorted(done.agent for done in turn.completions) == sorted(turn.agents)

    @invariant()
    def who_is_called_has_a_caller_that_waits(self) -> None:
        """A called run has an open call of an open run, and such a call has a run."""
        runs = self.scenario.conversation.work.runs
        waits = {
            (run.id, call.request.id) for run in runs.values() for call in run.calls if call.state is CallState.LINKED
        }
        assert waits == {(run.parent, run.call) for run in runs.values() if run.parent is not None}

    @invariant()
    def gates_are_earned(self) -> None:
        """A cycle that executed never ends by decision with a gate open; only a user's `/new` may do that."""
        new, self.looked_at = self.scenario.journal[self.looked_at :], len(self.scenario.journal)
        for decision in new:
            kinds = [type(record) for record in decision]
            if r.Ended in kinds and r.CommandGiven not in kinds:
                seen = [
                    record.seq + 1 for record in decision if isinstance(record, p.WorkInspected | p.VerificationCounted)
                ]
                state = self.before(max(seen, default=decision[0].seq))
                left = {gate for gate in state.unmet_gates if gate is not Phase.REFLECTION}
                waived = {gate for record in decision if isinstance(record, p.Waived) for gate in record.phases}
                assert not left - waived

    @invariant()
    def no_request_is_dropped(self) -> None:
        """What a person wrote has a turn after it that could work on it, unless it was an answer or they stopped it."""
        self.scenario.refold()
        left = [one.text for one in self.scenario.requests.values()]
        pending = pending_words(self.scenario.conversation)
        if self.scenario.conversation.cycle.status == "ended":
            assert not left
            assert not pending
        is_gone = self.only_agent and self.only_agent not in self.scenario.policy.routable
        if self.scenario.conversation.cycle.waiting_for == "user" and is_gone:
            self.scenario.requests.clear()
            self.scenario.answered_by_notice.update(pending)  # and they stay so when the agent comes back
        elif self.scenario.conversation.cycle.waiting_for == "user":
            # a yes that does not count is answered with the reason
            unanswered = {*left, *pending} - self.scenario.answered_by_notice
            assert not [text for text in unanswered if not is_clear_yes(text)]

    @invariant()
    def plans_are_approved_by_who_may(self) -> None:
        """Where a person must approve a plan, it is left with the approval of one who may, after its last turn."""
        if self.plan_approval == "router":
            return
        approval: p.PlanApproved | None = None
        roles: dict[str, tuple[Role, str]] = {}
        for record in self.scenario.records():
            match record:
                case r.MessageRecorded() | r.CommandGiven():
                    roles[record.event_id] = record.role, record.author
                case r.TurnOpened():
                    approval = None
                case p.PlanApproved():
                    approval = record
                case r.PhaseTransition(from_=Phase.PLAN):
                    assert approval is not None
                    role, author = roles[approval.message_id]
                    is_starter = author == self.scenario.conversation.identity.starter
                    assert role is Role.OWNER or (role is Role.MEMBER and is_starter)

    @invariant()
    def who_answers_may(self) -> None:
        """No one but an owner, who was asked and the member who began answers what an agent asks."""
        wrote = {one.seq: one for one in self.scenario.records(r.MessageRecorded)}
        asked = {(one.run, one.call): one.of for one in self.scenario.records(r.QuestionAsked)}
        for answer in self.scenario.records(r.QuestionAnswered):
            message = wrote[answer.message]
            is_asked = message.author == asked[answer.run, answer.call]
            has_begun = message.role is Role.MEMBER and message.author == self.scenario.conversation.identity.starter
            assert message.role is Role.OWNER or is_asked or has_begun

    @invariant()
    def what_asks_was_allowed_by_an_owner(self) -> None:
        """A call that asks begins after an owner's yes to exactly it, once, or to its like; a no begins nothing."""
        roles = {one.event_id: one.role for one in self.scenario.records(r.CommandGiven)}
        allowed: set[tuple[str, str]] = set()
        lasting = 0
        for record in self.scenario.records():
            match record:
                case r.ApprovalAnswered(outcome="yes"):
                    assert roles[record.event_id] is Role.OWNER
                    allowed |= {(record.run, call) for call in record.calls}
                    if record.remember:
                        lasting = max(lasting, record.until or 10**18)
                case r.ApprovalWithdrawn():
                    allowed -= {(record.run, call) for call in record.calls}
                case r.ToolCallStarted() if record.tool in ASKING:
                    assert (record.run, record.call) in allowed or record.at < lasting
                    allowed.discard((record.run, record.call))

    def before(self, seq: int) -> Any:
        records = [record for decision in self.scenario.journal for record in decision if record.seq < seq]
        return fold(self.scenario.conversation.id, records)

    def teardown(self) -> None:
        """Left alone, with good models and fired timers, it comes to rest, and the user was sent something."""
        scenario = self.scenario
        scenario.worker, scenario.router = plain_model, lambda _: {"agents": ["USER"], "reason": "the person is next"}
        for _ in range(300):
            if not scenario.step():
                waits = [e.key.part for e in self.ready(Timer) if e.key.part in ("retry", "route")]
                if not waits:
                    break
                scenario.fire(waits[0])
        if scenario.conversation.cycle.status != "new":
            check_idle(scenario)
        check_invariants(scenario)
        agent_phases.check_moves(ID, scenario.records(), MOVES)
        assert Scenario.refold(scenario) == scenario.conversation, (
            "what the journal states must not depend on when it is read"
        )


ConversationMachine.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=45,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestConversationMachine = ConversationMachine.TestCase
FEWER = settings(ConversationMachine.TestCase.settings, max_examples=12)
"""For its variants; the sweep below has many of each."""


class SingleAgentMachine(ConversationMachine):
    """The same with one agent alone, where no router is ever asked."""

    only_agent = Slug("executor")

    @invariant()
    def no_router_is_asked(self) -> None:
        assert not self.ready(Route)
        assert not self.scenario.conversation.unmet_gates


SingleAgentMachine.TestCase.settings = FEWER
TestSingleAgentMachine = SingleAgentMachine.TestCase


class RoutedByRuleMachine(ConversationMachine):
    """The same where steps that leave one choice are taken without the router."""

    routes_by_rule = True


RoutedByRuleMachine.TestCase.settings = FEWER
TestRoutedByRuleMachine = RoutedByRuleMachine.TestCase


class ApprovedPlansMachine(RoutedByRuleMachine):
    """The same where a person approves each plan."""

    plan_approval = "person"


ApprovedPlansMachine.TestCase.settings = FEWER
TestApprovedPlansMachine = ApprovedPlansMachine.TestCase


@pytest.mark.soak
@pytest.mark.parametrize(
    "machine", [ConversationMachine, SingleAgentMachine, RoutedByRuleMachine, ApprovedPlansMachine]
)
def test_many_other_conversations(machine: type[ConversationMachine]) -> None:
    """New ones every time; one that fails is printed with the blob that shows it again."""
    many = settings(
        ConversationMachine.TestCase.settings,
        max_examples=300,
        stateful_step_count=60,
        derandomize=False,
        print_blob=True,
    )
    run_state_machine_as_test(machine, settings=many)
