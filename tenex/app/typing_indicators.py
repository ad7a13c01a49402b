"""Typing indicators and project status: who works on what, and the text being written, as ephemeral events.

    state after an append ──► what each run does ──► typing started or stopped, who is active
    a model's text so far ──► its newest part, a few times a second

Level-triggered: what is published follows from the state. A run stops before its last message is handed to a relay, and
both use one socket, so no indicator arrives after the message.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

from tenex.configuration.build import Configuration
from tenex.core.conversation import Conversation, Run
from tenex.core.effects import ModelCall
from tenex.core.errors import RelayUnavailable
from tenex.core.ids import ConversationId, PublicKey, RunId, Slug
from tenex.core.phases import Phase
from tenex.core.ports import Clock, OnText, OutgoingMessage, Sealer, ignore_text
from tenex.core.records import Record
from tenex.core.state.run import CallState
from tenex.nostr.ephemeral import EphemeralPublisher, ProjectStatus, is_public_address, operations_event, status_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.urls import is_loopback, normalise_url

from .run_indicator import GRACE, EphemeralSink, RunIndicator, StatusChannel, suppress_errors

ROUTING: Final = "The orchestrator is deciding"
PULSE: Final = 30.0
"""Typing indicators and project status: who works on what, and the text being written, as ephemeral events.

    state after an append ──► what each run does ──► typing started or stopped, who is active
    a model's text so far ──► its newest part, a few times a second

Level-triggered: what is published follows from the state. A run stops before its last message is handed to a relay, and
both use one socket, so no indicator arrives after the message.
"""


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
        activities: dict[RunId | None, str] = {run.id: _activity_of(run) for run in conversation.runs.values()}
        activities[None] = ROUTING if is_routing else ""
        for gone in [known for known in self._runs if not activities.get(known)]:
            self._runs.pop(gone).stop()
        for run in conversation.runs.values():
            if activities[run.id]:
                self.indicator(conversation, run).set_activity(activities[run.id], is_writing=run.wants is not None)
        if is_routing:
            self._indicator(conversation, None, self._who.speaker, conversation.phase).set_activity(
                ROUTING, is_writing=False
            )
        agents = (run.pubkey for run in conversation.runs.values() if activities[run.id])
        self._active = tuple(dict.fromkeys((*([self._who.speaker] if is_routing else []), *agents)))
        self._status = conversation.status
        author = PublicKey(str(conversation.origin.get("author", "")))
        self._users = tuple(dict.fromkeys(key for key in (conversation.starter, author) if key))
        if self._active != self._sent and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GRACE, self._send_operations)
        self._leave_if_empty()

    def indicator(self, conversation: Conversation, run: Run) -> RunIndicator:
        """The indicator of a run."""
        return self._indicator(conversation, run.id, run.pubkey, run.phase)

    def _indicator(
        self, conversation: Conversation, key: RunId | None, speaker: PublicKey, phase: Phase
    ) -> RunIndicator:
        if key not in self._runs:
            who = EphemeralPublisher(
                speaker=speaker,
                address=conversation.address,
                origin=conversation.origin,
                phase=phase.value,
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
        sink: EphemeralSink,
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
        if self._mode == "off":
            return []
        return [relay for relay in relays if self._mode == "on" or is_loopback(relay)]

    def _indicators_of(self, conversation: Conversation) -> _ConversationIndicators | None:
        """The conversation's indicators, created if its address is public; else None."""
        conversation_id = conversation.id  # the callback must not keep the state alive
        known = self._conversations.get(conversation_id)
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
        shown = self._conversations[conversation_id] = _ConversationIndicators(
            channel, who, lambda: self._conversations.pop(conversation_id, None)
        )
        return shown


def project_status(configuration: Configuration, project: str | None = None) -> ProjectStatus:
    """The agents, models and tools of a configuration."""
    rules, settings = configuration.rules, configuration.settings
    models: dict[str, list[Slug]] = {name: [rules.project.slug] for name in settings.models.for_router()[:1]}
    tools: dict[str, list[Slug]] = {}
    for slug, agent in rules.roster.items():
        for name in dict.fromkeys(settings.models.for_agent(slug, phase, agent.model)[0] for phase in Phase):
            models.setdefault(name, []).append(slug)
        for name in dict.fromkeys(tool.name for phase in Phase for tool in configuration.tools.specs(phase, slug)):
            tools.setdefault(name, []).append(slug)
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
