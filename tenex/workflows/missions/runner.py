"""Runs nodes: builds one from the journal's values, gives it its dependencies, and has its steps journaled.

The same for a first run, a retry and a restart: a node is always made of journaled values, and gets to where it
was by running its code over the steps that have returned.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from tenex.core.config import Replay, Role
from tenex.core.effects import KindEffect
from tenex.core.errors import DeserializationError, InternalError, SerializationError, StepFailed, WorkflowError
from tenex.core.ids import PublicKey
from tenex.core.signals import Signal
from tenex.log import get_logger
from tenex.workflows.kit.error_text import cut, sentence_of
from tenex.workflows.kit.serialization import Typed
from tenex.workflows.kit.steps import METER, CostMeter, ReplayName
from tenex.workflows.missions.effects import NodeRun
from tenex.workflows.missions.signals import (
    NodeFailed,
    NodeInterrupted,
    NodeReturned,
    PauseRequested,
    StepFinished,
    StepRequested,
)
from tenex.workflows.missions.state import UNKNOWN_KIND, Step

from .node_graph import NodeGraph
from .nodes import CURRENT, Answer, GraphRunContext, may_pass, needs_operator, retry_after

Post = Callable[[Signal], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """What a node asks of an agent or a workflow, on whose behalf, and the key of the step."""

    name: str
    message: str
    key: str
    author: PublicKey | None
    role: Role | None


Ask = Callable[[PeerRequest], Awaitable[Answer]]

_IN_STEP: ContextVar[str | None] = ContextVar("tenex_step", default=None)

log = get_logger(__name__)


class NodeRunner:
    """Runs the nodes of these graphs; `core.ports.Missions`."""

    def __init__(
        self, graphs: Mapping[str, tuple[NodeGraph[Any, Any, Any], Callable[[], Any]]], ask: Ask | None = None
    ) -> None:
        """Take graphs by their names, each with what makes its dependencies for a run of a node.

        `ask` asks an agent or a workflow by its name; None where there is no daemon.
        """
        self.graphs = dict(graphs)
        self.ask = ask
        self._handed: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """By mission, the node that follows and the dependencies it was made with; lost with the process."""

    def prepare(self, effect: KindEffect, post: Post) -> "NodeTaskOf":
        """The run of a node.

        Raises:
            InternalError: it is the work of another kind.
        """
        if not isinstance(effect, NodeRun):
            raise InternalError(f"{type(effect).__name__} is no work of a mission")
        return NodeTaskOf(self, effect, post)

    def state_of(self, graph: NodeGraph[Any, Any, Any], recorded: Mapping[str, Any]) -> Any:
        """The state that a node is given."""
        return graph.load_state(recorded)

    async def admit(self, effect: NodeRun, node: Any) -> None:
        """Return once a node may begin."""

    def report_failure(self, error: BaseException) -> None:
        """Receive what a node raised."""

    def handed(self, mission: str, node: str) -> Mapping[str, Any]:
        """The dependencies that a node of a mission was made with."""
        known, dependencies = self._handed.get(mission, ("", {}))
        return dependencies if known == node else {}

    def hand(self, mission: str, node: str, dependencies: Mapping[str, Any]) -> None:
        """Keep the dependencies that the node which follows was made with; none follows where it is ""."""
        if dependencies:
            self._handed[mission] = node, dependencies
        else:
            self._handed.pop(mission, None)


class NodeTaskOf:
    """One run of one node; `core.ports.KindTask`."""

    def __init__(self, runner: NodeRunner, effect: NodeRun, post: Post) -> None:
        self._runner = runner
        self._known = runner.graphs.get(effect.workflow)
        self._handed = runner.handed(effect.conversation, effect.node)
        self._effect = effect
        self._post = post
        self._waiters: set[asyncio.Future[None]] = set()
        self._used: Counter[str] = Counter()
        self._meter = CostMeter()
        self._open = 0
        self._is_resting = False
        self._is_over = False
        self._task: asyncio.Task[Any] | None = None
        self._ctx: GraphRunContext[Any, Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a step is under way."""
        return self._open > 0

    @property
    def _is_cancelled(self) -> bool:
        return self._task is not None and self._task.cancelling() > 0

    def see(self, effect: KindEffect) -> None:
        """Take the steps that have become durable."""
        if not isinstance(effect, NodeRun):
            return
        self._effect = effect
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def rest(self) -> None:
        """Want no more steps."""
        self._is_resting = True

    async def __call__(self) -> Signal:
        """Run the node and return how it ended."""
        self._task = asyncio.current_task()
        self._meter = CostMeter(METER.get())  # of a mission that a step of another runs, both pay
        token = METER.set(self._meter)
        try:
            return replace(await self._ended(), spent=self._meter.read())
        except asyncio.CancelledError:
            if cost := self._meter.read():
                self._post(NodeInterrupted(spent=cost))
            raise
        finally:
            METER.reset(token)

    async def _ended(self) -> NodeReturned | NodeFailed:
        try:
            return await self._run()
        except DeserializationError as fault:
            return self._failed("operator", type(fault).__name__, str(fault))
        except SerializationError as fault:
            return self._failed("author", type(fault).__name__, str(fault))
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
            return self._failed("author", "CancelledError", "something it awaited was cancelled from elsewhere")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a node raises is its failure, and logged there
            return self._broken(error)
        finally:
            self._is_over = True
            for waiter in self._waiters:  # of tasks the node began and left alone
                waiter.cancel()

    async def _run(self) -> NodeReturned | NodeFailed:
        if self._known is None:
            return self._failed("operator", "NoWorkflow", f"this process has no workflow {self._effect.workflow}.")
        graph, deps_of = self._known
        try:
            deps = deps_of()
        except (Exception, SystemExit) as error:
            if may_pass(error):
                raise
            log.error("mission.no_dependencies", workflow=self._effect.workflow, exc_info=error)
            what = f"the dependencies of {self._effect.workflow} cannot be made: {_sentence(error)}"
            raise DeserializationError(what) from error
        node = graph.load_node(self._effect.node, self._effect.data, deps, self._handed)
        state = self._runner.state_of(graph, self._effect.state)
        await self._runner.admit(self._effect, node)
        self._ctx = GraphRunContext(state, deps, self, mission=self._effect.conversation, attempt=self._effect.attempt)
        token = CURRENT.set(self._ctx)
        try:
            answer = await node.run(self._ctx)
        finally:
            CURRENT.reset(token)
        read = graph.read_answer(self._effect, answer, self._ctx.state)
        if isinstance(read, NodeReturned):
            self._runner.hand(self._effect.conversation, read.to, graph.dependencies_of(answer))
        return read

    def _broken(self, error: BaseException) -> NodeFailed:
        passes = may_pass(error)
        kind = error.kind if isinstance(error, StepFailed) else type(error).__name__
        log.error(
            "node.failed",
            workflow=self._effect.workflow,
            node=self._effect.node,
            kind=kind,
            may_pass=passes,
            exc_info=error,
        )
        self._runner.report_failure(error)
        failed = self._failed("world" if passes else "author", kind, _sentence(error), retry_after(error))
        return replace(failed, needs_operator=needs_operator(error))

    def _failed(self, who: Any, kind: str, message: str, after: int | None = None) -> NodeFailed:
        return NodeFailed(key=self._effect.key, who=who, kind=kind, message=message, retry_after=after)

    # ---- steps ----

    async def step(self, name: str, call: Callable[[str], Any], replay: ReplayName, returns: Any, label: str) -> Any:
        """The result of a step; see `GraphRunContext.step`."""
        kind = Typed[Any](returns, f"the result of the step {name} ({label})")
        step = self._claim(name)
        known = self._effect.steps.get(step)
        if known is not None and known.is_done:
            return self._replayed(known, kind)
        await self._gate()
        self._open += 1
        try:
            if known is None:
                self._post(StepRequested(node=self._effect.key, step=step, replay=Replay(replay)))
                known = await self._until(lambda: self._effect.steps.get(step))
            cause = await self._carry_out(known, call, kind)
            done = await self._until(lambda: self._returned(step))
        finally:
            self._open -= 1
        if not done.ok:
            raise _error_of(done) from cause
        return kind.load(done.result)

    async def ask(self, name: str, message: str, key: str) -> Answer:
        """What an agent or a workflow of the daemon answers; see `GraphRunContext.ask`."""
        if self._runner.ask is None:
            raise WorkflowError("Without a daemon nothing can be asked by name; ask a BaseAgent, or `run` a graph.")
        effect = self._effect
        return await self._runner.ask(
            PeerRequest(name=name, message=message, key=key, author=effect.author, role=effect.role)
        )

    async def pause(self, reason: str) -> None:
        """Pause here; see `GraphRunContext.pause`."""
        given: object = reason
        if not isinstance(given, str):
            raise WorkflowError(f"The reason of a pause is a {type(given).__name__}; give a text.")
        step = self._claim("pause")
        if step in self._effect.steps:
            return
        await self._gate()
        by = f"the node {self._effect.node}"
        self._post(PauseRequested(by=by, reason=cut(reason) or f"{by} asks for it.", node=self._effect.key, step=step))
        await asyncio.get_running_loop().create_future()  # the pause ends this task, and the next passes this place

    def _claim(self, name: str) -> str:
        """The name of the step in this visit."""
        outer = _IN_STEP.get()
        if outer is not None:
            raise WorkflowError(f"The step {name} is within the step {outer}: a step is one effect; put it after it.")
        if self._is_cancelled:  # a node that ignores it has no more effects
            raise asyncio.CancelledError
        if self._is_over:
            raise WorkflowError(f"The step {name} was wanted after its node had ended; await what the node starts.")
        if not name or not name.isprintable() or len(name) > 200 or "#" in name:
            raise WorkflowError("A step's name is 1 to 200 printable characters without a number sign.")
        self._used[name] += 1
        return name if self._used[name] == 1 else f"{name}#{self._used[name]}"

    async def _gate(self) -> None:
        if self._is_resting:
            await asyncio.get_running_loop().create_future()  # until the process cancels it; the next one goes on

    async def _until(self, found: Callable[[], Step | None]) -> Step:
        while (step := found()) is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return step

    def _returned(self, step: str) -> Step | None:
        known = self._effect.steps.get(step)
        return known if known is not None and known.is_done else None

    async def _carry_out(self, step: Step, call: Callable[[str], Any], kind: Typed[Any]) -> BaseException | None:
        """Have the effect and report its result."""
        token = _IN_STEP.set(step.id)
        ctx_token = CURRENT.set(None)
        try:
            result = call(f"{self._effect.conversation}:{step.seq}")
            if inspect.isawaitable(result):
                result = await result
            self._report(step, ok=True, result=kind.dump(result))
        except SerializationError as fault:
            self._report(step, ok=False, kind=type(fault).__name__, message=str(fault))
            return fault
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a step raises is its result
            may_repeat = step.replay is not Replay.ONCE or getattr(error, "nothing_done", None) is True
            self._report(
                step,
                ok=False,
                kind=type(error).__name__,
                message=_sentence(error),
                may_pass=may_repeat and may_pass(error),
                needs_operator=needs_operator(error),
            )
            return error
        finally:
            CURRENT.reset(ctx_token)
            _IN_STEP.reset(token)
        return None

    def _report(self, step: Step, *, ok: bool, **outcome: Any) -> None:
        assert self._known is not None
        assert self._ctx is not None
        state = self._known[0].dump_state(self._ctx.state)
        spent = self._meter.read()
        self._post(StepFinished(node=self._effect.key, step=step.id, ok=ok, state=state, spent=spent, **outcome))

    def _replayed(self, step: Step, kind: Typed[Any]) -> Any:
        """What the step gave when it ran, and what it did to the state."""
        assert self._known is not None
        assert self._ctx is not None
        self._known[0].restore(self._ctx.state, step.changed)
        if not step.ok:
            raise _error_of(step)
        return kind.load(step.result)


def _error_of(step: Step) -> StepFailed:
    unknown = step.kind == UNKNOWN_KIND
    return StepFailed(
        step.id,
        step.kind,
        step.message,
        may_pass=step.retryable,
        is_unknown=unknown,
        needs_operator=step.needs_operator,
    )


def _sentence(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"it wanted to end the process (SystemExit {error}); have it return or raise an Exception"
    return sentence_of(error)
