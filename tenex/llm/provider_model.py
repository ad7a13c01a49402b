"""One model of a provider: waits in the queue, calls in bounded time, reads the stream and reports the outcome."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from math import inf
from time import monotonic
from typing import Any, Literal

from pydantic_ai import messages as parts
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.memory.window import request_tokens, squeezed, weight
from tenex.core.messages import NO_USAGE, Entry, ModelRequest, ModelStep, Picture, Usage, UserText
from tenex.core.ports import OnText, ignore_text
from tenex.log import get_logger

from .answer_limits import CONTENT, MB, PARTS, AnswerTooLarge, exceeded, is_whole
from .compatible import CompatibleChatModel
from .config import ModelClientConfig, ProviderConfig
from .cut_input import REMEDY, CutInput, ReportedInput
from .errors import is_of_account, rejects_form, rejects_order, translate
from .messages import messages, pictures_of, unseen_pictures
from .overflow import overflow
from .pricing import bill_for, usage_of
from .providers import base_settings, cache_settings
from .rate_limit import ProviderQueue
from .request_params import DECISION, Form, best_form, parameters, serialized
from .response import refused_call, step_of, written_tokens
from .thoughts import ThoughtSplitter, split
from .written_calls import sayable

log = get_logger(__name__)

UNENDED_STREAMS = 2
"""Streams in a row that end without a finish reason, before streaming is turned off."""

STREAM_PAUSE = 600.0
"""Seconds for which streaming is then off; doubled each time, because a try costs an answer."""

LONGEST_STREAM_PAUSE = 6 * 3600.0
"""Seconds; a server may have been updated since."""

WAYS = 6
"""Attempts to send one request in different forms, before it is given up."""

DECISION_TOKENS = 4_000
"""Most tokens of a decision of a server nearby, with what its model thinks: a weak one may go on until the timeout."""

SMALLER = 0.97
"""Of the size of a request that was too large: a smaller cut would be refused again."""

_REJECTED = (400, 413)
"""Statuses of a request that is invalid or too large."""

REJECTED = 100
"""Rejected combinations of pictures that are remembered: an agent sends the same ones with each step."""

PARTS_OF_TEXT = 64
"""A text is passed on again once a part of this many is new: a short one each time, a long one some hundred times."""

_STRICT = re.compile(r"mi[sx]tral|mi(ni)?stral|magistral|codestral|devstral|pixtral", re.IGNORECASE)
"""Names of models whose chat templates are Mistral's; others are known by what their server refuses."""

FAILURE_FLAGS = ("anthropic", "bedrock")
"""Kinds whose protocol has a flag for a call that failed."""


Outcome = Literal["answered", "refused", "unavailable", "cancelled"]
"""`cancelled`: the answer is no longer needed; its cost is known only as far as it was received."""

Thoughts = Literal["unknown", "apart", "unopened"]
"""How a model marks its thoughts: `apart` from its text or by both tags, or by a closing tag alone, in which case no
text of a stream is passed on before that tag. `unknown` is treated in the same way until the first answer is there."""


class _BrokenOff(Exception):
    """A stream ended before the server reported the answer as complete."""


@dataclass(slots=True)
class _StreamState:
    """What is known of a call while it runs."""

    sent: int = 0
    """The estimated tokens of the request."""
    stream: StreamedResponse | None = None
    pictures: frozenset[str] = frozenset()
    """The addresses of those that were sent."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How a request is sent."""

    form: Form
    """The form of structured answers."""
    is_strict: bool = False
    """Whether messages have the order, and calls the ids, that Mistral's models require."""
    room: int | None = None
    """Estimated tokens that are known to fit; None until a request was too large."""
    narrows: bool = False
    """Whether schemas of an answer and of calls have only what is possible now (`ModelRequest.possible`)."""
    pictures: bool = True
    """Whether pictures are sent; without them only the rest of a request that was rejected with them."""


def _other_way(way: _Way, sent: ModelRequest, error: BaseException | None) -> _Way | None:
    """Another way to send a request that a server rejected; None if there is none."""
    too_long = overflow(error)
    if too_long is not None:
        room = too_long.room(_size(sent))
        is_smaller = room > 0 and _size(_cut_to(sent, room)) < SMALLER * _size(sent)
        return replace(way, room=room) if is_smaller else None
    if not way.is_strict and rejects_order(error):
        return replace(way, is_strict=True)
    if isinstance(error, CutInput):
        is_smaller = _size(_cut_to(sent, error.reported)) < SMALLER * _size(sent)
        return replace(way, room=error.reported) if is_smaller else None
    if way.narrows and (way.form is Form.NATIVE or any(tool.possible for tool in sent.tools)) and rejects_form(error):
        return replace(way, narrows=False)
    if way.form is not Form.TEXT and rejects_form(error):
        return replace(way, form=Form.TEXT)
    return None


def _narrowed(request: ModelRequest, form: Form) -> ModelRequest:
    """A request whose schemas have nothing but what is possible now."""
    tools = tuple(replace(tool, parameters=tool.possible or tool.parameters) for tool in request.tools)
    schema = request.possible if form is Form.NATIVE and request.possible is not None else request.output_schema
    return replace(request, tools=tools, output_schema=schema)


def _without_pictures(way: _Way, state: _StreamState, error: BaseException | None) -> _Way | None:
    """The way without the pictures of a request that a server rejected; None if it had none.

    Servers reject pictures for many reasons, as too many pixels or a file that is cut off, and name few of them.
    """
    if not state.pictures or not isinstance(error, ModelHTTPError) or error.status_code not in _REJECTED:
        return None
    return replace(way, pictures=False)


def _cut_to(request: ModelRequest, room: int | None) -> ModelRequest:
    if room is None or _size(request) <= room:
        return request
    return replace(request, entries=squeezed(request.system, request.entries, request.tools, room))


def _size(request: ModelRequest) -> int:
    return request_tokens(request.system, request.entries, request.tools)


class _Content:
    """Counts what a stream has given, without what its server put around it."""

    def __init__(self) -> None:
        self._bytes = self._parts = 0

    def take(self, event: parts.ModelResponseStreamEvent) -> None:
        """Count the next event.

        Raises:
            AnswerTooLarge: there are too many parts, or they hold too much.
        """
        match event:
            case parts.PartStartEvent(part=parts.TextPart(content=text) | parts.ThinkingPart(content=text)):
                self._parts += 1
            case parts.PartStartEvent(part=parts.ToolCallPart(args=arguments)):
                self._parts += 1
                text = _as_text(arguments)
            case parts.PartStartEvent():
                self._parts += 1
                return
            case parts.PartDeltaEvent(delta=parts.TextPartDelta(content_delta=text)):
                pass
            case parts.PartDeltaEvent(delta=parts.ThinkingPartDelta(content_delta=thought)):
                text = thought or ""
            case parts.PartDeltaEvent(delta=parts.ToolCallPartDelta(args_delta=arguments)):
                text = _as_text(arguments)
            case _:
                return
        self._bytes += weight(text)
        if self._bytes > CONTENT:
            raise AnswerTooLarge(f"more than {CONTENT // MB} MB of text in one answer")
        if self._parts > PARTS:
            raise AnswerTooLarge(f"more than {PARTS:,} texts and calls in one answer")


class _StreamedText:
    """The text of a stream, passed on as far as it is certain to be no thought and no call.

    It is passed on as a whole: of a long text a part at a time, because each time costs as much as the text is long.
    """

    def __init__(self, on_text: OnText, *, may_call: bool) -> None:
        self._on_text = on_text
        self._may_call = may_call
        self._text = ThoughtSplitter()
        self._seen = 0
        """Characters that have been looked at."""
        self._is_certain = False
        self._is_passed_on = True

    def add(self, piece: str, *, is_certain: bool) -> None:
        """Take the next piece; `is_certain` if thoughts do not come within the text."""
        self._is_certain = is_certain
        self._text.add(piece)
        if self._text.length < self._seen:  # all that was there has become a thought
            self._seen = 0
        if self._text.length - self._seen >= self._seen // PARTS_OF_TEXT:
            self._look()

    def end(self) -> None:
        """Pass on what has not been, now that everything has come."""
        if self._text.length > self._seen:
            self._look()

    def _look(self) -> None:
        if not self._is_passed_on:
            return
        shown: str | None = self._text.text
        if shown and self._may_call:
            shown = sayable(shown, self._seen)
            self._is_passed_on = shown is not None
        self._seen = self._text.length
        if not (shown and shown.strip() and (self._is_certain or self._text.has_thought)):
            return
        try:
            self._on_text(shown)
        except Exception as error:  # noqa: BLE001  nothing depends on streamed text
            log.warning("model.stream_observer_failed", error=type(error).__name__)
            self._is_passed_on = False


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class ProviderModel:
    """A `core.ports.Model` for one model of one provider."""

    def __init__(
        self, name: str, config: ModelClientConfig, provider: ProviderConfig, model: Model[Any], turns: ProviderQueue
    ) -> None:
        self.name = name
        self._config = config
        self._model = model
        self._turns = turns
        self._bill = bill_for(config, name)
        self._maker = f"{provider.protocol}:{model.system}"
        self._provider = provider
        self._settings = base_settings(provider, model)
        self._reported = ReportedInput(name, provider)
        self._way = _Way(best_form(model), is_strict=bool(_STRICT.search(name)), narrows=provider.is_near)
        # protocols with a place of their own for thoughts, whose servers are known to use it
        has_thoughts = provider.protocol in ("anthropic", "google", "openai-responses") or (
            provider.protocol == "openai" and not provider.base_url
        )
        self._thoughts: Thoughts = "apart" if has_thoughts else "unknown"
        self._streams_from = 0.0
        """Streaming is off until then, on the monotonic clock."""
        self._stream_pause = STREAM_PAUSE
        self._unended = 0
        self._rejected: dict[frozenset[str], None] = {}
        """The pictures, by their addresses, that the server rejects together; the oldest first."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Answer once; see `core.ports.Model`."""
        began = time.perf_counter()
        state = _StreamState()
        waited = None
        try:
            size = _size(_cut_to(request, self._way.room))
            async with self._turns.turn(
                size, request.person, request.priority, model=self.name, through_pause=request.is_urgent
            ) as turn:
                waited = turn.waited
                try:
                    step = await self._ask(request, on_text, state)
                except (ModelUnavailable, ModelRefused) as error:
                    if not isinstance(error.__cause__, TimeoutError):  # what the server did until then may be billed
                        turn.settle(error.usage.tokens)
                    raise
                turn.settle(step.usage.tokens)
        except (ModelUnavailable, ModelRefused) as error:
            error.model, error.queued = self.name, time.perf_counter() - began if waited is None else waited
            outcome: Outcome = "unavailable" if isinstance(error, ModelUnavailable) else "refused"
            self._log(request, outcome, began, error.queued, error.usage, str(error))
            raise
        except asyncio.CancelledError:
            queued = time.perf_counter() - began if waited is None else waited
            usage = NO_USAGE if waited is None else self._billed_at_least(state)
            self._log(request, "cancelled", began, queued, usage)
            request.on_cancelled(usage, self.name)
            raise
        self._log(request, "answered", began, turn.waited, step.usage)
        return replace(step, queued=int(turn.waited * 1000))

    async def _ask(self, request: ModelRequest, on_text: OnText, state: _StreamState) -> ModelStep:
        """Call the model, at once in another way if the server rejects this one; the way that works is kept."""
        way = self._way if request.output_schema is not None else replace(self._way, form=Form.TEXT)
        spent = NO_USAGE
        sent = request
        rejected: frozenset[str] = frozenset()
        attempts = 0
        while True:
            attempts += 1
            sent = _cut_to(sent, way.room)
            try:
                step = await self._bounded(sent, way, on_text, state)
            except (ModelUnavailable, ModelRefused) as error:
                spent = error.usage = spent + error.usage
                cause = error.__cause__
                other = way if self._learns(cause) else _other_way(way, sent, cause)
                if other is None:
                    other = _without_pictures(way, state, cause)
                    rejected = state.pictures
                if other is None or attempts == WAYS:
                    raise
                way = other
            else:
                if not way.pictures:
                    self._reject(rejected)
                form = way.form if request.output_schema is not None else self._way.form
                used = replace(way, form=form, pictures=True)  # later requests may have other pictures
                if used != self._way:
                    log.info("model.request_changed", model=self.name, **asdict(used))
                    self._way = used
                return replace(step, usage=spent + step.usage)

    def _reject(self, pictures: frozenset[str]) -> None:
        """Remember that without these pictures the server took a request that it had rejected with them."""
        self._rejected[pictures] = None
        if len(self._rejected) > REJECTED:
            del self._rejected[next(iter(self._rejected))]

    def _learns(self, error: BaseException | None) -> bool:
        """Whether an error says what is to be sent otherwise to this server from now on."""
        if is_whole(error) and self._streams_from < inf:
            self._streams_from = inf
            log.warning("model.streams_off", model=self.name, seconds=0)
            return True
        return isinstance(self._model, CompatibleChatModel) and bool(self._model.learn(error))

    async def _bounded(self, request: ModelRequest, way: _Way, on_text: OnText, state: _StreamState) -> ModelStep:
        state.sent = _size(request)
        state.stream = None
        shown: dict[str, Picture | str] = {}
        if any(isinstance(entry, UserText) and "://" in entry.text for entry in request.entries):
            shown = await asyncio.to_thread(self._pictures, request.entries)
        state.pictures = frozenset(address for address, picture in shown.items() if isinstance(picture, Picture))
        if state.pictures and (not way.pictures or state.pictures in self._rejected):
            shown |= dict.fromkeys(state.pictures, "your server has refused it")
            state.pictures = frozenset()
        sent = messages(
            request.entries,
            self._maker,
            marks_failures=self._provider.protocol in FAILURE_FLAGS,
            is_strict=way.is_strict,
            marks_cache=self._provider.protocol == "anthropic",
            pictures=shown,
        )
        wanted = parameters(_narrowed(request, way.form) if way.narrows else request, way.form)
        left = inf if request.time_left is None else request.time_left
        seconds = min(self._config.timeout, left)
        try:
            async with asyncio.timeout(seconds) as limit:
                response = await self._answer(request, sent, wanted, on_text, state)
        except TimeoutError as error:
            if limit.expired():
                setting = "close_after of its agent leaves" if seconds == left else "models.timeout sets"
                problem = f"did not finish its answer within {seconds:g} s, which {setting}"
            else:
                problem = f"fell silent within its answer for {self._config.idle_timeout:g} s"
            raise ModelUnavailable(f"{self.name} {problem}", usage=self._billed(state)) from error
        except _BrokenOff as error:
            raise ModelUnavailable(f"{self.name} broke off its answer", usage=self._billed(state)) from error
        except Exception as error:  # any server may make the library raise anything; the work must be paused
            if (step := refused_call(error, self.name, request.tools)) is not None:
                return step
            is_answered = exceeded(error) is not None
            usage = self._billed_at_least(state) if is_answered else self._billed(state)
            failure = translate(error, self.name, usage, self._provider)
            if isinstance(failure, ModelUnavailable) and failure.retry_after:
                self._turns.pause(failure.retry_after, "" if is_of_account(error) else self.name)
            raise failure from error
        self._turns.resume(self.name)
        text = response.text or ""
        if split(text).unopened:
            self._thoughts = "unopened"
        elif self._thoughts == "unknown" and request.purpose == "work" and text.strip():  # a decision cannot show any
            self._thoughts = "apart"
        usage = self._usage(response.usage, response, state)
        try:
            self._reported.check(lambda: serialized(request), state.sent, response.usage.input_tokens)
        except CutInput as error:
            problem = f"took in {error.reported} tokens of about {state.sent}; {REMEDY}, or choose another model"
            raise ModelUnavailable(f"{self.name} {problem}", usage=usage, needs_operator=True) from error
        tool = DECISION if request.output_schema is not None and way.form is Form.TOOL else ""
        return step_of(
            response, self.name, "" if request.purpose == "route" else self._maker, usage, tool, request.tools
        )

    def _pictures(self, entries: Sequence[Entry]) -> dict[str, Picture | str]:
        """What the request shows of the pictures that it names, and why not of the others; blocks."""
        has_picture = cache(self._config.has_picture)
        if self.name in self._config.sees:
            return pictures_of(entries, self._config.picture, has_picture)
        return unseen_pictures(entries, has_picture, "you are not set to see pictures")

    async def _answer(
        self,
        request: ModelRequest,
        sent: list[parts.ModelMessage],
        wanted: ModelRequestParameters,
        on_text: OnText,
        state: _StreamState,
    ) -> parts.ModelResponse:
        settings = self._settings_for(request)
        is_streamed = self._config.stream and monotonic() >= self._streams_from
        if not is_streamed or request.purpose != "work":  # a decision is not streamed to users
            response = await model_request(
                self._model, sent, model_settings=settings, model_request_parameters=wanted, instrument=False
            )
            if len(response.parts) > PARTS:
                raise AnswerTooLarge(f"more than {PARTS:,} texts and calls in one answer")
            return response
        async with (
            model_request_stream(
                self._model, sent, model_settings=settings, model_request_parameters=wanted, instrument=False
            ) as stream,
            asyncio.timeout(None) as idle,
        ):
            state.stream = stream
            await self._listen(stream, idle, on_text, may_call=bool(request.tools))
        response = stream.get()
        if not _is_ended(response, self._model):
            self._unended += 1
            if self._unended >= UNENDED_STREAMS:
                self._streams_from = monotonic() + self._stream_pause
                log.warning("model.streams_off", model=self.name, seconds=self._stream_pause)
                self._stream_pause = min(2 * self._stream_pause, LONGEST_STREAM_PAUSE)
            raise _BrokenOff
        self._unended = 0
        self._stream_pause = STREAM_PAUSE
        return response

    async def _listen(
        self, stream: StreamedResponse, idle: asyncio.Timeout, on_text: OnText, *, may_call: bool
    ) -> None:
        clock = asyncio.get_running_loop().time
        text = _StreamedText(on_text, may_call=may_call)
        content = _Content()
        is_empty = True
        has_thought = False
        async for event in stream:
            idle.reschedule(clock() + self._config.idle_timeout)
            content.take(event)
            match event:
                case parts.PartStartEvent(part=parts.TextPart(content=piece), previous_part_kind=before):
                    gap = "" if is_empty or before == "text" else "\n\n"
                case parts.PartDeltaEvent(delta=parts.TextPartDelta(content_delta=piece)):
                    gap = ""
                case parts.PartStartEvent(part=parts.ThinkingPart()):
                    has_thought = True
                    continue
                case _:
                    continue
            is_empty = is_empty and not piece
            text.add(gap + piece, is_certain=self._thoughts == "apart" or has_thought)
        text.end()

    def _settings_for(self, request: ModelRequest) -> ModelSettings:
        """Settings of one call. A routing question is asked once, so only its unchanging beginning is cached."""
        settings = ModelSettings(**self._settings, timeout=self._config.timeout)
        # a key of the agent in its conversation, which gives neither away
        who = f"{request.conversation} {request.agent}"
        key = sha256(who.encode()).hexdigest()[:32] if request.conversation else ""
        settings |= cache_settings(self._provider, key, grows=request.purpose == "work")
        # The library would add a paragraph of its own to the prompts of some models.
        settings["framing_announcement"] = "never"
        most = self._config.max_output_tokens
        if request.purpose == "route" and self._provider.is_near:
            most = min(most or DECISION_TOKENS, DECISION_TOKENS)
        if most is not None:
            settings["max_tokens"] = most
        if request.extra:
            settings["extra_body"] = dict(request.extra)
        return settings

    def _billed(self, state: _StreamState) -> Usage:
        """The known usage of a failed call: what its stream has reported so far."""
        if state.stream is None:
            return NO_USAGE
        return self._usage(state.stream.usage, state.stream.get(), state)

    def _billed_at_least(self, state: _StreamState) -> Usage:
        """The usage of a cancelled call: a server that has begun to answer has read the request."""
        if state.stream is not None:
            return self._billed(state)
        return usage_of(RequestUsage(), "", self._bill, state.sent) if state.sent else NO_USAGE

    def _usage(self, used: RequestUsage, response: parts.ModelResponse, state: _StreamState) -> Usage:
        """The usage of a call, estimated as far as the server did not report it."""
        return usage_of(used, response.model_name or "", self._bill, state.sent, written_tokens(response))

    def _log(
        self, request: ModelRequest, outcome: Outcome, began: float, queued: float, usage: Usage, message: str = ""
    ) -> None:
        write: Callable[..., Any] = log.info if outcome in ("answered", "cancelled") else log.warning
        write(
            f"model.{outcome}",
            model=self.name,
            agent=request.agent,
            purpose=request.purpose,
            ms=round((time.perf_counter() - began - queued) * 1000, 1),
            queued_ms=round(queued * 1000, 1),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
            **({"estimated_tokens": usage.estimated} if usage.estimated else {}),
            **({"cache_read_tokens": usage.cache_read_tokens} if usage.cache_read_tokens else {}),
            **({"reason": message} if message else {}),
        )


def _is_ended(response: parts.ModelResponse, model: Model[Any]) -> bool:
    """Whether the server gave a reason for the end of its stream; without one the answer may be incomplete.

    The library fills in a reason for chat completions, so there only what the server itself sent counts.
    """
    has_reason = bool((response.provider_details or {}).get("finish_reason"))
    if has_reason or response.finish_reason in ("content_filter", "length", "error"):
        return True
    fills_in = any(kind.__name__ == "OpenAIChatModel" for kind in type(model).__mro__)
    return response.finish_reason is not None and not fills_in
