"""A model that answers by states: asked for plain text, read by the graph, asked again where the text is wrong.

request ──► in words, with the grammar ──► the model ──► parser ──► valid: one step, private parts apart
                  ▲                                        │
                  └────────── what is wrong with it ◄──────┘   a few times, then it is refused
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import structlog

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import Slug
from tenex.core.messages import NO_USAGE, ModelRequest, ModelStep, Note, Usage, cut
from tenex.core.ports import Model, OnText, ignore_text

from .agents import AgentOutput, Enforced, Held
from .answers import read_answer
from .content import PythonStateMachine, ToolCallStateMachine, core_of
from .history import in_words, step_of
from .parser import OutputParser
from .segments import Fault, Heard, Piece, Segment, repair_prompt

log = structlog.get_logger(__name__)

TRIES: Final = 3
"""Answers asked for before the run is told: a model that gets it wrong three times needs more than the same words."""

SHOWN: Final = 20_000
"""Characters of a wrong answer that its model is shown again, so that it mends and does not begin anew."""


ToldKind = Literal["piece", "closed", "refused", "broken"]
"""Some more characters; the whole text of a segment; what was wrong with the answer, so that nothing was done; that no
more of it comes, because the model failed or was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something of an answer being written, for people at this machine."""

    conversation: str
    agent: Slug
    state: str
    readable_name: str
    emoji: str
    color: str
    kind: ToldKind
    text: str


Hears = Callable[[Told], None]


class OutputModel:
    """A `core.ports.Model` before another: agents of whom `outputs` knows speak by states, all else goes through."""

    def __init__(
        self,
        model: Model,
        outputs: Mapping[Slug, AgentOutput],
        enforced: Enforced = "none",
        *,
        rejects: Callable[[BaseException | None], bool] = lambda _: False,
        hears: Hears = lambda _: None,
    ) -> None:
        """Take the model, and how its server is asked to enforce what is right.

        `rejects` tells whether a server does not take what it was sent, so that the grammar is left out from then on;
        `hears` is told of everything that is written, private or not, and must not raise.
        """
        self._model = model
        self._outputs = outputs
        self._enforced: Enforced = enforced
        self._rejects = rejects
        self._hears = hears

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once; see `core.ports.Model`. The usage is that of all answers it took."""
        output = self._outputs.get(request.agent) if request.purpose == "work" else None
        held = output.at(request.tools) if output is not None else None
        if held is None:
            return await self._model.step(request, on_text)
        spent, queued, model = NO_USAGE, 0, ""
        wrong: tuple[Fault, ...] = ()
        entries: Sequence[ModelStep | Note] = ()
        for attempt in range(1, TRIES + 1):
            try:
                step, enforced = await self._ask(request, held, entries, on_text)
            except BaseException as error:
                self._hears(_told(request, kind="broken", text=""))
                if not isinstance(error, ModelRefused | ModelUnavailable):
                    request.on_cancelled(spent, model)
                    raise
                error.usage, error.queued = spent + error.usage, queued / 1000 + error.queued
                raise
            spent, queued, model = spent + step.usage, queued + step.queued, step.model
            segments, wrong = read(held, step.text, enforced)
            if not wrong:
                return replace(step_of(step, held, segments), usage=spent, queued=queued)
            self._tell_refusal(request, wrong)
            kinds = [fault.kind for fault in wrong]
            log.info("output.refused", model=model, agent=request.agent, attempt=attempt, faults=kinds)
            entries = (ModelStep(text=cut(step.text, SHOWN)), Note(title="Refused", text=repair_prompt(wrong)))
        raise _refused(wrong, spent, model, queued)

    async def _ask(
        self, request: ModelRequest, held: Held, entries: Sequence[ModelStep | Note], on_text: OnText
    ) -> tuple[ModelStep, Enforced]:
        """One answer, and how it was enforced."""
        enforced = self._enforced
        listener = _Listener(request, held, on_text, self._hears, is_read=enforced != "json_schema")
        try:
            step = await self._model.step(await in_states(request, held, entries, enforced), listener)
        except ModelUnavailable as error:
            if enforced == "none" or not self._rejects(error.__cause__):
                raise
            enforced = "none"
            listener = _Listener(request, held, on_text, self._hears)
            step = await self._model.step(await in_states(request, held, entries, enforced), listener)
            step = replace(step, usage=error.usage + step.usage)
            if self._enforced != enforced:  # it was the grammar that was not taken
                log.warning("output.not_enforced", model=step.model, grammar=self._enforced)
                self._enforced = enforced
        listener.end(step.text)
        return step, enforced

    def _tell_refusal(self, request: ModelRequest, wrong: Sequence[Fault]) -> None:
        text = " ".join(fault.message for fault in wrong)
        self._hears(_told(request, kind="refused", text=text))


def read(held: Held, text: str, enforced: Enforced) -> tuple[tuple[Segment, ...], tuple[Fault, ...]]:
    """The segments of an answer, and everything wrong with it; nothing is to be done where there is a fault."""
    if enforced == "json_schema":
        return read_answer(held.plan, text)
    parser = OutputParser(held.plan)
    parser.feed(text)
    parser.close()
    return parser.segments, parser.faults


def _refused(wrong: Sequence[Fault], spent: Usage, model: str, queued: int) -> ModelRefused:
    # people hear this sentence over relays, so it may quote nothing of what was written
    told = ", ".join(dict.fromkeys(f"{fault.state} ({fault.kind})" if fault.state else fault.kind for fault in wrong))
    sentence = (
        f"{TRIES} answers in a row did not follow the states; nothing of them was done. Wrong in the last: {told}"
    )
    return ModelRefused(sentence, spent, model=model, queued=queued / 1000)


async def in_states(
    request: ModelRequest, held: Held, more: Sequence[ModelStep | Note] = (), enforced: Enforced = "none"
) -> ModelRequest:
    """The request for a model that is asked for text: no tools, its states in the prompt, the grammar beside it."""
    entries = in_words(request.entries, held, as_json=enforced == "json_schema")
    return replace(
        request,
        system=f"{request.system.rstrip()}\n\n# The states of your answer\n\n{held.prompt(enforced)}\n",
        entries=(*entries, *more),
        tools=(),
        extra=await held.body(enforced),
    )


class _Listener:
    """Hears an answer being written: tells all of it here, and whispers only words that are meant for people."""

    def __init__(
        self, request: ModelRequest, held: Held, on_text: OnText, hears: Hears, *, is_read: bool = True
    ) -> None:
        self._request = request
        self._held = held
        self._on_text = on_text
        self._hears = hears
        self._parser = OutputParser(held.plan)
        self._is_read = is_read
        self._at = 0
        self._said = ""

    def __call__(self, text: str) -> None:
        """Take the text so far."""
        if self._is_read:
            more, self._at = text[self._at :], max(self._at, len(text))
            self._take(self._parser.feed(more))

    def end(self, text: str) -> None:
        """Take the whole text."""
        if self._is_read:
            self(text)
            self._take(self._parser.close())
        else:
            self._take(read(self._held, text, "json_schema")[0])

    def _take(self, heard: Sequence[Heard]) -> None:
        for one in heard:
            if isinstance(one, Fault) or one.state not in self._held.states:
                continue
            state = self._held.states[one.state]
            is_whole = isinstance(one, Segment)
            told = state.shown(one.text) if is_whole else one.text
            self._hears(
                replace(
                    _told(self._request, kind="closed" if is_whole else "piece", text=told),
                    state=one.state,
                    readable_name=state.readable_name,
                    emoji=state.emoji,
                    color=state.color,
                )
            )
            if isinstance(one, Piece) and self._is_said(one.state):
                self._said += one.text
                self._on_text(self._said)

    def _is_said(self, state: str) -> bool:
        """Whether the state's content is words for people: an action that neither calls nor runs."""
        if self._held.plan.role(state) == "plan" or self._parser.faults:
            return False
        return not isinstance(core_of(self._held.plan.contents[state]), ToolCallStateMachine | PythonStateMachine)


def _told(request: ModelRequest, *, kind: ToldKind, text: str) -> Told:
    return Told(
        conversation=request.conversation,
        agent=request.agent,
        state="",
        readable_name="",
        emoji="",
        color="",
        kind=kind,
        text=text,
    )
