"""A conversation played through the pure core: no I/O, no clock, a test decides every step.

`Scenario` replaces actor and reconciler: it keeps the journal, performs effects one at a time, and can crash:

    scenario = Scenario(Router(route("execute", "executor"), WAITS), model_by_phase(execute=[reply("done")]))
    scenario.user_writes("build it")  # a user's message
    scenario.step()  # performs one effect: the router chooses, a model replies, a tool returns, a relay accepts
    scenario.settle()  # performs all effects but timers; `settle(seed)` in random order
    scenario.converse("and test it")  # `user_writes` and `settle`
    scenario.fire("retry")  # lets a timer fire
    scenario.handle(signal)  # anything else
    assert scenario.phases() == [Phase.EXECUTE] and scenario.records(r.RunEnded)

The invariants of each scenario that a test plays are checked at the end of the test.
`scenario_at(phase)` begins in that phase. The real runtime on virtual time is `tests.fakes.runtime.World`.
"""

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Self

from tenex.core import records as r
from tenex.core.config import (
    Agent,
    AgentKind,
    ConversationRules,
    GateRules,
    Limits,
    Policy,
    Replay,
    Role,
    ToolRule,
    default_policy,
)
from tenex.core.conversation import Conversation, fold, new_conversation
from tenex.core.cycle.checks import ChangedFile, CheckResult, Inspection
from tenex.core.dispatch import decide, next_question
from tenex.core.effects import (
    Check,
    Effect,
    Evaluate,
    Inspect,
    Key,
    KindEffect,
    ModelCall,
    Publish,
    Route,
    Show,
    Timer,
    ToolCall,
    Undo,
    Work,
)
from tenex.core.functions.verdicts import Verdict, call_now
from tenex.core.ids import CallId, ConversationId, EventId, Millis, PublicKey, Slug
from tenex.core.kind_format import FORMATS
from tenex.core.memory.transcript import entries_for
from tenex.core.memory.window import CONTEXT_TOKENS
from tenex.core.messages import NO_USAGE, CallRequest, ModelStep, Usage
from tenex.core.pending import pending
from tenex.core.phases import PHASE_TRANSITIONS, Access, Phase, way
from tenex.core.port_values import ShowOutcome, UndoOutcome
from tenex.core.ports import Prompt, PublishOutcome, ToolResult, UnsignedEvent
from tenex.core.rollback.whole import ConversationForked, RolledBack
from tenex.core.signals import (
    Checked,
    Evaluated,
    FilesChanged,
    InboundMessage,
    Inspected,
    MessageReceived,
    ModelAnswered,
    ModelFailed,
    Opened,
    Published,
    RouteAnswered,
    ShowReturned,
    Signal,
    TimerFired,
    ToolReturned,
    UndoReturned,
)
from tenex.core.work.run import Run
from tenex.runtime.seal import dated, prompted
from tenex.workflows.phases.router_prompt import question_for
from tenex.workflows.phases.state import phases_of
from tests.fakes.routing import read_question

ID = ConversationId("c" * 64)
RELAY = "ws://relay"
ALICE = PublicKey("a" * 64)

TOOLS = {
    rule.name: rule
    for rule in (
        ToolRule(name="read_file", access=Access.READ, replay=Replay.READ),
        ToolRule(name="write_file", access=Access.CHANGE, replay=Replay.IDEMPOTENT),
        ToolRule(name="send", access=Access.CHANGE, replay=Replay.ONCE),
        ToolRule(name="check", access=Access.RUN, replay=Replay.IDEMPOTENT),
        ToolRule(name="learn", access=Access.LEARN, replay=Replay.IDEMPOTENT),
        ToolRule(name="complete", access=Access.SPEAK, replay=Replay.READ),
        ToolRule(name="ask", access=Access.SPEAK, replay=Replay.READ),
    )
}


def agent(slug: str, kind: AgentKind = AgentKind.WORKER, tools: Iterable[str] = TOOLS) -> Agent:
    return Agent(
        slug=Slug(slug),
        name=slug.title(),
        pubkey=PublicKey(slug.encode().hex().ljust(64, "0")[:64]),
        kind=kind,
        tools=frozenset(tools),
        use_when=f"when {slug} is needed",
    )


ALWAYS = GateRules(chores="always", reflection="always")
"""Agents work in each gate after every change, whether or not there is something to do."""


def policy(*, limits: Limits | None = None, gates: GateRules | None = None, routes_by_rule: bool = False) -> Policy:
    """The roster of the tests: a project manager, a planner, two executors and an expert; the router chooses each step.

    With `routes_by_rule` a step that leaves one choice is taken without it. Unless `gates` says else, agents work in
    each gate after every change.
    """
    people = [agent("project-manager"), agent("planner"), agent("executor"), agent("helper")]
    people.append(agent("security", AgentKind.EXPERT))
    bare = default_policy(
        roster={member.slug: member for member in people},
        tools=TOOLS,
        project=agent("orchestrator", AgentKind.ORCHESTRATOR, ()),
    )
    return dataclasses.replace(
        bare,
        conversations=ConversationRules(route_by_rule=routes_by_rule),
        limits=limits or Limits(),
        gates=gates or ALWAYS,
    )


USUAL_PHASES = {
    "project-manager": (Phase.CHAT, Phase.BRAINSTORM, Phase.VERIFICATION),
    "planner": (Phase.PLAN,),
    "executor": (Phase.EXECUTE, Phase.VERIFICATION, Phase.CHORES),
    "helper": (Phase.EXECUTE,),
}


def routed_by_rule(known: Policy) -> Policy:
    """The rules where agents usually work in the phases of those that are shipped, so that some phases have one."""
    roster = {
        slug: dataclasses.replace(member, phases=USUAL_PHASES.get(slug, ())) for slug, member in known.roster.items()
    }
    return dataclasses.replace(known, conversations=ConversationRules(route_by_rule=True), roster=roster)


def _shown(conversation: Conversation, run: Run) -> Prompt:
    """A prompt that shows where its agent is."""
    agent_state = conversation.memory.agent_states[run.state_key]
    return Prompt(system=f"You are an agent. You know {json.dumps(agent_state.values)}.", entries=())


def evaluated(conversation: Conversation, effect: Evaluate, policy: Policy, now: Millis) -> Evaluated:
    """What the functions answer that a decision depends on, called here and now."""
    verdicts: list[Verdict] = []
    while (asked := next_question(conversation, verdicts, policy, now)) is not None:
        verdicts.append(call_now(asked))
    return Evaluated(key=effect.key, verdicts=tuple(verdicts))


RouterModel = Callable[[dict[str, Any]], Any]
AgentModel = Callable[[Conversation, ModelCall], ModelStep | ModelFailed]


def reply(text: str, *calls: tuple[str, dict[str, Any]]) -> ModelStep:
    """A model's answer: text, and calls as (tool, arguments)."""
    requests = tuple(CallRequest(id=CallId(f"k{i}"), tool=tool, arguments=args) for i, (tool, args) in enumerate(calls))
    return ModelStep(text=text, calls=requests, model="script", usage=Usage(input_tokens=10, output_tokens=5))


def passed(effect: Check) -> CheckResult:
    """A check that has found nothing."""
    return CheckResult(name=effect.name, command=effect.name, tree=effect.tree, outcome="passed", status=0, tests=3)


_unchecked: dict["Scenario", None] | None = None
"""While a test runs: the scenarios that have gone on since their invariants were checked, in order."""


def begin_checks() -> None:
    """Remember each scenario that is played from now on, for `finish_checks`."""
    global _unchecked
    _unchecked = {}


def finish_checks() -> None:
    """Check the invariants of each scenario that has been played since `begin_checks`."""
    for scenario in list(_unchecked or ()):
        check_invariants(scenario)


class Scenario:
    """One conversation, its journal, and work in flight."""

    def __init__(self, router: RouterModel, worker: AgentModel, *, config: Policy | None = None) -> None:
        self.router, self.worker = router, worker
        self.policy = config or policy()
        self.now = Millis(1_000_000)
        self.journal: list[tuple[r.Record, ...]] = []
        self.conversation = new_conversation(ID)
        self.running: dict[Key, Effect] = {}
        self.ran: Counter[str] = Counter()
        self.published: dict[str, list[UnsignedEvent]] = {}
        self.count = 0
        self.appends = 0
        self.crash_at: tuple[int, str] | None = None
        self.crashed = 0
        self.has_buttons = False
        self.backlog: list[Signal] = []
        self.budget = CONTEXT_TOKENS
        self.undo: Callable[[Undo], UndoOutcome] = lambda _: UndoOutcome()
        self.check_names: tuple[str, ...] = ()
        self.check: Callable[[Check], CheckResult] = passed
        self.answers_at_once = True
        """Whether functions that a decision depends on are called before anything else happens."""
        self.looks_at_once = True
        """Whether looks at the workspace and checks end before anything else happens."""
        self.named_files: dict[str, str] = {}
        """The files that each call names, with their digests now."""
        self.relays: tuple[str, ...] = (RELAY,)
        self.address: dict[str, Any] = {"form": "notes"}

    # ---- the actor ----

    def handle(self, signal: Signal) -> list[r.Record]:
        """Decide, append, apply, reconcile, and call the functions that are asked; crash where the test asks for it."""
        records = self._handle(signal)
        while (asked := self._at_once()) is not None:
            self.running.pop(asked.key)
            records = [*records, *self._handle(self.perform(asked))]
        return records

    def _at_once(self) -> Effect | None:
        kinds = (*((Evaluate,) if self.answers_at_once else ()), *((Inspect, Check) if self.looks_at_once else ()))
        return next((effect for effect in self.running.values() if isinstance(effect, kinds)), None)

    def inspect(self, effect: Inspect) -> Inspection:
        """What differs: all that calls have changed, on a tree that each change makes a new one."""
        changed = tuple(ChangedFile(path=path, added=1) for path in effect.touched)
        return Inspection(tree=f"tree-{effect.key.seq}", base="tree-0", changed=changed, checks=self.check_names)

    def _handle(self, signal: Signal) -> list[r.Record]:
        if _unchecked is not None:
            _unchecked[self] = None
        self.now = Millis(self.now + 1)
        decision = decide(self.conversation, signal, self.policy, self.now, self._seal)
        if not decision.records:
            return []
        self.appends += 1
        if self.crash_at == (self.appends, "before"):
            self.crash()
            if not isinstance(signal, (MessageReceived, Opened)):
                return []  # the task's result is lost with the process; it is still pending and runs again
            return self._handle(signal)  # relays keep what we never acknowledged: the message comes again
        self.conversation = decision.after
        self.journal.append(tuple(decision.records))
        if self.crash_at == (self.appends, "after"):
            self.crash()
        self.reconcile()
        return decision.records

    def _seal(self, conversation: Conversation, record: r.Record) -> r.Record:
        if isinstance(record, r.MessageSent) and record.is_published:
            event = UnsignedEvent(
                id=EventId(f"{record.seq:064x}"),
                pubkey=record.speaker,
                created_at=record.at // 1000,
                kind=1,
                tags=record.tags,
                content=record.text,
            )
            buttons = record.buttons if self.has_buttons else None
            return dataclasses.replace(record, events=(event,), relays=self.relays, buttons=buttons)
        if isinstance(record, r.Delivered) and record.again is not None:
            again = dataclasses.replace(
                record.again, id=EventId(f"{record.seq:064x}"), created_at=dated(conversation, record)
            )
            return dataclasses.replace(record, again=again)
        if isinstance(record, r.RunStarted):
            twin = conversation.fork()
            twin.apply(record)
            entries = entries_for(twin, twin.work.runs[record.run], self.budget)
            return dataclasses.replace(record, digest="d", system="You are an agent.", entries=entries)
        if isinstance(record, r.PromptRerendered | r.AgentPhaseChanged):
            return prompted(conversation, record, _shown)
        return record

    def crash(self) -> None:
        """The process dies and starts again: only the journal is left."""
        self.crash_at = None
        self.crashed += 1
        self.running = {}
        self.conversation = fold(ID, [record for decision in self.journal for record in decision])
        self.handle(Opened())
        self.reconcile()

    def reconcile(self) -> None:
        """Start what is wanted, cancel what is not."""
        wanted = pending(self.conversation)
        self.running = {key: self.running.get(key, effect) for key, effect in wanted.items()}

    # ---- the world ----

    def user_writes(
        self,
        text: str,
        *,
        reply_to: str | None = None,
        addressed: tuple[str, ...] = (),
        role: Role = Role.OWNER,
        event_id: str | None = None,
        author: PublicKey = ALICE,
        name: str = "alice",
        late: int = 0,
        by_program: bool = False,
        by_machine: bool = False,
    ) -> list[r.Record]:
        """Someone writes, or a program of theirs; `late` is by how many seconds the message is older than now."""
        self.count += 1
        event = event_id or f"{self.count:064d}"
        message = InboundMessage(
            event_id=EventId(event),
            author=author,
            text=text,
            created_at=self.now // 1000 - late,
            conversation=ID,
            starts=True,
            reply_to=EventId(reply_to) if reply_to else None,
            by_program=by_program,
            by_machine=by_machine,
            address=self.address,
            origin={"id": event, "number": self.count, "author": author},
        )
        names = tuple(map(Slug, addressed))
        return self.handle(MessageReceived(message=message, role=role, name=name, addressed=names, is_plain=by_program))

    def perform(self, effect: Effect) -> Signal:  # noqa: C901 one case an effect: flat, and complete
        """Do one piece of work and state how it ended."""
        match effect:
            case Route():
                answer = self.router(read_question(question_for(self.conversation, self.policy).text))
                if isinstance(answer, ModelFailed):
                    return dataclasses.replace(answer, key=effect.key)
                text = answer if isinstance(answer, str) else json.dumps(answer)
                return RouteAnswered(key=effect.key, step=dataclasses.replace(reply(text), model="router"))
            case ModelCall():
                step = self.worker(self.conversation, effect)
                if isinstance(step, ModelFailed):
                    return dataclasses.replace(step, key=effect.key)
                files = tuple(self.named_files for _ in step.calls) if self.named_files else ()
                return ModelAnswered(key=effect.key, step=step, files=files)
            case ToolCall(unchanged=unchanged) if unchanged not in (None, self.named_files):
                return FilesChanged(key=effect.key, files=self.named_files)
            case ToolCall():
                self.ran[effect.context.idempotency_key] += 1
                arguments = effect.request.arguments
                touched = (str(arguments.get("path", "f")),) if effect.request.tool in ("write_file", "send") else ()
                status = 0 if effect.request.tool == "check" else None
                read = {str(arguments.get("path")): "0" * 64} if effect.request.tool == "read_file" else {}
                content = f"{effect.request.tool} done"
                result = ToolResult(ok=True, content=content, read=read, touched=touched, exit_status=status)
                return ToolReturned(key=effect.key, result=result)
            case Publish():
                known = self.published.setdefault(effect.event.id, [])
                if effect.event not in known:
                    known.append(effect.event)
                return Published(key=effect.key, outcome=PublishOutcome(accepted=True))
            case Timer():
                self.now = max(self.now, effect.due)
                return TimerFired(key=effect.key)
            case Evaluate():
                return evaluated(self.conversation, effect, self.policy, self.now)
            case Undo():
                return UndoReturned(key=effect.key, outcome=self.undo(effect))
            case Show(path=path):
                return ShowReturned(key=effect.key, outcome=ShowOutcome(text=f"{path}: shown"))
            case Inspect():
                return Inspected(key=effect.key, inspection=self.inspect(effect))
            case Check():
                return Checked(key=effect.key, result=self.check(effect))
            case KindEffect():
                raise AssertionError("a scenario with work of a kind answers for it")

    def step(self, choose: Callable[[list[Effect]], Effect] | None = None, *, timers: bool = False) -> bool:
        """Finish one piece of running work; False if there is none."""
        ready = [e for e in self.running.values() if timers or not isinstance(e, Timer)]
        if not ready:
            return False
        effect = (choose or (lambda effects: effects[0]))(ready)
        self.running.pop(effect.key)
        self.handle(self.perform(effect))
        self.reconcile()
        return True

    def converse(self, text: str, **more: Any) -> Self:
        """A user writes, and all work that follows is finished; returns itself."""
        self.user_writes(text, **more)
        return self.settle()

    def settle(self, seed: int | None = None, most: int = 3_000) -> Self:
        """Finish all running work but timers, in order or in an order drawn from a seed."""
        dice = random.Random(seed)
        choose = (lambda effects: dice.choice(effects)) if seed is not None else None
        for _ in range(most):
            if not self.step(choose):
                return self
        raise AssertionError("the conversation never comes to rest")

    def fire(self, part: str) -> None:
        """Let the first timer of that kind fire."""
        timer = next(e for e in self.running.values() if isinstance(e, Timer) and e.key.part.partition(" ")[0] == part)
        self.running.pop(timer.key)
        self.handle(self.perform(timer))
        self.reconcile()

    # ---- what a test asks ----

    def records(self, kind: type[r.Record] = r.Record) -> list[Any]:
        """Every record, or every record of a kind, in order."""
        return [record for decision in self.journal for record in decision if isinstance(record, kind)]

    def sent_texts(self) -> list[str]:
        return [record.text for record in self.records(r.MessageSent)]

    def phases(self) -> list[Phase]:
        return [record.to for record in self.records(r.PhaseTransition)]

    def refold(self) -> Conversation:
        return fold(ID, [record for decision in self.journal for record in decision])


def longest_way(question: dict[str, Any]) -> dict[str, Any]:
    """A good router that goes the long way round, two agents at once in execute."""
    phase, turns, newest = question["phase"], question["turns"], question["messages"][-1]
    last = turns[-1] if turns else None
    route = {
        "chat": ("brainstorm", ["project-manager"]),
        "brainstorm": ("plan", ["planner"]),
        "plan": ("execute", ["executor", "helper"]),
        "execute": ("verification", ["executor"]),
        "verification": ("chores", ["executor"]),
        "chores": ("reflection", question["still_to_reflect"]),
    }
    if phase == "reflection":
        return {"agents": ["END"], "reason": "everybody has reflected"}
    if not turns:
        return {"agents": ["project-manager"], "reason": "what is wanted?"}
    assert last is not None
    if phase in ("chat", "brainstorm") and newest["after_turn"] != last["turn"]:
        return {"agents": ["USER"], "reason": "the person is next"}
    if phase == "verification" and last["completions"][0]["verdict"] == "issues":
        return {"phase": "execute", "agents": ["executor"], "reason": "fix it"}
    target, agents = route[phase]
    return {"phase": target, "agents": agents, "reason": f"on to {target}"}


def diligent(conversation: Conversation, call: ModelCall) -> ModelStep:
    """A good agent: writes, sends, asks once, verifies, learns."""
    run = conversation.work.runs[call.run]
    if run.phase is Phase.EXECUTE:
        if run.agent == "executor" and run.steps == 0:
            return reply(
                "",
                ("read_file", {"path": "a"}),
                ("read_file", {"path": "b"}),
                ("send", {"path": "m"}),
                ("write_file", {"path": "a"}),
            )
        if run.agent == "helper" and run.steps == 0:
            return reply("", ("ask", {"question": "Which colour?"}), ("write_file", {"path": "h"}))
        return reply("", ("complete", {"response": f"{run.agent} built it", "summary": "built"}))
    if run.phase is Phase.VERIFICATION:
        return reply("", ("check", {}), ("complete", {"response": "It works", "verdict": "verified"}))
    if run.phase is Phase.REFLECTION and run.steps == 0:
        return reply("", ("learn", {"lesson": "test early"}))
    return reply(f"{run.agent} has done {run.phase}")


VERIFIES = reply("", ("check", {"path": "a"}), ("complete", {"response": "it works", "verdict": "verified"}))
"""A verifier who tries what was changed, in one step."""
WAITS = {"agents": ["USER"], "reason": "the person is next"}
ENDS = {"agents": ["END"], "reason": "all is done"}


def route(phase: str | None, *agents: str, **more: Any) -> dict[str, Any]:
    decision: dict[str, Any] = {"agents": list(agents), "reason": f"on to {phase or 'the same'}", **more}
    return {**decision, "phase": phase} if phase else decision


def wish(decision: dict[str, Any], *gates: str, words: str = "build it") -> dict[str, Any]:
    """The decision with a wish to skip gates, which rests on these words of a person."""
    return {**decision, "waive": list(gates), "settles": [{"words": words, "as": "waiver"}]}


def thanked(decision: dict[str, Any], *texts: str) -> dict[str, Any]:
    """The decision where these messages are taken as thanks."""
    return {**decision, "settles": [{"words": text, "as": "thanks"} for text in texts]}


def one_turn(agent: str = "project-manager", phase: str | None = None, then: str = "USER") -> RouterModel:
    """A router that has one agent work once for each message."""

    def decide_next(question: dict[str, Any]) -> dict[str, Any]:
        turns, newest = question["turns"], question["messages"][-1]
        is_new = not turns or newest["after_turn"] == turns[-1]["turn"]
        return route(phase, agent) if is_new else route(None, then)

    return decide_next


class Router:
    """A router that gives these answers in turn, then always the last; keeps the questions it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, question: dict[str, Any]) -> Any:
        self.asked.append(question)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(question) if callable(answer) else answer


def plain_model(conversation: Conversation, call: ModelCall) -> ModelStep:
    """An agent that does its part in one step: it changes a file in execute, and tries it in verification."""
    run = conversation.work.runs[call.run]
    done = f"{run.agent} has done its part of {run.phase}"
    if run.phase is Phase.VERIFICATION:
        return VERIFIES
    if run.phase is Phase.EXECUTE and conversation.has_phases and run.parent is None:
        return reply("", ("write_file", {"path": "a"}), ("complete", {"response": done}))
    return reply(done)


def model_by_phase(**steps: Any) -> AgentModel:
    """An agent whose steps in a phase are scripted, the last one repeated; `plain` in the others."""

    def answer(conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.work.runs[call.run]
        script = steps.get(str(run.phase))
        if script is None:
            return plain_model(conversation, call)
        if callable(script):
            return script(conversation, call)
        return script[min(run.steps, len(script) - 1)]

    return answer


def scenario_at(
    phase: Phase,
    router: RouterModel | None = None,
    worker: AgentModel = plain_model,
    *,
    config: Policy | None = None,
    text: str = "build it",
    agents: tuple[str, ...] = ("executor",),
) -> Scenario:
    """A scenario in which a turn of this phase has just closed and the router is being asked what is next."""
    targets = iter(way(Phase.CHAT, phase))

    def lead(question: dict[str, Any]) -> Any:
        if not question["turns"]:
            return route(None, *agents)
        target = next(targets)
        return route(target, *(question["still_to_reflect"] if target is Phase.REFLECTION else agents))

    scenario = Scenario(lead, plain_model, config=config)
    scenario.user_writes(text)
    while not _is_at(scenario, phase):
        assert scenario.step(), "the way to the phase is blocked"
    scenario.router, scenario.worker = router or Router(WAITS), worker
    return scenario


def _is_at(scenario: Scenario, phase: Phase) -> bool:
    last = scenario.conversation.memory.last_turn
    return scenario.conversation.router.question is not None and last is not None and last.phase is phase


def in_flight(scenario: Scenario) -> list[Effect]:
    """What is in flight besides publishing and timers."""
    return [e for e in pending(scenario.conversation).values() if not isinstance(e, (Publish, Timer))]


def refusals(scenario: Scenario) -> list[str]:
    """The sentences of all refusals of the router's answers, in order."""
    return [record.sentence for record in scenario.records(r.RouteRejected)]


def remove_agent(scenario: Scenario, slug: str) -> None:
    roster = {name: member for name, member in scenario.policy.roster.items() if name != slug}
    scenario.policy = dataclasses.replace(scenario.policy, roster=roster)


def step_until(scenario: Scenario, holds: Callable[[Scenario], bool]) -> None:
    while not holds(scenario):
        assert scenario.step(), "nothing is left to do, and it never came to that"


def check_invariants(scenario: Scenario) -> None:
    """What holds of any conversation at any moment, however bad its models are."""
    if _unchecked is not None:
        _unchecked.pop(scenario, None)
    conversation, records = scenario.conversation, [record for decision in scenario.journal for record in decision]
    again = scenario.refold()
    assert again == conversation, "state is nothing but a fold"
    assert (again.memory.window, again.memory.earlier) == (conversation.memory.window, conversation.memory.earlier), (
        "what is not compared, too"
    )
    read = (phases_of(conversation).worked_on, conversation.router.asked)
    assert (phases_of(again).worked_on, again.router.asked) == read, "what is not compared, too"
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    _check_phases(conversation.id, records)
    _check_reflections(records)
    assert conversation.totals.usage == _spent(records), "usage is the sum over the records"
    working = [effect for effect in in_flight(scenario) if not isinstance(effect, Undo | Show)]
    if conversation.cycle.status in ("waiting", "ended", "new"):
        unexpected = [effect for effect in working if not isinstance(effect, Evaluate)]  # these decide if work begins
        assert not unexpected, f"{conversation.cycle.status}, but {unexpected} runs"
        assert conversation.work.turn is None
        assert conversation.router.question is None
    else:
        timers = {e.key.part for e in pending(conversation).values() if isinstance(e, Timer)}
        waits = timers & {"retry", "route", "node-retry"}
        assert working or conversation.work.is_parked or waits, "active, but nothing moves"
    # a run waits for exactly one thing
    for run in conversation.work.runs.values():
        assert (run.wants is not None) + (run.retry is not None) + bool(run.open_calls) == 1


def _check_phases(conversation: ConversationId, records: list[r.Record]) -> None:
    here = Phase.CHAT
    for number, record in enumerate(records):
        if isinstance(record, r.PhaseTransition):
            assert record.from_ is here, "a transition begins where the conversation is"
            assert PHASE_TRANSITIONS.permits(record.from_, record.to), (
                f"{record.from_} -> {record.to} is not in the table"
            )
            here = record.to
        elif isinstance(record, r.CycleStarted):
            here = record.phase
        elif here is not Phase.EXECUTE and any(type(record) in kind.records for kind in FORMATS.values()):
            here = fold(conversation, records[: number + 1]).cycle.phase  # a kind of conversation may have no phases
        elif isinstance(record, (RolledBack, ConversationForked)):
            here = record.state.cycle.phase  # a jump: no transition is invented
        elif isinstance(record, (r.TurnOpened, r.MessageSent)):
            assert record.phase is here


def _check_reflections(records: list[r.Record]) -> None:
    done: set[str] = set()
    for record in records:
        if isinstance(record, r.CycleStarted) or (isinstance(record, r.TurnOpened) and record.phase is Phase.EXECUTE):
            done = set()  # a new execute turn reopens reflection like every gate
        elif isinstance(record, (RolledBack, ConversationForked)):
            done = set(phases_of(record.state).reflected)
        elif isinstance(record, r.TurnOpened) and record.phase is Phase.REFLECTION:
            assert not done & set(record.agents), "each participant reflects once"
            done |= set(record.agents)


def _spent(records: list[r.Record]) -> Usage:
    total = NO_USAGE
    for record in records:
        spent = record.step.usage if isinstance(record, r.ModelResponded) else getattr(record, "usage", NO_USAGE)
        total = total + spent if spent.calls else total
    return total


def check_idle(scenario: Scenario) -> None:
    """The conversation has come to rest, and the user who wrote was sent something."""
    assert scenario.conversation.cycle.status in ("waiting", "ended") or scenario.conversation.work.is_parked
    assert scenario.sent_texts(), "the user was left without a word"
    assert all(effect.key.work in (Work.PUBLISH, Work.TIMER) for effect in scenario.running.values())
