"""The ConversationCoordinator: one long-running object that owns one actor per conversation in memory."""

import asyncio
from collections.abc import Iterable, Iterator

from tenex.core.conversation import Conversation
from tenex.core.effects import Key, Work
from tenex.core.ids import ConversationId
from tenex.core.signals import Signal, TimerFired

from .actor import ConversationActor
from .dependencies import ActorDependencies
from .undeliverable import Undeliverable

FLUSH = 2.0
"""Seconds for words on their way once all steps rest: an OK takes ms, and a relay that is away would take for ever."""


class ConversationCoordinator:
    """Finds or makes the actor of a conversation, and stops them all in stages."""

    def __init__(self, around: ActorDependencies) -> None:
        self._around = around
        self._owed = Undeliverable(around.sealer, around.notices, around.stages.outbox, around.rules, around.spawn)
        self._actors: dict[ConversationId, ConversationActor] = {}
        self._tasks: dict[ConversationActor, asyncio.Task[None]] = {}
        self._is_draining = False

    def deliver(self, conversation: ConversationId, signal: Signal) -> None:
        """Hand a signal to its conversation, reading that from disk if need be. Returns at once."""
        self._actor(conversation).post(signal)

    def resume(self, conversations: Iterable[ConversationId]) -> int:
        """Go on with conversations that were unfinished when the last process ended; returns how many."""
        return len([self._actor(conversation) for conversation in conversations])

    def retry_held(self) -> None:
        """Try again now what is held for a model or a limit of the day, and what people wrote into damaged files.

        What made it so may have been mended.
        """
        self.resume(self._owed)
        for actor in self:
            state = actor.conversation
            waits = [(run.retry, "retry") for run in state.runs.values()] if state else []
            if state is not None and state.question is not None:
                waits.append((state.question.retry, "route"))
            for retry, part in waits:
                if retry is not None and retry.on_hold:
                    actor.post(TimerFired(key=Key(Work.TIMER, retry.seq, part)))
            wait = state.mission.wait if state is not None and state.mission is not None else None
            if wait is not None and wait.limit:
                actor.post(TimerFired(key=Key(Work.TIMER, wait.seq, "node-retry")))

    def unjournaled_since(self) -> int | None:
        """When the earliest message that no journal holds yet was written, in seconds; None if there is none."""
        return self._owed.since(signal for actor in self for signal in actor.undecided)

    def conversation(self, conversation: ConversationId) -> Conversation | None:
        """The state of a conversation that is in memory; None for one that is not."""
        actor = self._actors.get(conversation)
        return actor.conversation if actor else None

    def __contains__(self, conversation: ConversationId) -> bool:
        """Whether a conversation is in memory, or about to be."""
        return conversation in self._actors

    def __iter__(self) -> Iterator[ConversationActor]:
        """The actors in memory."""
        return iter(tuple(self._actors.values()))

    def _actor(self, conversation: ConversationId) -> ConversationActor:
        actor = self._actors.get(conversation)
        if actor is None:
            actor = ConversationActor(conversation, self._around, self._owed, self._retire)
            for kept in self._owed.take(conversation):
                actor.post(kept)
            if self._is_draining:
                actor.drain()
            self._actors[conversation] = actor
            # the one it follows may still be closing the journal: this one waits for it
            before = [task for old, task in self._tasks.items() if old.id == conversation]
            task = self._around.spawn(f"conversation {conversation[:8]}", self._run(actor, before))
            self._tasks[actor] = task
        return actor

    async def _run(self, actor: ConversationActor, before: list["asyncio.Task[None]"]) -> None:
        if before:
            await asyncio.wait(before)
        try:
            await actor.run()
        finally:
            self._retire(actor)
            self._tasks.pop(actor, None)

    def _retire(self, actor: ConversationActor) -> None:
        if self._actors.get(actor.id) is actor:
            del self._actors[actor.id]

    async def drain(self, deadline: float) -> bool:
        """Begin no more steps; give those under way `deadline` seconds, then words `FLUSH` of them; let go of all.

        Returns whether every step came to rest in time. What did not is still pending on disk, as are words that no
        relay has taken.
        """
        self._is_draining = True
        for actor in self:
            actor.drain()
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline
        is_flushing = False
        # a poll, because quiet is a property of many queues and tasks, and this happens once in a life
        while (self._owed.is_saying or not all(actor.is_quiet for actor in self)) and loop.time() < until:
            if not is_flushing and all(actor.is_resting for actor in self):
                is_flushing, until = True, min(until, loop.time() + FLUSH)
            await asyncio.sleep(0.02)
        rested = all(actor.is_resting for actor in self)
        await self.stop()
        return rested

    async def stop(self) -> None:
        """Write what has been decided, cancel the rest, close the journals."""
        for actor in self:
            actor.stop()
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks)
        await self._owed.stop()
