"""Who works in threads of rooms, on virtual time."""

import asyncio
import itertools
from typing import Any

import pytest

from tenex.app.room_typing import INTERVAL, RoomTyping
from tenex.app.typing_indicators import GRACE
from tenex.core.ids import ConversationId
from tenex.core.values import replace
from tenex.nostr.events import Event
from tenex.nostr.keys import SecretKey
from tests.fakes.scenario import Scenario, diligent, policy
from tests.fakes.virtual import VirtualClock, virtual_time

pytestmark = pytest.mark.altered  # the conversations are given an address

RELAY = "wss://relay.example"
FIRST, SECOND = "1" * 64, "2" * 64
KEYS = {slug: SecretKey(bytes([number]) * 32) for number, slug in enumerate(["orchestrator", *policy().roster], 1)}
EXECUTOR = KEYS["executor"].public


class Taken:
    """A relay that takes all that is offered."""

    def __init__(self) -> None:
        self.events: list[tuple[float, Event]] = []

    def offer_rarely(self, event: Event, relay: str) -> bool:
        self.events.append((asyncio.get_running_loop().time(), event))
        return True

    def roots(self, since: float = 0.0) -> list[str]:
        return [tag[1] for at, event in self.events if at >= since for tag in event.tags if tag[0] == "e"]


class Scene:
    """Conversations in threads of one room, and a relay that is shown who works there."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.relay = Taken()
        pool: Any = self.relay
        keys = {key.public: key for key in KEYS.values()}
        self.typing = RoomTyping(pool, keys, VirtualClock(), KEYS["orchestrator"].public, is_on=is_on)

    def at_work(self, root: str, form: str = "room threads") -> Scenario:
        """A conversation in which the executor works."""
        rules = policy()
        roster = {slug: replace(agent, pubkey=KEYS[slug].public) for slug, agent in rules.roster.items()}
        scenario = Scenario(
            lambda _: {"agents": ["executor"], "phase": "execute", "reason": "work"},
            diligent,
            config=replace(rules, roster=roster),
        )
        scenario.user_writes("Write something")
        address = {"form": form, "root": root, "root_author": "", "group": "kitchen", "relays": [RELAY]}
        scenario.conversation.identity = replace(
            scenario.conversation.identity, id=ConversationId(root), address=address
        )
        self.appended(scenario)
        scenario.step()
        self.appended(scenario)
        return scenario

    def appended(self, scenario: Scenario) -> None:
        self.typing.on_records(scenario.conversation, [])


@virtual_time
async def test_a_key_at_work_is_shown_every_three_seconds_until_its_run_ends() -> None:
    scene = Scene()
    work = scene.at_work(FIRST)
    await asyncio.sleep(GRACE)
    await asyncio.sleep(3 * INTERVAL)
    shown = [event for _, event in scene.relay.events if event.pubkey == EXECUTOR]
    assert [event.kind for event in shown] == [20002] * 4
    assert shown[0].tags == (("h", "kitchen"), ("e", FIRST, "", "reply"))
    work.user_writes("/stop")
    scene.appended(work)
    count = len(scene.relay.events)
    await asyncio.sleep(60)
    assert len(scene.relay.events) == count


@virtual_time
async def test_a_key_at_work_on_two_threads_is_shown_in_both_and_not_more_often() -> None:
    scene = Scene()
    scene.at_work(FIRST)
    second = scene.at_work(SECOND)
    await asyncio.sleep(GRACE + 3 * INTERVAL)
    assert scene.relay.roots()[:4] == [FIRST, SECOND, FIRST, SECOND]
    times = [at for at, _ in scene.relay.events]
    assert all(later - earlier >= INTERVAL - 0.01 for earlier, later in itertools.pairwise(times))
    scene.typing.forget(second.conversation.id)
    since = asyncio.get_running_loop().time() + 0.01
    await asyncio.sleep(3 * INTERVAL)
    assert set(scene.relay.roots(since)) == {FIRST}


@virtual_time
async def test_nothing_is_shown_in_other_conversations_or_where_it_is_switched_off() -> None:
    scene, off = Scene(), Scene(is_on=False)
    scene.at_work(FIRST, form="chats")
    off.at_work(FIRST)
    await asyncio.sleep(60)
    assert scene.relay.events == off.relay.events == []


@virtual_time
async def test_nothing_is_shown_once_the_daemon_stops() -> None:
    scene = Scene()
    running = asyncio.create_task(scene.typing.run())
    scene.at_work(FIRST)
    await asyncio.sleep(GRACE)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    count = len(scene.relay.events)
    await asyncio.sleep(60)
    assert len(scene.relay.events) == count > 0
