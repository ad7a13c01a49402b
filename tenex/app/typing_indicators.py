"""Whispers while work goes on: who works at what, and what is being written.

    state after an append ──► what each run does ──► typing starts and stops, who is active
    a model's text so far ──► the newest of it, a few times a second

Level-triggered like the rest: what is whispered follows from the state, so a stop, a retry and a question need no path
of their own. A run that has ended is silent before its last words are handed to a relay, and the same socket carries
both: no whisper of it comes after them.
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
from tenex.core.ports import Clock, EphemeralStatus, OutgoingMessage, Sealer, unheard
from tenex.core.records import Record
from tenex.core.state.run import CallState
from tenex.nostr.ephemeral import EphemeralPublisher, ProjectStatus, is_whispered_in, operations_event, status_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.urls import is_loopback, normalise_url

from .run_indicator import GRACE, EphemeralSink, RunIndicator, StatusChannel, harmless

ROUTING: Final = "The orchestrator is deciding"
PULSE: Final = 30.0
"""Seconds between two project statuses; clients take a project for gone after 45."""


class _Room:
    """One conversation at work: its voices, and who is active in it."""

    def __init__(self, channel: StatusChannel, who: EphemeralPublisher, leave: Callable[[], object]) -> None:
        """Open it; `leave` is called when nothing goes on any more and everybody knows."""
        self._channel = channel
        self._who = who
        self._leave = leave
        self._voices: dict[RunId | None, RunIndicator] = {}
        """By run; None is the orchestrator's."""
        self._active: tuple[PublicKey, ...] = ()
        self._people: tuple[PublicKey, ...] = ()
        self._status = ""
        self._said: tuple[PublicKey, ...] = ()
        self._timer: asyncio.TimerHandle | None = None

    def look(self, conversation: Conversation) -> None:
        """Bring what is whispered up to the state as it is now."""
        question = conversation.question
        is_routing = question is not None and not (question.retry is not None and question.retry.on_hold)
        doing: dict[RunId | None, str] = {run.id: _doing(run) for run in conversation.runs.values()}
        doing[None] = ROUTING if is_routing else ""
        for gone in [known for known in self._voices if not doing.get(known)]:
            self._voices.pop(gone).stop()
        for run in conversation.runs.values():
            if doing[run.id]:
                self.voice(conversation, run).does(doing[run.id], is_writing=run.wants is not None)
        if is_routing:
            self._speaker(conversation, None, self._who.speaker, conversation.phase).does(ROUTING, is_writing=False)
        agents = (run.pubkey for run in conversation.runs.values() if doing[run.id])
        self._active = tuple(dict.fromkeys((*([self._who.speaker] if is_routing else []), *agents)))
        self._status = conversation.status
        author = PublicKey(str(conversation.origin.get("author", "")))
        self._people = tuple(dict.fromkeys(key for key in (conversation.starter, author) if key))
        if self._active != self._said and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GRACE, self._tell_who)
        self._leave_if_empty()

    def voice(self, conversation: Conversation, run: Run) -> RunIndicator:
        """The voice of a run."""
        return self._speaker(conversation, run.id, run.pubkey, run.phase)

    def _speaker(self, conversation: Conversation, key: RunId | None, speaker: PublicKey, phase: Phase) -> RunIndicator:
        if key not in self._voices:
            who = EphemeralPublisher(
                speaker=speaker,
                address=conversation.address,
                origin=conversation.origin,
                phase=phase.value,
                project=self._who.project,
            )
            self._voices[key] = RunIndicator(who, self._channel)
        return self._voices[key]

    def close(self) -> None:
        """End it."""
        for voice in self._voices.values():
            voice.stop()
        self._voices.clear()
        if self._timer is not None:
            self._timer.cancel()

    @harmless
    def _tell_who(self) -> None:
        self._timer = None
        active = self._active
        if active != self._said:
            event = operations_event(self._who, active, self._people, self._channel.stamp(later=True), self._status)
            self._channel.tell(event)
            self._said = active  # heard or not: the next change says it all again
        self._leave_if_empty()

    def _leave_if_empty(self) -> None:
        if not (self._voices or self._active or self._said or self._timer):
            self._leave()


class TypingIndicators:
    """Hears what becomes durable and what models write, and whispers of both. An `Observer`."""

    def __init__(
        self,
        ears: EphemeralSink,
        voices: Mapping[PublicKey, SecretKey],
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
            ears: the relays.
            voices: every key of ours, by what it signs as; may change while we work.
            sealer: knows the relays of a conversation.
            clock: for dates.
            speaker: the project's key, which says who works.
            status: who works for the project, as configured now.
            mode: "auto" whispers to relays on this machine only, "on" to all, "off" to none.
            relays: where the project's status goes.
            project: the address of the project's event, where there is one.
        """
        self._ears = ears
        self._voices = voices
        self._sealer = sealer
        self._clock = clock
        self._speaker = speaker
        self._project = project
        self._status = status
        self._mode = mode
        self._relays = self._permitted([normalise_url(relay) for relay in relays])
        self._channel = StatusChannel(ears, voices, self._relays, clock)
        """For what concerns the whole project."""
        self._rooms: dict[ConversationId, _Room] = {}
        self._has_changed = asyncio.Event()

    @harmless
    def heard(self, conversation: Conversation, records: Sequence[Record]) -> None:  # noqa: ARG002
        """Whisper of what goes on now, from this append on."""
        if self._mode == "off":
            return
        room = self._room(conversation) if conversation.runs or conversation.question else None
        room = room or self._rooms.get(conversation.id)
        if room is not None:
            room.look(conversation)

    def whisper(self, conversation: Conversation, call: ModelCall) -> EphemeralStatus:
        """Give what takes the text of a model call (`flow.stages.Stages.whisper`); `unheard` where nobody listens."""
        return (self._mode != "off" and self._listen(conversation, call)) or unheard

    @harmless
    def _listen(self, conversation: Conversation, call: ModelCall) -> EphemeralStatus | None:
        run, room = conversation.runs.get(call.run), self._room(conversation)
        if run is None or room is None:
            return None
        room.look(conversation)  # after a conversation was read again nobody has told us how it stands
        return room.voice(conversation, run).writes()

    def changed(self) -> None:
        """Say soon who works for the project: it has changed."""
        self._has_changed.set()

    async def run(self) -> None:
        """Say who works for the project now, every 30 s and when it changes, until cancelled."""
        try:
            while True:
                self._has_changed.clear()
                if self._relays:
                    with suppress(RelayUnavailable):
                        await self._ears.connected(PULSE)
                        self._pulse()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PULSE):
                        await self._has_changed.wait()
        finally:
            for room in self._rooms.values():
                room.close()
            self._rooms.clear()

    @harmless
    def _pulse(self) -> None:
        self._channel.tell(status_event(self._status(), self._channel.stamp(later=True)))

    def _permitted(self, relays: Sequence[str]) -> list[str]:
        if self._mode == "off":
            return []
        return [relay for relay in relays if self._mode == "on" or is_loopback(relay)]

    def _room(self, conversation: Conversation) -> _Room | None:
        """The conversation's room, made where it may be whispered in; None where not."""
        conversation_id = conversation.id  # the state itself must not be held on to
        known = self._rooms.get(conversation_id)
        if known is not None or not is_whispered_in(conversation.address):
            return known
        draft = OutgoingMessage(
            speaker=self._speaker, text="", created_at=0, address=conversation.address, reply_to=conversation.origin
        )
        relays = self._permitted(self._sealer.relays(draft))
        if not relays:
            return None
        who = EphemeralPublisher(speaker=self._speaker, address=conversation.address, project=self._project)
        channel = StatusChannel(self._ears, self._voices, relays, self._clock)
        room = self._rooms[conversation_id] = _Room(channel, who, lambda: self._rooms.pop(conversation_id, None))
        return room


def project_status(configuration: Configuration, project: str | None = None) -> ProjectStatus:
    """Who works for the project by a configuration, and with which models and tools."""
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


def _doing(run: Run) -> str:
    """What a run does, in words; "" while it waits for a person, a colleague, or a model that cannot be reached."""
    if run.is_waiting or run.is_held:
        return ""
    tools = [call.request.tool for call in run.calls if call.state is CallState.PERMITTED]
    return f"{run.name} uses {', '.join(dict.fromkeys(tools))}" if tools else f"{run.name} is typing"
