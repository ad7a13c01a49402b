"""Quiet hours on virtual time: the reminder comes when they end, also where the process died in the night."""

import asyncio
import dataclasses

from tenex.core import records as r
from tenex.core.config import NotificationRules, QuietHours
from tests.fakes.runtime import World, worker
from tests.fakes.scenario import ALICE, one_turn
from tests.fakes.virtual import virtual_time

RULES = NotificationRules(quiet_hours=QuietHours(begin=22 * 60, end=7 * 60, offset=lambda _: 0))
HOUR = 3_600.0


def messages(world: World, purpose: str) -> list[r.MessageSent]:
    return [record for record in world.records(r.MessageSent) if record.purpose == purpose]


@virtual_time
async def test_a_reminder_of_the_night_comes_in_the_morning_also_after_a_death() -> None:
    world = World(one_turn(), worker)  # it begins at 22:13
    world.policy = dataclasses.replace(world.policy, notifications=RULES)
    world.think = HOUR
    async with asyncio.timeout(20 * HOUR):
        async with world.daemon(kill=True) as daemon:
            daemon.write("hello")
            while not messages(world, "completion"):
                await asyncio.sleep(60)
        (answer,) = messages(world, "completion")
        assert (answer.notifies, answer.missed_by) == ((), (ALICE,))
        async with world.daemon():
            while not messages(world, "reminder"):
                await asyncio.sleep(1)
    (reminder,) = messages(world, "reminder")
    assert reminder.notifies == (ALICE,)
    assert 7 * HOUR <= reminder.at / 1000 % (24 * HOUR) < 7 * HOUR + 2
