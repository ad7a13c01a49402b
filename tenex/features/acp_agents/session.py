"""One session with the process of an agent of others, over version 1 of the Agent Client Protocol.

What arrives is put into a queue, in its order, and `next_event` takes from its head. Text that nothing has waited for
grows in its place. Three things make the head wait:

- A call that is announced waits half a second to begin or to be asked about: agents send its arguments, or the rest of
  them, in a second update, and it is journaled as it is first seen.
- A request for permission waits until the one before it is answered: agents ask several things within milliseconds, and
  a person is asked one.
- The end of a prompt waits a moment for the last text, which some agents send after it. What comes even later is kept
  for `take_late`: it belongs to the prompt before.

A call in the queue is no copy: it is taken as it is known then, so ten updates of one call that nothing has waited for
are one event. Requests that the client need not serve (files, terminals) are neither offered nor served: they would
reach past the sandbox, in which the agent has files and programs of its own.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

from acp import PROTOCOL_VERSION
from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, CLIENT_METHODS

from tenex import __version__
from tenex.core.errors import InternalError, ModelUnavailable
from tenex.core.ids import Millis
from tenex.core.ports import Clock

from .session_events import (
    LINE_LIMIT,
    LOGIN_NEEDED,
    Begin,
    Deadlines,
    Died,
    Event,
    Facts,
    ModeSeen,
    PermissionAsked,
    PermissionWithdrawn,
    Process,
    PromptEnded,
    PromptFailed,
    TextPiece,
)
from .session_settings import SettingName, Settings
from .session_updates import CALL_UPDATES, Calls, Replaying, event_of, options_of, usage_of
from .wire import Wire

ARGUMENTS_WITHIN: Final = 0.5
"""Seconds for the arguments of a call after it was announced: agents send them in an update milliseconds later."""
LAST_TEXT_WITHIN: Final = 0.2
"""Seconds for text after the answer to a prompt: agents that send it late do so within a tenth of one."""
CLOSED_WITHIN: Final = 1.0
"""Seconds for a process to end once its input is closed, then it is killed."""
MOST_UNREAD: Final = LINE_LIMIT
"""Characters of text that wait to be taken: no answer is as long."""
MOST_ENTRIES: Final = 100_000
"""In the queue: an agent in a loop sends them in seconds."""
_SHOWN: Final = 200
"""Characters of what an agent says of a failure."""

Value = TypeVar("Value")
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Permission:
    """A request for permission."""

    asked: PermissionAsked
    said: dict[str, Any]
    """What the request says of the call."""
    requests: list[int | str]
    """The ids under which the agent waits: two where it has asked the same twice."""
    was_delivered: bool = False


@dataclass(slots=True, eq=False)
class _Entry:
    """Something in the queue: a call by its id, a permission, text that grows, or an event."""

    call: str = ""
    text: list[str] = field(default_factory=list)
    is_thought: bool = False
    permission: _Permission | None = None
    event: Event | None = None
    ready_at: Millis = field(default_factory=lambda: Millis(0))


class Session:
    """A session, from the start of its process to its end. One prompt at a time; `next_event` has one caller."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines = Deadlines()
        self._id = ""
        self._settings = Settings()
        self._calls = Calls()
        self._replaying: Replaying | None = None
        self._queue: deque[_Entry] = deque()
        self._changed = asyncio.Event()
        self._delivered_calls: dict[str, Event] = {}
        self._permissions: list[_Permission] = []
        """Those that are not answered, in the order in which they came."""
        self._permissions_asked = 0
        self._unread = 0
        self._late: list[Event] = []
        self._answering: set[asyncio.Task[None]] = set()
        self._prompting: asyncio.Task[None] | None = None
        self._is_prompted = False
        self._was_prompted = False
        self._is_cancelled = False
        self._heard_at = clock.now()
        self._died: Died | None = None
        self._process: Process
        self._wire: Wire
        self._connection: Connection

    # --- begin -------------------------------------------------------------------------------------------------

    async def begin(self, process: Process, begin: Begin) -> Facts:
        """Begin a session, or go on with one: resumed where the agent can, else loaded, else new.

        Raises:
            ModelUnavailable: the agent has ended or does not answer; with `needs_operator` where its version, its mode
                or its login is not as it has to be. The process is left to the caller.
        """
        self._process = process
        self._deadlines = begin.deadlines
        self._wire = Wire(process, self._take)
        self._connection = Connection(_refuse, self._wire)
        hello = await self._initialize(begin.version)
        capabilities = _mapping(hello.get("agentCapabilities"))
        servers, notes = _servers(begin.mcp_servers, _mapping(capabilities.get("mcpCapabilities")))
        how, answered_notes = await self._open(begin, servers, capabilities)
        for name, wanted in (("mode", begin.mode), ("model", begin.model)):
            if wanted:
                await self._set("mode" if name == "mode" else "model", wanted)
        agent = _mapping(hello.get("agentInfo"))
        replay = self._replaying
        self._replaying = None
        facts = Facts(
            session_id=self._id,
            program=str(agent.get("name") or ""),
            version=str(agent.get("version") or ""),
            how=how,
            mode=self._settings.mode.value,
            model=self._settings.model.value,
            modes=self._settings.mode.offered,
            models=self._settings.model.offered,
            notes=(*_missing(capabilities), *notes, *answered_notes),
        )
        return facts if replay is None else replace(facts, replay=replay.replay)

    async def _initialize(self, version: str) -> Mapping[str, Any]:
        hello = await self._request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
                "clientInfo": {"name": "tenex", "title": "tenex", "version": __version__},
            },
        )
        spoken = hello.get("protocolVersion")
        if spoken != PROTOCOL_VERSION:
            raise _unusable(f"The agent speaks version {spoken} of ACP, and tenex speaks {PROTOCOL_VERSION}")
        shown = str(_mapping(hello.get("agentInfo")).get("version") or "")
        if version and not _begins_with(shown, version):
            raise _unusable(
                f"The agent has version {shown or 'unknown'}, and its file asks for {version}. "
                "Install that one, or change `version` in the file"
            )
        return hello

    async def _open(
        self, begin: Begin, servers: Sequence[Mapping[str, Any]], capabilities: Mapping[str, Any]
    ) -> tuple[Literal["new", "resumed", "loaded"], tuple[str, ...]]:
        """Begin the session; also why it is new though another one was asked for."""
        parameters = {"cwd": begin.cwd, "mcpServers": [dict(server) for server in servers]}
        notes: list[str] = []
        if begin.session:
            self._id = begin.session
            session = _mapping(capabilities.get("sessionCapabilities"))
            ways: list[tuple[Literal["resumed", "loaded"], str]] = []
            if session.get("resume") is not None:
                ways.append(("resumed", "session_resume"))
            if capabilities.get("loadSession"):
                ways.append(("loaded", "session_load"))
            for how, method in ways:
                self._replaying = Replaying()
                try:
                    answer = await self._request(method, {"sessionId": begin.session, **parameters})
                except RequestError as error:
                    notes.append(f"{method.replace('_', '/')} failed: {_said(error)}")
                    continue
                if self._settings.take_answer(answer) or not self._replaying.is_empty or await self._lists(session):
                    return how, tuple(notes)
                notes.append(f"{method.replace('_', '/')} gave nothing of the session, so it is not believed")
            notes.append(f"The session {begin.session} is not continued; this one is new")
        self._replaying = None
        self._settings = Settings()
        try:
            answer = await self._request("session_new", parameters)
        except RequestError as error:
            raise _unusable(f"The agent begins no session: {_said(error)}{_login(error)}") from error
        self._id = str(answer.get("sessionId") or "")
        if not self._id:
            raise _unusable("The agent has begun a session without an id")
        self._settings.take_answer(answer)
        return "new", tuple(notes)

    async def _lists(self, capabilities: Mapping[str, Any]) -> bool:
        """Whether the agent's own list has the session."""
        if capabilities.get("list") is None:
            return False
        try:
            answer = await self._request("session_list", {})
        except RequestError:
            return False
        sessions = answer.get("sessions")
        return isinstance(sessions, list) and any(_mapping(each).get("sessionId") == self._id for each in sessions)

    async def _set(self, name: SettingName, wanted: str) -> None:
        """Set the mode or the model, and read it back."""
        setting = self._settings.of(name)
        if setting.offered and wanted not in setting.offered:
            raise _unusable(f"The agent has no {name} {wanted}; it has {', '.join(setting.offered[:20])}")
        reports = setting.reports
        try:
            if setting.option:
                parameters = {"sessionId": self._id, "configId": setting.option, "value": wanted}
                self._settings.take_answer(await self._request("session_set_config_option", parameters))
            elif name == "mode":
                await self._request("session_set_mode", {"sessionId": self._id, "modeId": wanted})
            else:
                raise _unusable(f"The agent does not let a client set its model {wanted}")
        except RequestError as error:
            raise _unusable(f"The agent does not take the {name} {wanted}: {_said(error)}") from error

        def is_read_back() -> bool:
            return setting.value == wanted and setting.reports > reports

        if await self._until(is_read_back, self._deadlines.setting):
            return
        if setting.value == wanted:
            return  # it said so as the session began, and has not said otherwise since
        raise _unusable(
            f"The {name} {wanted} was set and cannot be read back: the agent says {setting.value or 'nothing of it'}"
        )

    # --- prompt and events -------------------------------------------------------------------------------------

    async def prompt(self, content: str | Sequence[Mapping[str, Any]]) -> None:
        """Send a prompt; what comes of it is in `next_event`, up to `PromptEnded`, `PromptFailed` or `Died`.

        Raises:
            InternalError: the prompt before has not ended: agents do four different things with a second one.
        """
        if self._is_prompted:
            raise InternalError("a session has one prompt at a time")
        self._late.extend(self._drained())
        self._is_prompted = self._was_prompted = True
        self._is_cancelled = False
        self._heard_at = self._clock.now()
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [dict(block) for block in content]
        self._prompting = asyncio.create_task(self._run_prompt(blocks), name="acp.prompt")

    async def next_event(self) -> Event:
        """The next event, once there is one; `Died` again and again after the end of the process.

        It may be cancelled; nothing is lost.
        """
        waiting_since = self._clock.now()
        while True:
            event = self._taken()
            if event is not None:
                return event
            if self._died is not None:
                return self._died
            silent_at = self._silent_at(waiting_since)
            ready_at = self._queue[0].ready_at if self._queue else None
            now = self._clock.now()
            if silent_at is not None and silent_at <= now:  # the clock was set, or something came at the last moment
                self._heard_at = now
                silent_at = self._silent_at(now)
            dues = [due for due in (silent_at, ready_at) if due is not None and due > now]
            due = min(dues, default=None)
            self._changed.clear()
            has_changed = await self._changed_or(due)
            if not has_changed and due == silent_at:  # by time that has passed: a clock that is set ends nothing
                self._end("it was silent for too long", was_silent=True)

    def take_late(self) -> tuple[Event, ...]:
        """What the agent has sent after its last prompt had ended; each once."""
        if not self._is_prompted:
            self._late.extend(self._drained())
        late = tuple(self._late)
        self._late.clear()
        return late

    def note_activity(self) -> None:
        """Count silence from now: the agent was seen to work, as by a request to its model."""
        self._heard_at = self._clock.now()
        self._changed.set()

    # --- answers -----------------------------------------------------------------------------------------------

    async def allow(self, permission: PermissionAsked) -> bool:
        """Answer by the agent's yes for this once; whether it still waited for that, and had one."""
        return await self._answer(permission, "allow_once")

    async def refuse(self, permission: PermissionAsked) -> bool:
        """Answer by the agent's no for this once, or `cancelled` where it has none; whether it still waited."""
        return await self._answer(permission, "reject_once")

    async def cancel(self) -> bool:
        """Ask the agent to stop, and answer all that it asks by `cancelled`; whether its prompt has ended in time."""
        self._is_cancelled = True
        if self._died is not None:
            return True
        if self._is_prompted:
            try:
                await self._connection.send_notification(AGENT_METHODS["session_cancel"], {"sessionId": self._id})
            except ConnectionError:
                return True
        for permission in tuple(self._permissions):
            await self._give(permission, None)
        return await self._until(lambda: not self._is_prompted or self._died is not None, self._deadlines.cancel)

    async def close(self, grace: float = CLOSED_WITHIN) -> None:
        """End the process: its input is closed, and it is killed unless it ends within `grace` seconds."""
        self._died = self._died or Died(why="it was closed")
        self._is_cancelled = True
        await self._connection.close()
        if self._prompting is not None:
            self._prompting.cancel()
            await asyncio.gather(self._prompting, return_exceptions=True)
        if grace > 0:
            await self._within(self._process.wait(), grace)
        self._process.kill()
        await self._process.wait()

    # --- what arrives ------------------------------------------------------------------------------------------

    def _take(self, message: dict[str, Any]) -> bool:
        """Take a message before the SDK; True where it is done with."""
        self._heard_at = self._clock.now()
        self._changed.set()
        method = message.get("method")
        parameters = _mapping(message.get("params"))
        if method == CLIENT_METHODS["session_update"]:
            self._take_update(_mapping(parameters.get("update")))
            return True
        if method == CLIENT_METHODS["session_request_permission"] and "id" in message:
            self._take_permission(message["id"], parameters)
            return True
        if method == "$/cancel_request":
            self._withdraw(parameters.get("requestId"))
            return True
        return method is not None and "id" not in message  # notifications that mean nothing here

    def _take_update(self, update: Mapping[str, Any]) -> None:
        if self._settings.take_update(update) and self._was_prompted:
            self._put(_Entry(event=ModeSeen(mode=self._settings.mode.value)))
        if not self._was_prompted:
            if self._replaying is not None:
                self._replaying.take(update)
            return
        if update.get("sessionUpdate") in CALL_UPDATES:
            call = self._calls.merge(update)
            if call is not None and not (self._queue and self._last.call == call.id):
                is_known = call.id in self._delivered_calls or any(entry.call == call.id for entry in self._queue)
                self._put(_Entry(call=call.id, ready_at=self._after(0 if is_known else ARGUMENTS_WITHIN)))
            return
        event = event_of(update)
        if isinstance(event, TextPiece):
            self._put_text(event)
        elif event is not None:
            self._put(_Entry(event=event))

    def _take_permission(self, request: int | str, parameters: Mapping[str, Any]) -> None:
        said = dict(_mapping(parameters.get("toolCall")))
        said["toolCallId"] = said.get("toolCallId") or f"request-{request}"
        options = options_of(parameters)
        if not self._is_prompted or self._is_cancelled or self._died is not None:
            self._reply(request, None)
            return
        for permission in self._permissions:
            if (permission.said, permission.asked.options) == (said, options):
                permission.requests.append(request)
                return
        self._permissions_asked += 1
        asked = PermissionAsked(id=self._permissions_asked, call=self._calls.in_request(said), options=options)
        permission = _Permission(asked, said, [request])
        self._permissions.append(permission)
        self._put(_Entry(permission=permission, ready_at=self._after(ARGUMENTS_WITHIN)))

    def _withdraw(self, request: object) -> None:
        for permission in tuple(self._permissions):
            if request not in permission.requests:
                continue
            self._reply(permission.requests.pop(permission.requests.index(request)), None)
            if not permission.requests:
                self._forget(permission)

    def _forget(self, permission: _Permission) -> None:
        """Drop a permission that the agent no longer waits for."""
        self._permissions.remove(permission)
        if permission.was_delivered:
            self._queue.appendleft(_Entry(event=PermissionWithdrawn(id=permission.asked.id)))
        else:
            self._queue = deque(entry for entry in self._queue if entry.permission is not permission)
        self._changed.set()

    async def _run_prompt(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Send a prompt, and put its end into the queue."""
        event: Event
        try:
            answer = _mapping(
                await self._connection.send_request(
                    AGENT_METHODS["session_prompt"], {"sessionId": self._id, "prompt": blocks}
                )
            )
            event = PromptEnded(stop_reason=str(answer.get("stopReason") or "unknown"), usage=usage_of(answer))
        except RequestError as error:
            event = PromptFailed(code=error.code, why=_said(error))
        except ConnectionError:
            await self._report_end()
            return
        for permission in tuple(self._permissions):  # it has ended with these open: no answer can reach it
            for request in permission.requests:
                self._reply(request, None)
            self._forget(permission)
        self._is_prompted = False
        self._put(_Entry(event=event, ready_at=self._after(LAST_TEXT_WITHIN)))

    def _put(self, entry: _Entry) -> None:
        """Put an entry into the queue: before the end of the prompt, where that has not been taken."""
        self._queue.insert(len(self._queue) - self._has_end, entry)
        self._changed.set()
        if len(self._queue) > MOST_ENTRIES:
            self._end("it sent more than can be read")

    def _put_text(self, piece: TextPiece) -> None:
        self._unread += len(piece.text)
        if self._unread > MOST_UNREAD:
            self._end("it wrote more than can be read")
            return
        last = self._last if self._queue else None
        if last is not None and last.text and last.is_thought == piece.is_thought:
            last.text.append(piece.text)
        else:
            self._put(_Entry(text=[piece.text], is_thought=piece.is_thought))

    @property
    def _has_end(self) -> bool:
        return bool(self._queue) and isinstance(self._queue[-1].event, PromptEnded | PromptFailed)

    @property
    def _last(self) -> _Entry:
        """The last entry before the end of the prompt."""
        return self._queue[-2] if self._has_end and len(self._queue) > 1 else self._queue[-1]

    # --- what is taken -----------------------------------------------------------------------------------------

    def _taken(self) -> Event | None:
        """The event at the head of the queue, unless it has to wait."""
        while self._queue:
            entry = self._queue[0]
            if entry.ready_at > self._clock.now() and not self._is_ready(entry):
                return None
            permission = entry.permission
            if permission is not None and any(other.was_delivered for other in self._permissions):
                return None
            self._queue.popleft()
            if permission is not None:
                permission.asked = replace(permission.asked, call=self._calls.in_request(permission.said))
                permission.was_delivered = True
                return permission.asked
            if entry.text:
                text = "".join(entry.text)
                self._unread -= len(text)
                return TextPiece(text=text, is_thought=entry.is_thought)
            if entry.call:
                call = self._calls[entry.call]
                if self._delivered_calls.get(call.id) == call:
                    continue
                self._delivered_calls[call.id] = call
                return call
            if isinstance(entry.event, PromptEnded | PromptFailed):
                self._calls.leave_open()
            return entry.event
        return None

    def _is_ready(self, entry: _Entry) -> bool:
        """Whether what an entry waits for has come before its time."""
        if self._died is not None:
            return True
        if entry.permission is not None:
            return bool(self._calls.in_request(entry.permission.said).arguments)
        if not entry.call:
            return False
        call = self._calls[entry.call]
        has_begun = bool(call.arguments) and call.status != "pending"
        is_asked = any(permission.asked.call.id == call.id for permission in self._permissions)
        return has_begun or is_asked or call.has_ended

    def _drained(self) -> list[Event]:
        """All that is in the queue, at once."""
        events: list[Event] = []
        for entry in self._queue:
            entry.ready_at = Millis(0)
        while (event := self._taken()) is not None:
            events.append(event)
        return events

    def _silent_at(self, waiting_since: Millis) -> Millis | None:
        """When the agent has been silent for too long; never while it waits for an answer, or has no prompt."""
        if not self._is_prompted or self._permissions:
            return None
        limit = self._deadlines.silence_in_call if self._calls.has_open else self._deadlines.silence
        return Millis(max(self._heard_at, waiting_since) + int(limit * 1000))

    # --- answers, the end --------------------------------------------------------------------------------------

    async def _answer(self, asked: PermissionAsked, kind: str) -> bool:
        for permission in self._permissions:
            if permission.asked.id == asked.id:
                option = next((option.id for option in permission.asked.options if option.kind == kind), None)
                await self._give(permission, option)
                return option is not None or kind != "allow_once"
        return False

    async def _give(self, permission: _Permission, option: str | None) -> None:
        """Answer a permission by an option, or by `cancelled`."""
        self._permissions.remove(permission)
        self._queue = deque(entry for entry in self._queue if entry.permission is not permission)
        self._changed.set()
        for request in permission.requests:
            await self._send_outcome(request, option)

    def _reply(self, request: int | str, option: str | None) -> None:
        """Answer a request from where nothing can be awaited."""
        task = asyncio.create_task(self._send_outcome(request, option), name="acp.answer")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _send_outcome(self, request: int | str, option: str | None) -> None:
        outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        try:
            await self._wire.send({"jsonrpc": "2.0", "id": request, "result": {"outcome": outcome}})
        except ConnectionError:
            _log.debug("acp.answer_not_sent")  # its end is reported by the prompt

    async def _report_end(self) -> None:
        """Note that the process has ended, with the reason it gives."""
        why = self._wire.fault
        if not why:
            status = await self._within(self._process.wait(), CLOSED_WITHIN)
            why = "it closed its output" if status is None else f"it ended with status {status}"
        self._end(why)

    def _end(self, why: str, *, was_silent: bool = False) -> None:
        """Note the end of the session, and kill what is left of its process."""
        self._process.kill()
        if self._died is None:
            words = self._last_words()
            self._died = Died(why=f"{why}: {words}" if words else why, was_silent=was_silent)
        self._is_prompted = False
        for permission in tuple(self._permissions):
            self._permissions.remove(permission)
            self._queue = deque(entry for entry in self._queue if entry.permission is not permission)
        self._changed.set()

    def _last_words(self) -> str:
        """The last line that the program has written beside the protocol."""
        lines = (self._process.stderr_tail().strip() or self._wire.stray).splitlines()
        return lines[-1][:_SHOWN] if lines else ""

    # --- waiting -----------------------------------------------------------------------------------------------

    async def _request(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the agent something, within the deadline.

        Raises:
            RequestError: the agent's own no.
            ModelUnavailable: it has ended, or does not answer.
        """
        name = AGENT_METHODS[method]
        asking = self._connection.send_request(name, dict(parameters))
        try:
            answer = await self._within(asking, self._deadlines.start, default=_LATE)
        except ConnectionError as error:
            await self._report_end()
            assert self._died is not None
            raise ModelUnavailable(f"The agent has ended before it answered {name}: {self._died.why}") from error
        if answer is _LATE:
            words = self._last_words()
            said = f": {words}" if words else ""
            raise ModelUnavailable(f"The agent has not answered {name} within {self._deadlines.start:g} s{said}")
        return _mapping(answer)

    async def _within(self, work: Awaitable[Value], seconds: float, default: Any = None) -> Value | Any:
        """What some work gives, or `default` once so many seconds have passed, when it is cancelled."""
        working = asyncio.ensure_future(work)
        sleeping = asyncio.ensure_future(self._clock.sleep_until(self._after(seconds)))
        try:
            await asyncio.wait({working, sleeping}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else default
        finally:
            for task in (working, sleeping):
                task.cancel()

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Whether something holds within so many seconds; looked at when anything has arrived."""
        due = self._after(seconds)
        while not holds():
            if self._clock.now() >= due:
                return False
            self._changed.clear()
            await self._changed_or(due)
        return True

    async def _changed_or(self, due: Millis | None) -> bool:
        """Return when anything has changed, or at a time: whether it has."""
        if due is None:
            return await self._changed.wait()
        seconds = (due - self._clock.now()) / 1000
        return await self._within(self._changed.wait(), seconds, default=False)

    def _after(self, seconds: float) -> Millis:
        return Millis(self._clock.now() + int(seconds * 1000))


_LATE: Final = object()


async def _refuse(method: str, _: Any, is_notification: bool) -> None:
    """Refuse what a client may be asked beside permissions: files and terminals, which are not offered.

    The words are the SDK's: agents that ask all the same then write by themselves, and some know no other words.
    """
    if not is_notification:
        raise RequestError.method_not_found(method)


def _servers(
    servers: Sequence[Mapping[str, Any]], capabilities: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], tuple[str, ...]]:
    """The MCP servers that the agent can reach, and a note of those that it cannot: one of them fails the session."""
    reachable = [server for server in servers if "type" not in server or capabilities.get(str(server["type"]))]
    missing = [str(server.get("name")) for server in servers if server not in reachable]
    return reachable, (
        f"It takes no MCP servers over HTTP: {', '.join(missing)} is not handed to it",
    ) if missing else ()


def _missing(capabilities: Mapping[str, Any]) -> tuple[str, ...]:
    """What the agent does not do that is of use here."""
    session = _mapping(capabilities.get("sessionCapabilities"))
    can_resume = session.get("resume") is not None
    can_load = bool(capabilities.get("loadSession"))
    if can_resume or can_load:
        return ()
    return ("It cannot go on with a session: after a restart a new one gets a summary",)


def _begins_with(version: str, wanted: str) -> bool:
    rest = version.removeprefix(wanted)
    return version.startswith(wanted) and (not rest or not rest[0].isalnum())


def _unusable(sentence: str) -> ModelUnavailable:
    return ModelUnavailable(f"{sentence}.", needs_operator=True)


def _login(error: RequestError) -> str:
    return "; log in with its own command first" if error.code == LOGIN_NEEDED else ""


def _said(error: RequestError) -> str:
    """The words of an agent's error, with their details."""
    details = error.data.get("details") if isinstance(error.data, dict) else error.data
    words = str(error) or f"error {error.code}"
    more = f": {details}" if isinstance(details, str) and details and details != words else ""
    return f"{words}{more}"[:_SHOWN]


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
