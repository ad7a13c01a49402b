"""A model that answers by states: asked for plain text, read by the graph, asked again where the text is wrong.

request ──► in words, with the grammar ──► the model ──► parser ──► valid: one step, private parts apart
                  ▲                                        │
                  └────────── what is wrong with it ◄──────┘   a few times, then it is refused
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from tenex.core.errors import ModelRefused, ModelUnavailable, UsageError, kind_of
from tenex.core.ids import Slug
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, Note, cut
from tenex.core.ports import Model, OnText, ignore_text
from tenex.log import get_logger

from .agents import AgentOutput, Enforced, OutputFormat
from .content import PythonStateMachine, ToolCallStateMachine, core_of
from .history import as_text, step_of
from .parser import OutputFault, OutputParser, ParserEvent, Piece, Segment, repair_prompt
from .requests import read_answer

log = get_logger(__name__)

TRIES: Final = 3
"""Answers asked for before the run fails: a model that is wrong three times needs more than the same request."""

SHOWN: Final = 20_000
"""Characters of a wrong answer that its model is shown again, so that it corrects it and does not start over."""


ProgressKind = Literal["piece", "closed", "refused", "broken"]
"""Some more characters; the whole text of a segment; what was wrong with the answer, so that nothing was done; that no
more of it comes, because the model failed or was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputProgress:
    """A part of an answer being written, for the operator at this machine."""

    conversation: str
    agent: Slug
    kind: ProgressKind
    text: str
    state: str = ""
    """Empty where all of the answer is meant, as are the next three."""
    readable_name: str = ""
    emoji: str = ""
    color: str = ""


OnProgress = Callable[[OutputProgress], None]


class OutputModel:
    """A `core.ports.Model` before another: agents in `outputs` answer by states, all else passes through."""

    def __init__(
        self,
        model: Model,
        outputs: Mapping[Slug, AgentOutput],
        enforced: Enforced = "none",
        *,
        rejects: Callable[[BaseException | None], bool] = lambda _: False,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        """Take the model, and how its server is asked to enforce the states.

        `rejects`: whether an error means that the server does not take the request, so that the grammar is left out
        from then on; `on_progress` receives everything that is written, private or not, and must not raise.
        """
        has_step = not isinstance(model, type) and callable(getattr(model, "step", None))
        if not has_step:
            raise UsageError(f"`model` is {kind_of(model)}, which has no `async def step(request, on_text)`.")
        given: object = outputs  # users' code may not check types
        if not isinstance(given, Mapping) or not all(isinstance(one, AgentOutput) for one in given.values()):
            raise UsageError("`outputs` must be a dict of agents' slugs, each with an AgentOutput.")
        self._model = model
        self._outputs = outputs
        self._enforced: Enforced = enforced
        self._rejects = rejects
        self._on_progress = on_progress

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once; see `core.ports.Model`. The usage is that of all answers it took."""
        output = self._outputs.get(request.agent) if request.purpose == "work" else None
        form = output.format_for(request.tools) if output is not None else None
        if form is None:
            return await self._model.step(request, on_text)
        progress = partial(OutputProgress, conversation=request.conversation, agent=request.agent)
        spent = NO_USAGE
        queued = 0
        model = ""
        wrong: tuple[OutputFault, ...] = ()
        entries: Sequence[ModelStep | Note] = ()
        for attempt in range(1, TRIES + 1):
            try:
                step, enforced = await self._ask(request, form, entries, on_text)
            except BaseException as error:
                self._on_progress(
                    OutputProgress(conversation=request.conversation, agent=request.agent, kind="broken", text="")
                )
                if not isinstance(error, ModelRefused | ModelUnavailable):
                    request.on_cancelled(spent, model)
                    raise
                error.usage, error.queued = spent + error.usage, queued / 1000 + error.queued
                raise
            spent = spent + step.usage
            queued = queued + step.queued
            model = step.model
            segments, wrong = read(form, step.text, enforced)
            if not wrong:
                return replace(step_of(step, form, segments), usage=spent, queued=queued)
            text = " ".join(fault.message for fault in wrong)
            self._on_progress(progress(kind="refused", text=text))
            kinds = [fault.kind for fault in wrong]
            log.info("output.refused", model=model, agent=request.agent, attempt=attempt, faults=kinds)
            entries = (ModelStep(text=cut(step.text, SHOWN)), Note(title="Refused", text=repair_prompt(wrong)))
        raise ModelRefused(_refusal(wrong), spent, model=model, queued=queued / 1000)

    async def _ask(
        self, request: ModelRequest, form: OutputFormat, entries: Sequence[ModelStep | Note], on_text: OnText
    ) -> tuple[ModelStep, Enforced]:
        """One answer, and how it was enforced."""
        enforced = self._enforced
        listener = _Listener(request, form, on_text, self._on_progress, is_read=enforced != "json_schema")
        try:
            step = await self._model.step(in_states(request, form, entries, enforced), listener)
        except ModelUnavailable as error:
            if enforced == "none" or not self._rejects(error.__cause__):
                raise
            enforced = "none"
            listener = _Listener(request, form, on_text, self._on_progress)
            step = await self._model.step(in_states(request, form, entries, enforced), listener)
            step = replace(step, usage=error.usage + step.usage)
            if self._enforced != enforced:  # it was the grammar that was not taken
                log.warning("output.not_enforced", model=step.model, grammar=self._enforced)
                self._enforced = enforced
        listener.end(step.text)
        return step, enforced


def read(form: OutputFormat, text: str, enforced: Enforced) -> tuple[tuple[Segment, ...], tuple[OutputFault, ...]]:
    """The segments of an answer, and everything wrong with it; nothing is to be done where there is a fault."""
    if enforced == "json_schema":
        return read_answer(form.plan, text)
    parser = OutputParser(form.plan)
    parser.feed(text)
    parser.close()
    return parser.segments, parser.faults


def _refusal(wrong: Sequence[OutputFault]) -> str:
    # this sentence is published, so it may quote nothing of what was written
    listed = ", ".join(dict.fromkeys(f"{fault.state} ({fault.kind})" if fault.state else fault.kind for fault in wrong))
    return f"{TRIES} answers in a row did not follow the states; nothing of them was done. Wrong in the last: {listed}"


def in_states(
    request: ModelRequest, form: OutputFormat, more: Sequence[ModelStep | Note] = (), enforced: Enforced = "none"
) -> ModelRequest:
    """Return the request for text: no tools, the states in the prompt, and the fields by which they are enforced."""
    entries = [as_text(entry, form, as_json=enforced == "json_schema") for entry in request.entries]
    return replace(
        request,
        system=f"{request.system.rstrip()}\n\n# The states of your answer\n\n{form.prompt(enforced)}\n",
        entries=(*entries, *more),
        tools=(),
        extra=form.body(enforced),
    )


class _Listener:
    """Receives an answer being written: reports all of it, and streams only text that is meant for users."""

    def __init__(
        self,
        request: ModelRequest,
        form: OutputFormat,
        on_text: OnText,
        on_progress: OnProgress,
        *,
        is_read: bool = True,
    ) -> None:
        self._request = request
        self._form = form
        self._on_text = on_text
        self._on_progress = on_progress
        self._parser = OutputParser(form.plan)
        self._is_read = is_read
        self._at = 0
        self._streamed = ""

    def __call__(self, text: str) -> None:
        """Take the text so far."""
        if self._is_read:
            more = text[self._at :]
            self._at = max(self._at, len(text))
            self._take(self._parser.feed(more))

    def end(self, text: str) -> None:
        """Take the whole text."""
        if self._is_read:
            self(text)
            self._take(self._parser.close())
        else:
            self._take(read(self._form, text, "json_schema")[0])

    def _take(self, events: Sequence[ParserEvent]) -> None:
        for one in events:
            if isinstance(one, OutputFault) or one.state not in self._form.states:
                continue
            state = self._form.states[one.state]
            is_whole = isinstance(one, Segment)
            text = state.shown(one.text) if is_whole else one.text
            self._on_progress(
                OutputProgress(
                    conversation=self._request.conversation,
                    agent=self._request.agent,
                    kind="closed" if is_whole else "piece",
                    text=text,
                    state=one.state,
                    readable_name=state.readable_name,
                    emoji=state.emoji,
                    color=state.color,
                )
            )
            if isinstance(one, Piece) and self._is_public(one.state):
                self._streamed += one.text
                self._on_text(self._streamed)

    def _is_public(self, state: str) -> bool:
        """Whether the state's content is text for users: an action that neither calls nor runs."""
        if self._form.plan.role(state) == "plan" or self._parser.faults:
            return False
        return not isinstance(core_of(self._form.plan.contents[state]), ToolCallStateMachine | PythonStateMachine)
