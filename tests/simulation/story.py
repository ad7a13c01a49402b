"""What happens in one seed: users write, the clock is set, processes die and start again; at last all faults end."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from tenex.core.ids import ConversationId, EventId
from tenex.core.signals import InboundMessage
from tenex.core.work.run import CallState
from tenex.workflows.missions.state import mission_of
from tests.fakes.runtime import Daemon
from tests.fakes.scenario import ALICE
from tests.fakes.virtual import run

from . import missions, oracle
from .world import BOB, FaultyWorld

TEXTS = ("build it", "what now?", "make it green", "yes", "no", "skip the tests", "please go on")
COMMANDS = ("/stop", "/continue", "/retry", "/quick", "/status")
JUMPS = (-3_600_000, 3_600_000, 10 * 365 * 86_400_000, -86_400_000, 60_000, -9_000)
"""ms: an hour back and on, ten years on, a day back, a minute, and a bit."""
QUIET = 45 * 60.0
"""Seconds: longer than any deadline and any wait for another try."""
DAYS = 4 * 86_400.0
"""Seconds after which what one relay never took has expired."""


class Story:
    """One seed, from its first message to rest."""

    def __init__(self, seed: int, root: Path, log: Callable[[str], None] = lambda _line: None) -> None:
        self.world = FaultyWorld(seed, root)
        self.dice = self.world.dice
        self.log = log
        self.talks = [f"{number:064x}" for number in range(self.dice.randint(1, 4))]
        if self.world.errands is not None:
            self.talks.append(missions.CONVERSATION)

    async def play(self) -> None:
        """Some lives, each stopped or killed, and a last one that comes to rest."""
        world = self.world
        for life in range(self.dice.randint(0, 3)):
            is_killed = self.dice.random() < 0.6
            self.log(f"life {life}, to be {'killed' if is_killed else 'stopped'}; odds {world.odds}")
            world.live()
            async with world.daemon(kill=is_killed) as daemon:
                await self._backlog(daemon)
                for _ in range(self.dice.randint(1, 8)):
                    await self._pause()
                    self._happens(daemon)
                await self._pause()
            world.disk.close()
            await asyncio.sleep(self.dice.choice([0.1, 60.0, 7_200.0]))
            if world.meets("clock"):
                self._set_clock()
        world.live()
        if heals_first := self.dice.random() < 0.5:
            world.heal()
        self.log(f"last life, {'without' if heals_first else 'still with'} faults")
        async with world.daemon() as daemon:
            await self._backlog(daemon)
            for _ in range(self.dice.randint(2, 6)):
                await self._pause()
                self._happens(daemon)
            await self._pause()
            world.heal()
            self.log("healed")
            await self._rest(daemon)
        world.disk.close()
        if world.bugs is not None:
            self.log("what a fault of ours put aside has waited for this start")
            world.live()
            async with world.daemon() as daemon:
                await self._rest(daemon)
            world.disk.close()

    async def _pause(self) -> None:
        await asyncio.sleep(self.dice.choice([0.0, 0.01, 0.1, 0.5, 3.0, 40.0, 400.0]) * self.dice.random())

    def _happens(self, daemon: Daemon) -> None:
        luck = self.dice.random()
        if luck < 0.15 and self.world.events:
            again = self.dice.choice(list(self.world.events.values()))
            self._receive(daemon, again)
        elif luck < 0.25:
            self._write(daemon, self.dice.choice(COMMANDS))
        elif luck < 0.35 and self.world.odd("clock"):
            self._set_clock()
        elif luck < 0.5 and self._reply(daemon):
            return
        elif luck < 0.6 and self.world.events:
            self._edit(daemon)
        else:
            self._write(daemon, self.dice.choice(TEXTS))

    def _set_clock(self) -> None:
        by = self.dice.choice(JUMPS)
        self.log(f"the clock is set by {by // 1000} s")
        self.world.set_clock(by)

    def _write(self, daemon: Daemon, text: str, talk: str | None = None, reply_to: EventId | None = None) -> None:
        number = len(self.world.events) + 1
        event_id = EventId(f"{number:064x}"[::-1])
        talk = talk or self.dice.choice(self.talks)
        is_mission = talk == missions.CONVERSATION
        text = "/pause" if is_mission and text == "/quick" else text
        owner = self.dice.random() < 0.9
        message = InboundMessage(
            event_id=event_id,
            author=ALICE if owner else BOB,
            text=text,
            created_at=self.world.clock.now() // 1000,
            conversation=ConversationId(talk),
            starts=True,
            reply_to=reply_to,
            references=(reply_to,) if reply_to else (),
            address={"form": "notes"},
            origin={"id": number},
            tagged=(missions.KEY,) if is_mission else (),
        )
        self.world.events[event_id] = message
        if self.dice.random() < 0.1:
            self.log(f"{talk[-2:]}: not received: {text!r} yet")  # the relay's frame is late: the backlog brings it
            return
        for _ in range(self.dice.choice([1, 1, 2])):
            self._receive(daemon, message)

    def _edit(self, daemon: Daemon) -> None:
        """Somebody edits what they wrote, or what they may not have sent yet."""
        edited = self.dice.choice(list(self.world.events.values()))
        number = len(self.world.edits) + 1
        message = replace(
            edited,
            event_id=EventId(f"e{number:063x}"),
            text=self.dice.choice((*TEXTS, *COMMANDS)),
            created_at=self.world.clock.now() // 1000,
            conversation=ConversationId(edited.event_id),
            starts=False,
            reply_to=None,
            references=(edited.event_id,),
            edits=edited.event_id,
            tagged=(),
        )
        self.world.edits[message.event_id] = message
        self._receive(daemon, message)

    def _receive(self, daemon: Daemon, message: InboundMessage) -> None:
        verdict = daemon.runtime.inbox.receive(message)
        self.log(f"{message.conversation[-2:]}: {message.text!r} is {verdict}")
        assert verdict in ("admitted", "duplicate", *(("elsewhere",) if message.edits else ())), verdict

    async def _backlog(self, daemon: Daemon) -> None:
        """Relays send everything again, in any order."""
        messages = [*self.world.events.values(), *self.world.edits.values()]
        if self.dice.random() < 0.5:
            self.dice.shuffle(messages)
        for message in messages:
            if self.dice.random() < 0.1:
                await asyncio.sleep(0.01)
            self._receive(daemon, message)

    def _reply(self, daemon: Daemon) -> bool:
        """Answer a question that is open, if there is one."""
        for name in self.world.conversations():  # also of one that has left memory
            state = self.world.state(name)
            for run_ in state.work.runs.values():
                for call in run_.open_calls:
                    if call.state is CallState.PARKED:
                        event = next(
                            (e for e, key in state.work.asks.items() if key == (run_.id, call.request.id)), None
                        )
                        self._write(daemon, "blue", name, EventId(event) if event else None)
                        return True
        return False

    def _continues(self, daemon: Daemon) -> bool:
        """Have the mission go on where it waits for someone to report it."""
        mission = mission_of(self.world.state(missions.CONVERSATION)) if self.world.errands is not None else None
        if mission is None or not mission.is_paused:
            return False
        self._write(daemon, "/continue", missions.CONVERSATION)
        return True

    async def _rest(self, daemon: Daemon) -> None:
        """Let all of it come to rest, answering what is asked, and let expire what no relay takes."""
        for _ in range(60):
            await self._backlog(daemon)  # with what no one received so far
            await self._quiet()
            if not self._reply(daemon) and not self._continues(daemon):
                break
        if any(self.world.state(name).delivery.outbox for name in self.world.conversations()):
            await asyncio.sleep(DAYS)
            await self._quiet()

    async def _quiet(self) -> None:
        """Wait until nothing has been written for longer than any retry or deadline."""
        before = -1
        for _ in range(200):
            if before == len(self.world.moments):
                return
            before = len(self.world.moments)
            await asyncio.sleep(QUIET)
        raise AssertionError("it never comes to rest")


def simulate(seed: int, root: Path, log: Callable[[str], None] = lambda _line: None) -> Story:
    """Play a seed in an empty folder and judge it.

    Raises:
        AssertionError: something did not hold; it names the command that plays the seed again.
    """
    story = Story(seed, root, log)
    with patch("tenex.store.journal.FILE_BYTES", 30_000), patch("tenex.store.journal.PER_SNAPSHOT", 1):
        try:
            run(story.play)
            oracle.judge(story.world)
        except Exception as fault:
            text = f"seed {seed}: {fault}\nTo see it again: .venv/bin/python -m tests.simulation {seed}"
            raise AssertionError(text) from fault
    return story
