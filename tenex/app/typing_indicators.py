"""Typing indicators and project status: who works on what, and the text being written, as ephemeral events.

    state after an append ──► what each run does ──► typing started or stopped, who is active
    a model's text so far ──► its newest part, a few times a second

Level-triggered: what is published follows from the state. A run stops before its last message is handed to a relay, and
both use one socket, so no indicator arrives after the message.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Final, Literal, ParamSpec, TypeVar

import structlog

from tenex.configuration.build import Configuration
from tenex.core.conversation import Conversation, Run
from tenex.core.effects import ModelCall
from tenex.core.errors import RelayUnavailable
from tenex.core.ids import ConversationId, PublicKey, RunId, Slug
from tenex.core.phases import Phase
from tenex.core.ports import Clock, OnText, OutgoingMessage, Sealer, UnsignedEvent, ignore_text
from tenex.core.records import Record
from tenex.core.state.run import CallState
from tenex.nostr.ephemeral import (
    EphemeralPublisher,
    ProjectStatus,
    is_public_address,
    operations_event,
    status_event,
    text_event,
    typing_event,
)
from tenex.nostr.events import sign
from tenex.nostr.keys import SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.urls import is_loopback, normalise_url

log = structlog.get_logger(__name__)

ROUTING: Final = "The orchestrator is deciding"

GRACE: Final = 0.05
"""Seconds before new work is published: what is over by then would only flicker."""
LOCAL_INTERVAL: Final = 0.35
"""Seconds between two events of a run to relays on this machine: about as fast as one reads along."""
REMOTE_INTERVAL: Final = 1.0
"""The same where a relay is elsewhere: some allow sixty ephemeral events a minute."""
REFRESH: Final = 20.0
"""Seconds after which an activity is published again, for new subscribers; clients forget it after a minute."""
PULSE: Final = 30.0
"""Seconds between two project statuses; clients take a project for gone after 45."""
LEAD: Final = 60
"""Seconds an event may be dated ahead, so that two of the same second stay two, in order."""

P = ParamSpec("P")
T = TypeVar("T")


def suppress_errors(function: Callable[P, T]) -> Callable[P, T | None]:
    """Log what the function raises and return None: no work depends on a typing indicator."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception as fault:  # the callers are the actor and the model
            log.warning("typing_indicator.failed", fault=type(fault).__name__, where=function.__name__)
            log.debug("typing_indicator.failed", exc_info=fault)
            return None

    return guarded


class StatusChannel:
    """The relays that get a conversation's ephemeral events, and the keys that sign them."""

    def __init__(
        self, sink: RelayPool, keys: Mapping[PublicKey, SecretKey], relays: Sequence[str], clock: Clock
    ) -> None:
        self._sink = sink
        self._keys = keys
        self._relays = relays
        self._clock = clock
        self._stamp = 0
        self.interval = LOCAL_INTERVAL if all(map(is_loopback, relays)) else REMOTE_INTERVAL

    @property
    def has_room(self) -> bool:
        """Whether a relay would take an event now."""
        return any(map(self._sink.has_room, self._relays))

    def stamp(self, *, later: bool = False) -> int:
        """The second it is; `later` than all such stamps before, so that clients keep the order."""
        now = self._clock.now() // 1000
        if later:
            self._stamp = min(max(now, self._stamp + 1), now + LEAD)
        return max(now, self._stamp)

    def send(self, event: UnsignedEvent) -> bool:
        """Sign and send; False if no relay took it or the key is no longer configured."""
        key = self._keys.get(event.pubkey)
        if key is None or not self.has_room:
            return False
        signed = sign(event, key)
        taken = [self._sink.offer(signed, relay) for relay in self._relays]  # every relay, not only the first
        return any(taken)


class RunIndicator:
    """Publishes the activity and the newest text of one run, throttled; nothing once it is stopped."""

    def __init__(self, who: EphemeralPublisher, channel: StatusChannel) -> None:
        self._who = who
        self._channel = channel
        self._activity = self._sent_activity = ""
        self._text = self._sent_text = ""
        """The text being written, and as much of it as was published."""
        self._number = 0
        self._call: object = None
        """Whose text counts; the call before it may still be ending."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + GRACE

    def set_activity(self, activity: str, *, is_writing: bool) -> None:
        """Set what the run does now; it is published soon."""
        if not is_writing:
            self._call, self._text, self._sent_text = None, "", ""
        if activity != self._activity:
            self._activity = activity
            self._publish_soon()

    def open_text(self) -> OnText:
        """Return the callback for a model call that starts; text of earlier calls is ignored from now on."""
        self._call = call = object()
        self._text = self._sent_text = ""

        @suppress_errors
        def on_text(text: str) -> None:
            if self._call is call and text != self._text:
                self._text = text
                self._publish_soon()

        return on_text

    def stop(self) -> None:
        """Publish that the run stopped, if anything was published, and nothing after that."""
        self._call = None
        if self._timer is not None:
            self._timer.cancel()
        if self._sent_activity:
            self._channel.send(typing_event(self._who, "", self._channel.stamp(later=True)))
        self._activity = self._sent_activity = ""

    def _publish_soon(self) -> None:
        when = max(self._next, self._loop.time())
        if self._timer is None or self._timer.when() > when:
            self._publish_at(when)

    def _publish_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._publish)

    @suppress_errors
    def _publish(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._next = now + self._channel.interval
        is_pending = True
        if self._channel.has_room:
            if self._activity != self._sent_activity or not self._has_text:
                event = typing_event(self._who, self._activity, self._channel.stamp(later=True))
                if self._channel.send(event):
                    self._sent_activity = self._activity
            if self._has_text:
                stamp = self._channel.stamp()
                event = text_event(self._who, self._text, self._sent_text, self._number + 1, stamp)
                if self._channel.send(event):
                    self._sent_text = self._text
                    self._number += 1
            is_pending = self._activity != self._sent_activity or self._has_text
        self._publish_at(self._next if is_pending else now + REFRESH)

    @property
    def _has_text(self) -> bool:
        return bool(self._text) and self._text != self._sent_text


class _ConversationIndicators:
    """The indicators of one conversation, and which agents are active in it."""

    def __init__(self, channel: StatusChannel, who: EphemeralPublisher, leave: Callable[[], object]) -> None:
        """Call `leave` once nothing is active and that has been published."""
        self._channel = channel
        self._who = who
        self._leave = leave
        self._runs: dict[RunId | None, RunIndicator] = {}
        """By run; None is the orchestrator's."""
        self._active: tuple[PublicKey, ...] = ()
        self._users: tuple[PublicKey, ...] = ()
        self._status = ""
        self._sent: tuple[PublicKey, ...] = ()
        self._timer: asyncio.TimerHandle | None = None

    def update(self, conversation: Conversation) -> None:
        """Publish what has changed in the state."""
        question = conversation.question
        is_routing = question is not None and not (question.retry is not None and question.retry.on_hold)
        active = {run.id: activity for run in conversation.runs.values() if (activity := _activity_of(run))}
        for gone in [known for known in self._runs if known not in active and not (known is None and is_routing)]:
            self._runs.pop(gone).stop()
        for id_, activity in active.items():
            run = conversation.runs[id_]
            self.indicator(conversation, run).set_activity(activity, is_writing=run.wants is not None)
        if is_routing:
            self.indicator(conversation, None).set_activity(ROUTING, is_writing=False)
        agents = [self._who.speaker] if is_routing else []
        agents += [conversation.runs[id_].pubkey for id_ in active]
        self._active = tuple(dict.fromkeys(agents))
        self._status = conversation.status
        author = PublicKey(str(conversation.origin.get("author", "")))
        self._users = tuple(dict.fromkeys(key for key in (conversation.starter, author) if key))
        if self._active != self._sent and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GRACE, self._send_operations)
        self._leave_if_empty()

    def indicator(self, conversation: Conversation, run: Run | None) -> RunIndicator:
        """The indicator of a run; None is the orchestrator's."""
        key = None if run is None else run.id
        if key not in self._runs:
            who = EphemeralPublisher(
                speaker=self._who.speaker if run is None else run.pubkey,
                address=conversation.address,
                origin=conversation.origin,
                phase=(conversation if run is None else run).phase.value,
                project=self._who.project,
            )
            self._runs[key] = RunIndicator(who, self._channel)
        return self._runs[key]

    def close(self) -> None:
        """Stop every indicator."""
        for indicator in self._runs.values():
            indicator.stop()
        self._runs.clear()
        if self._timer is not None:
            self._timer.cancel()

    @suppress_errors
    def _send_operations(self) -> None:
        self._timer = None
        active = self._active
        if active != self._sent:
            event = operations_event(self._who, active, self._users, self._channel.stamp(later=True), self._status)
            self._channel.send(event)
            self._sent = active  # also if no relay took it: the next change publishes everything again
        self._leave_if_empty()

    def _leave_if_empty(self) -> None:
        if not (self._runs or self._active or self._sent or self._timer):
            self._leave()


class TypingIndicators:
    """Publishes ephemeral events about appended records and the text of models. An `Observer`."""

    def __init__(
        self,
        sink: RelayPool,
        keys: Mapping[PublicKey, SecretKey],
        sealer: Sealer,
        clock: Clock,
        *,
        speaker: PublicKey,
        status: Callable[[], ProjectStatus],
        mode: Literal["auto", "on", "off"] = "auto",
        relays: Sequence[str] = (),
        project: str | None = None,
    ) -> None:
        """Prepare.

        Args:
            sink: the relays.
            keys: the secret keys by public key; may change later.
            sealer: names the relays of a conversation.
            clock: for dates.
            speaker: the project's key, which signs operations and status.
            status: who works for the project, as configured now.
            mode: "auto" publishes to relays on this machine only, "on" to all, "off" to none.
            relays: where the project's status goes.
            project: the address of the project's event, where there is one.
        """
        self._sink = sink
        self._keys = keys
        self._sealer = sealer
        self._clock = clock
        self._speaker = speaker
        self._project = project
        self._status = status
        self._mode = mode
        self._relays = self._permitted([normalise_url(relay) for relay in relays])
        self._channel = StatusChannel(sink, keys, self._relays, clock)
        """For what concerns the whole project."""
        self._conversations: dict[ConversationId, _ConversationIndicators] = {}
        self._has_changed = asyncio.Event()

    @suppress_errors
    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:  # noqa: ARG002
        """Publish what the state after this append shows."""
        if self._mode == "off":
            return
        shown = self._indicators_of(conversation) if conversation.runs or conversation.question else None
        shown = shown or self._conversations.get(conversation.id)
        if shown is not None:
            shown.update(conversation)

    def on_text(self, conversation: Conversation, call: ModelCall) -> OnText:
        """Return the callback for the text of a model call; `ignore_text` if none is published."""
        return (self._mode != "off" and self._open_text(conversation, call)) or ignore_text

    @suppress_errors
    def _open_text(self, conversation: Conversation, call: ModelCall) -> OnText | None:
        run, shown = conversation.runs.get(call.run), self._indicators_of(conversation)
        if run is None or shown is None:
            return None
        shown.update(conversation)  # a conversation that was read again has had no append yet
        return shown.indicator(conversation, run).open_text()

    def changed(self) -> None:
        """Publish the project status soon: it has changed."""
        self._has_changed.set()

    async def run(self) -> None:
        """Publish the project status every 30 s and when it changes, until cancelled."""
        try:
            while True:
                self._has_changed.clear()
                if self._relays:
                    with suppress(RelayUnavailable):
                        await self._sink.connected(PULSE)
                        self._send_status()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PULSE):
                        await self._has_changed.wait()
        finally:
            for shown in self._conversations.values():
                shown.close()
            self._conversations.clear()

    @suppress_errors
    def _send_status(self) -> None:
        self._channel.send(status_event(self._status(), self._channel.stamp(later=True)))

    def _permitted(self, relays: Sequence[str]) -> list[str]:
        return [relay for relay in relays if self._mode == "on" or (self._mode == "auto" and is_loopback(relay))]

    def _indicators_of(self, conversation: Conversation) -> _ConversationIndicators | None:
        """The conversation's indicators, created if its address is public; else None."""
        id_ = conversation.id  # the callback must not keep the state alive
        known = self._conversations.get(id_)
        if known is not None or not is_public_address(conversation.address):
            return known
        draft = OutgoingMessage(
            speaker=self._speaker, text="", created_at=0, address=conversation.address, reply_to=conversation.origin
        )
        relays = self._permitted(self._sealer.relays(draft))
        if not relays:
            return None
        who = EphemeralPublisher(speaker=self._speaker, address=conversation.address, project=self._project)
        channel = StatusChannel(self._sink, self._keys, relays, self._clock)
        shown = _ConversationIndicators(channel, who, lambda: self._conversations.pop(id_, None))
        self._conversations[id_] = shown
        return shown


def project_status(configuration: Configuration, project: str | None = None) -> ProjectStatus:
    """The agents, models and tools of a configuration."""
    rules, settings = configuration.rules, configuration.settings
    models: dict[str, list[Slug]] = {name: [rules.project.slug] for name in settings.models.for_router()[:1]}
    tools: dict[str, list[Slug]] = {}
    for slug, agent in rules.roster.items():
        for name in dict.fromkeys(settings.models.for_agent(slug, phase, agent.model)[0] for phase in Phase):
            models.setdefault(name, []).append(slug)
        for tool in configuration.tools.specs(None, slug):
            tools.setdefault(tool.name, []).append(slug)
    return ProjectStatus(
        speaker=rules.project.pubkey,
        owners=tuple(sorted(configuration.people.owners)),
        agents=((rules.project.pubkey, rules.project.slug), *((agent.pubkey, s) for s, agent in rules.roster.items())),
        models={name: tuple(slugs) for name, slugs in models.items()},
        tools={name: tuple(slugs) for name, slugs in tools.items()},
        project=project,
    )


def _activity_of(run: Run) -> str:
    """What a run does, as text; "" while it waits for a user, a sub-agent or an unavailable model."""
    if run.is_waiting or run.is_held:
        return ""
    tools = [call.request.tool for call in run.calls if call.state is CallState.PERMITTED]
    return f"{run.name} uses {', '.join(dict.fromkeys(tools))}" if tools else f"{run.name} is typing"
