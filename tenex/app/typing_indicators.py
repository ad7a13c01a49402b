"""Typing indicators and project status: who works on what, and the text being written, as ephemeral events.

    state after an append ──► what each run does ──► typing started or stopped, who is active
    a model's text so far ──► its newest part, a few times a second

Level-triggered: what is published follows from the state. A run stops before its last message is handed to a relay, and
both use one socket, so no indicator arrives after the message.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Final, Generic, Literal, ParamSpec, TypeVar

from tenex.configuration.build import Configuration
from tenex.core.conversation import Conversation, Run
from tenex.core.effects import ModelCall
from tenex.core.ids import ConversationId, PublicKey, RunId, Slug
from tenex.core.phases import Phase
from tenex.core.ports import Clock, OnText, OutgoingMessage, Sealer, UnsignedEvent, ignore_text
from tenex.core.projection import router_of, run_state, shown_status, tools_of
from tenex.core.records import Record
from tenex.core.values import replace
from tenex.log import get_logger
from tenex.nostr.ephemeral import (
    EphemeralPublisher,
    is_public_address,
    operations_event,
    status_event,
    text_event,
    typing_event,
)
from tenex.nostr.events import sign
from tenex.nostr.keys import Key, SecretKey
from tenex.nostr.pool import RelayPool
from tenex.nostr.urls import is_loopback, normalise_url

log = get_logger(__name__)

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
IDLE: Final = ("parked", "calling", "held", "limited")
"""States of a run or the router in which none is at work: a user, a sub-agent, a model or another day is waited for."""

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

    def __init__(self, sink: RelayPool, keys: Mapping[PublicKey, Key], clock: Clock, relays: Sequence[str]) -> None:
        self._sink = sink
        self._keys = keys
        self._relays = relays
        self._clock = clock
        self._stamp = 0
        self.interval = LOCAL_INTERVAL if all(map(is_loopback, relays)) else REMOTE_INTERVAL

    def stamp(self, *, later: bool = True) -> int:
        """The second it is; `later` than all such stamps before, so that clients keep the order."""
        now = self._clock.now() // 1000
        if later:
            self._stamp = min(max(now, self._stamp + 1), now + LEAD)
        return max(now, self._stamp)

    def send(self, event_at: Callable[[int], UnsignedEvent], *, later: bool = True) -> bool:
        """Make, sign and send an event; False if no relay took it or the key is no longer configured.

        With a key that a remote signer holds nothing is sent: several times a minute is more than it should be asked.
        """
        if not any(map(self._sink.has_room, self._relays)):
            return False
        event = event_at(self.stamp(later=later))
        key = self._keys.get(event.pubkey)
        if key is None:
            return False
        if not isinstance(key, SecretKey):
            return True  # else it would be tried again and again
        signed = sign(event, key)
        taken = [self._sink.offer(signed, relay) for relay in self._relays]  # every relay, not only the first
        return any(taken)


class ThrottledPublisher(Generic[T]):
    """Publishes the newest value: soon, at most once an interval, and again every `refresh` seconds."""

    def __init__(self, value: T, publish: Callable[[T, T], T], interval: float, refresh: float | None = None) -> None:
        """Start with a value that needs no event; `publish(value, sent)` returns what has been sent by then."""
        self.value = self.sent = value
        self._publish = publish
        self._interval = interval
        self._refresh = refresh
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time() + GRACE

    @property
    def is_scheduled(self) -> bool:
        """Whether something will be published."""
        return self._timer is not None

    def set(self, value: T) -> None:
        """Set the value; it is published unless another one follows first."""
        if value != self.value:
            self.value = value
            when = max(self._next, self._loop.time())
            if self._timer is None or self._timer.when() > when:
                self._publish_at(when)

    def cancel(self) -> None:
        """Publish nothing more, until a value is set."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _publish_at(self, when: float) -> None:
        self.cancel()
        self._timer = self._loop.call_at(when, self._run)

    @suppress_errors
    def _run(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._next = now + self._interval
        if self._refresh is not None:
            self._publish_at(now + self._refresh)
        self.sent = self._publish(self.value, self.sent)
        if self.sent != self.value:
            self._publish_at(self._next)


class RunIndicator(ThrottledPublisher[tuple[str, str]]):
    """Publishes the activity and the newest text of one run; nothing once it is stopped."""

    def __init__(self, who: EphemeralPublisher, channel: StatusChannel) -> None:
        super().__init__(("", ""), self._publish_newest, channel.interval, REFRESH)
        self._who = who
        self._channel = channel
        self._number = 0
        self._call: object = None
        """Whose text counts; the call before it may still be ending."""

    def set_activity(self, activity: str, *, is_writing: bool) -> None:
        """Set what the run does now; it is published soon."""
        if not is_writing and self._call is not None:
            self._expect_text(None)
        if activity != self.value[0]:
            self.set((activity, self.value[1]))

    def open_text(self) -> OnText:
        """Return the callback for a model call that starts; text of earlier calls is ignored from now on."""
        self._expect_text(call := object())

        @suppress_errors
        def on_text(text: str) -> None:
            if self._call is call:
                self.set((self.value[0], text))

        return on_text

    def stop(self) -> None:
        """Publish that the run stopped, if anything was published, and nothing after that."""
        self._call = None
        self.cancel()
        if self.sent[0]:
            self._channel.send(partial(typing_event, self._who, ""))

    def _expect_text(self, call: object) -> None:
        self._call = call
        self.value, self.sent = (self.value[0], ""), (self.sent[0], "")

    def _publish_newest(self, value: tuple[str, str], sent: tuple[str, str]) -> tuple[str, str]:
        (activity, text) = value
        (sent_activity, sent_text) = sent
        has_text = text not in ("", sent_text)
        typing_at = partial(typing_event, self._who, activity)
        if (activity != sent_activity or not has_text) and self._channel.send(typing_at):
            sent_activity = activity
        text_at = partial(text_event, self._who, text, sent_text, self._number + 1)
        if has_text and self._channel.send(text_at, later=False):
            sent_text = text
            self._number += 1
        return sent_activity, sent_text


class _ConversationIndicators:
    """The indicators of one conversation, and which agents are active in it."""

    def __init__(self, channel: StatusChannel, who: EphemeralPublisher, leave: Callable[[], object]) -> None:
        """Call `leave` once nothing is active and that has been published."""
        self._channel = channel
        self._who = who
        self._leave = leave
        self.runs: dict[RunId | None, RunIndicator] = {}
        """By run; None is the orchestrator's."""
        self._active = ThrottledPublisher[tuple[PublicKey, ...]]((), self._publish_active, channel.interval)
        self._users: tuple[PublicKey, ...] = ()
        self._status = ""

    def update(self, conversation: Conversation) -> None:
        """Publish what has changed in the state."""
        router = router_of(conversation)
        doing: dict[RunId | None, tuple[PublicKey, Phase, str, bool]] = {}
        if router is not None and router.state not in IDLE:
            doing[None] = self._who.speaker, conversation.cycle.phase, ROUTING, False
        for run in conversation.work.runs.values():
            if activity := _activity_of(run):
                doing[run.id] = run.pubkey, run.phase, activity, run.wants is not None
        for gone in [known for known in self.runs if known not in doing]:
            self.runs.pop(gone).stop()
        for id_, (speaker, phase, activity, is_writing) in doing.items():
            if (indicator := self.runs.get(id_)) is None:
                address = conversation.identity.address
                origin = conversation.delivery.origin
                who = replace(self._who, speaker=speaker, address=address, origin=origin, phase=phase.value)
                indicator = self.runs[id_] = RunIndicator(who, self._channel)
            indicator.set_activity(activity, is_writing=is_writing)
        self._status = shown_status(conversation)
        author = PublicKey(str(conversation.delivery.origin.get("author", "")))
        self._users = tuple(dict.fromkeys(key for key in (conversation.identity.starter, author) if key))
        self._active.set(tuple(dict.fromkeys([each[0] for each in doing.values()])))
        if not (self.runs or self._active.sent or self._active.is_scheduled):
            self._leave()

    def close(self) -> None:
        """Stop every indicator."""
        for indicator in self.runs.values():
            indicator.stop()
        self.runs.clear()
        self._active.cancel()

    def _publish_active(self, active: tuple[PublicKey, ...], sent: object) -> tuple[PublicKey, ...]:
        if active != sent:
            self._channel.send(partial(operations_event, self._who, active, self._users, self._status))
        if not (self.runs or active):
            self._leave()
        return active  # also if no relay took it: the next change publishes everything again


class TypingIndicators:
    """Publishes ephemeral events about appended records and the text of models. An `Observer`."""

    def __init__(
        self,
        sink: RelayPool,
        keys: Mapping[PublicKey, Key],
        sealer: Sealer,
        clock: Clock,
        *,
        speaker: PublicKey,
        status: Callable[[int], UnsignedEvent],
        mode: Literal["auto", "on", "off"] = "auto",
        relays: Sequence[str] = (),
        project: Callable[[], str] = str,
    ) -> None:
        """Prepare.

        Args:
            sink: the relays.
            keys: the secret keys by public key; may change later.
            sealer: names the relays of a conversation.
            clock: for dates.
            speaker: the project's key, which signs operations and status.
            status: makes the event of the project's status (`status_event`), with its date.
            mode: "auto" publishes to relays on this machine only, "on" to all, "off" to none.
            relays: where the project's status goes.
            project: the address of the project's event, "" where there is none.
        """
        self._project_event = project
        self._sealer = sealer
        self._speaker = speaker
        self._status = status
        self._mode = mode
        self._channel_to = partial(StatusChannel, sink, keys, clock)
        self._relays = self._permitted([normalise_url(relay) for relay in relays])
        self._project: ThrottledPublisher[int] | None = None
        """The project's status, as the number of its changes."""
        self._conversations: dict[ConversationId, _ConversationIndicators] = {}

    @suppress_errors
    def on_records(self, conversation: Conversation, records: Sequence[Record]) -> None:  # noqa: ARG002
        """Publish what the state after this append shows."""
        if self._mode != "off" and (shown := self._indicators_of(conversation)) is not None:
            shown.update(conversation)

    def on_text(self, conversation: Conversation, call: ModelCall) -> OnText:
        """Return the callback for the text of a model call; `ignore_text` if none is published."""
        return self._open_text(conversation, call) or ignore_text

    @suppress_errors
    def _open_text(self, conversation: Conversation, call: ModelCall) -> OnText | None:
        shown = self._indicators_of(conversation)
        if shown is None:
            return None
        shown.update(conversation)  # a conversation that was read again has had no append yet
        run = shown.runs.get(call.run)
        return None if run is None else run.open_text()

    @suppress_errors
    def forget(self, conversation: ConversationId) -> None:
        """Stop the indicators of a conversation with which another worker goes on."""
        shown = self._conversations.pop(conversation, None)
        if shown is not None:
            shown.close()

    def changed(self) -> None:
        """Publish the project status soon: it has changed."""
        if self._project is not None:
            self._project.set(self._project.value + 1)

    async def run(self) -> None:
        """Publish the project status every 30 s and when it changes, until cancelled."""
        try:
            if self._relays:
                channel = self._channel_to(self._relays)
                self._project = ThrottledPublisher(
                    0, lambda number, _: number if channel.send(self._status) else -1, channel.interval, PULSE
                )
                self.changed()
            await asyncio.get_running_loop().create_future()
        finally:
            if self._project is not None:
                self._project.cancel()
            for shown in self._conversations.values():
                shown.close()
            self._conversations.clear()

    def _permitted(self, relays: Sequence[str]) -> list[str]:
        return [relay for relay in relays if self._mode == "on" or (self._mode == "auto" and is_loopback(relay))]

    def _indicators_of(self, conversation: Conversation) -> _ConversationIndicators | None:
        """The conversation's indicators, created if something is active and its address is public; else None."""
        id_ = conversation.id  # the callback must not keep the state alive
        known = self._conversations.get(id_)
        is_active = self._mode != "off" and (conversation.work.runs or conversation.router.question)
        if known is not None or not is_active or not is_public_address(conversation.identity.address):
            return known
        draft = OutgoingMessage(
            speaker=self._speaker,
            text="",
            created_at=0,
            address=conversation.identity.address,
            reply_to=conversation.delivery.origin,
        )
        relays = self._permitted(self._sealer.relays(draft))
        if not relays:
            return None
        who = EphemeralPublisher(
            speaker=self._speaker, address=conversation.identity.address, project=self._project_event()
        )
        shown = _ConversationIndicators(self._channel_to(relays), who, lambda: self._conversations.pop(id_, None))
        self._conversations[id_] = shown
        return shown


def project_status(configuration: Configuration, at: int) -> UnsignedEvent:
    """Announce the agents, models and tools of a configuration."""
    policy = configuration.policy
    settings = configuration.settings
    models: dict[str, list[Slug]] = {name: [policy.project.slug] for name in settings.models.for_router()[:1]}
    tools: dict[str, list[Slug]] = {}
    for slug, agent in policy.roster.items():
        for name in dict.fromkeys(settings.models.for_agent(slug, phase, agent.model)[0] for phase in Phase):
            models.setdefault(name, []).append(slug)
        for tool in configuration.tools.specs(None, slug):
            tools.setdefault(tool.name, []).append(slug)
    for name in configuration.models:  # from which an owner may choose
        models.setdefault(name, [])
    agents = {policy.project.slug: policy.project.pubkey} | {
        slug: agent.pubkey for slug, agent in policy.roster.items()
    }
    owners = sorted(configuration.people.owners)
    event = configuration.project_event
    return status_event(policy.project.pubkey, owners, agents, models, tools, at, event)


def _activity_of(run: Run) -> str:
    """What a run does, as text; "" while it waits for a user, a sub-agent, an unavailable model or another day."""
    if run_state(run) in IDLE:
        return ""
    tools = dict.fromkeys(tools_of(run))
    return f"{run.name} uses {', '.join(tools)}" if tools else f"{run.name} is typing"
