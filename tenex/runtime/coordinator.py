"""The ConversationCoordinator: one long-running object that owns one actor per conversation in memory."""

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator

from tenex.core.conversation import Conversation
from tenex.core.effects import Key, Work
from tenex.core.errors import HeldElsewhere, TenexError
from tenex.core.ids import ConversationId
from tenex.core.kind import held_timers
from tenex.core.signals import InboundMessage, Signal, TimerFired

from .actor import ActorDependencies, ConversationActor
from .undeliverable import Undeliverable

FLUSH = 2.0
"""Seconds for pending publishes once all steps are done: an OK takes ms, and a relay that is away never answers."""


class ConversationCoordinator:
    """Finds or makes the actor of a conversation, and stops them all in stages."""

    def __init__(self, deps: ActorDependencies) -> None:
        self._deps = deps
        self._undeliverable = Undeliverable(deps.sealer, deps.notices, deps.executors.outbox, deps.policy, deps.spawn)
        self._actors: dict[ConversationId, ConversationActor] = {}
        self._tasks: dict[ConversationActor, asyncio.Task[None]] = {}
        self._is_draining = False
        self._has_stopped = False

    def deliver(self, conversation: ConversationId, signal: Signal) -> None:
        """Queue a signal for a conversation, which is read from disk if it is not in memory. Returns at once.

        Raises:
            TenexError: all conversations have been stopped.
        """
        self._actor(conversation).post(signal)

    def resume(self, conversations: Iterable[ConversationId]) -> int:
        """Load conversations that the last process left unfinished; returns how many. Once stopped, none."""
        if self._has_stopped:
            return 0
        return len([self._actor(conversation) for conversation in conversations])

    async def load(self, conversation: ConversationId) -> None:
        """Return once a conversation is in memory, or has turned out to be damaged.

        Raises:
            HeldElsewhere: another worker writes it.
        """
        actor = self._actor(conversation)
        await actor.opened.wait()
        if actor.is_held_elsewhere:
            raise HeldElsewhere(f"another worker writes the conversation {conversation[:12]} now")

    def retry_held(self) -> None:
        """Retry now what is held for a model or limited for the day, and messages of damaged conversations."""
        self.resume(self._undeliverable)
        for actor in self:
            state = actor.conversation
            waits = [(run.retry, "retry") for run in state.work.runs.values()] if state else []
            if state is not None and state.router.question is not None:
                waits.append((state.router.question.retry, "route"))
            for retry, part in waits:
                if retry is not None and retry.on_hold:
                    actor.post(TimerFired(key=Key(Work.TIMER, retry.seq, part)))
            for timer in held_timers(state) if state is not None else ():
                actor.post(TimerFired(key=timer))

    def undelivered(self, is_recorded: Callable[[str], bool]) -> frozenset[ConversationId]:
        """The conversations whose messages wait here until they can be opened, or another worker has recorded them.

        Args:
            is_recorded: whether the message of an event is in a journal by now.
        """
        self._undeliverable.discard(is_recorded)
        return frozenset(self._undeliverable)

    def take_over(self, free: Iterable[ConversationId], unfinished: Container[ConversationId]) -> list[ConversationId]:
        """Load those that no other worker writes and in which something is to be done; returns them.

        Args:
            free: conversations that can be opened here.
            unfinished: those in which work is pending.
        """
        if self._is_draining:
            return []
        wanted = [name for name in free if name in unfinished or name in self._undeliverable]
        taken = [name for name in wanted if name not in self._actors]
        self.resume(taken)
        return taken

    def hand_over(self) -> None:
        """End the actors in which no step runs: another worker goes on with them, also with what no relay took yet."""
        self._end_resting(self)

    def hand_over_wanted(self, wanted: Iterable[ConversationId]) -> None:
        """The same for those alone for which another worker has a message, and which were named in any call."""
        for name in wanted:
            if name in self._actors:
                self._actors[name].leave()
        self._end_resting(actor for actor in self if actor.is_leaving)

    def _end_resting(self, actors: Iterable[ConversationActor]) -> None:
        for actor in actors:
            if actor.is_resting:
                actor.drain()
                actor.stop()

    def report_date(self, message: InboundMessage, *, is_guest: bool) -> None:
        """Notify the author, once, that a message is too old to be carried out."""
        self._undeliverable.report_date(message, self._deps.clock.now() // 1000, is_guest=is_guest)

    def unjournaled_since(self) -> int | None:
        """When the earliest message without a record was written, in seconds; None if there is none."""
        return self._undeliverable.since(signal for actor in self for signal in actor.queued)

    def lose(self, conversation: ConversationId) -> None:
        """Cancel all work of a conversation at once: another worker may write it from now on."""
        if conversation in self._actors:
            self._actors[conversation].lose()

    def lose_for_another(self) -> None:
        """Cancel all work of conversations for which another worker has, or gets, what they need."""
        ask = self._deps.is_for_another
        for actor in self:
            if ask is not None and actor.conversation is not None and ask(actor.conversation):
                actor.lose()

    def reconsider(self, conversation: ConversationId) -> None:
        """Start what may start again after a time in which nothing could."""
        if conversation in self._actors:
            self._actors[conversation].reconsider()

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
            if self._has_stopped:
                raise TenexError(
                    f"The daemon is stopping, so nothing was changed in conversation {conversation[:12]}. Try again."
                )
            actor = ConversationActor(conversation, self._deps, self._undeliverable, self._retire)
            for kept in self._undeliverable.take(conversation):
                actor.post(kept)
            if self._is_draining:
                actor.drain()
            self._actors[conversation] = actor
            # the previous actor may still be closing the journal: wait for it
            before = [task for old, task in self._tasks.items() if old.id == conversation]
            task = self._deps.spawn(f"conversation {conversation[:8]}", self._run(actor, before))
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
            if actor.id not in self._actors:
                self._deps.released(actor.id)

    def _retire(self, actor: ConversationActor) -> None:
        if self._actors.get(actor.id) is actor:
            del self._actors[actor.id]

    async def drain(self, deadline: float) -> bool:
        """Start no more steps, wait `deadline` seconds for running ones, then `FLUSH` for publishes, then stop.

        Returns whether every step finished in time. Unfinished steps and undelivered events stay pending on disk.
        """
        self._is_draining = True
        for actor in self:
            actor.drain()
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline
        is_flushing = False
        # a poll, because being quiet depends on many queues and tasks, and this runs once per process
        while (self._undeliverable.is_sending or not all(actor.is_quiet for actor in self)) and loop.time() < until:
            if not is_flushing and all(actor.is_resting for actor in self):
                is_flushing = True
                until = min(until, loop.time() + FLUSH)
            await asyncio.sleep(0.02)
        rested = all(actor.is_resting for actor in self)
        await self.stop()
        return rested

    async def stop(self) -> None:
        """Write what has been decided, cancel the rest, close the journals."""
        tasks = self._unended()
        while tasks:  # one that ends may hand a message on to another, which is opened for it
            for actor in self:
                actor.stop()
            await asyncio.wait(tasks)
            tasks = self._unended()
        self._has_stopped = True
        await self._undeliverable.stop()

    def _unended(self) -> list["asyncio.Task[None]"]:
        return [task for task in self._tasks.values() if not task.done()]
