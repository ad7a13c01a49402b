"""Typing indicators on virtual time: of one run, of a conversation, and of the project."""

import asyncio
import dataclasses
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.app import open_application
from tenex.app.typing_indicators import (
    GRACE,
    LEAD,
    LOCAL_INTERVAL,
    PULSE,
    REFRESH,
    REMOTE_INTERVAL,
    RunIndicator,
    StatusChannel,
    TypingIndicators,
    project_status,
)
from tenex.cli.init import prepare
from tenex.core.conversation import Conversation
from tenex.core.effects import ModelCall
from tenex.core.ids import Millis, PublicKey, Slug
from tenex.core.messages import ModelStep
from tenex.core.pending import pending
from tenex.core.ports import UnsignedEvent, ignore_text
from tenex.core.signals import DayLimitReached
from tenex.nostr.compose import NostrSealer
from tenex.nostr.ephemeral import EphemeralPublisher, status_event
from tenex.nostr.events import Event
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.settings import load
from tests.fakes.scenario import Scenario, policy, reply
from tests.fakes.virtual import VirtualClock, virtual_time

pytestmark = pytest.mark.altered  # scenes give their conversations an address

NEAR, FAR = "ws://127.0.0.1:7447", "wss://relay.example"
ROOT = "e" * 64
STARTS, STOPS, TEXT, OPERATIONS, STATUS = 24111, 24112, 24135, 24133, 24010
TYPING, SHELL = "Executor is typing", "Executor uses shell"
KEYS = {slug: SecretKey(bytes([number]) * 32) for number, slug in enumerate(["orchestrator", *policy().roster], 1)}
RULES = dataclasses.replace(
    policy(),
    roster={slug: dataclasses.replace(agent, pubkey=KEYS[slug].public) for slug, agent in policy().roster.items()},
    project=dataclasses.replace(policy().project, pubkey=KEYS["orchestrator"].public),
)
EXECUTOR, PROJECT = KEYS["executor"].public, KEYS["orchestrator"].public
WHO = EphemeralPublisher(speaker=EXECUTOR, address={"form": "notes", "root": "a" * 64, "root_relay": NEAR})


class FakeRelay:
    def __init__(self) -> None:
        self.received: list[tuple[float, Event]] = []
        self.is_full = False

    def has_room(self, relay: str) -> bool:
        return not self.is_full

    def offer(self, event: Event, relay: str) -> bool:
        if not self.is_full:
            self.received.append((asyncio.get_running_loop().time(), event))
        return not self.is_full

    async def connected(self, timeout: float) -> None:  # noqa: ASYNC109
        """At once."""

    def published(self, *kinds: int) -> list[tuple[int, str]]:
        """What was received of these kinds: who is active for 24133, else the text."""
        return [
            (event.kind, ",".join(tag[1][:4] for tag in event.tags if tag[0] == "p") or event.content)
            for _, event in self.received
            if event.kind in (kinds or (event.kind,))
        ]


def of_run(relay: str = NEAR, who: EphemeralPublisher = WHO, *, has_key: bool = True) -> tuple[FakeRelay, RunIndicator]:
    """The indicator of one run, and the relay that receives it."""
    fake = FakeRelay()
    relays: Any = fake
    keys = {EXECUTOR: KEYS["executor"]} if has_key else {}
    return fake, RunIndicator(who, StatusChannel(relays, keys, VirtualClock(), [relay]))


# ---- one run


@virtual_time
async def test_typing_text_and_stop_in_this_order() -> None:
    """The start is published after a moment of work, the end at once, and nothing after it."""
    fake, indicator = of_run()
    indicator.set_activity(TYPING, is_writing=True)
    on_text = indicator.open_text()
    on_text("Once")
    await asyncio.sleep(GRACE / 2)
    assert fake.received == [], "what is over at once would only flicker"
    await asyncio.sleep(1 - GRACE / 2)
    on_text("Once upon a time")
    await asyncio.sleep(1)
    on_text("Once upon a time there")
    indicator.stop()
    on_text("Once upon a time there was")
    await asyncio.sleep(3 * REFRESH)
    assert fake.published() == [(STARTS, TYPING), (TEXT, "Once"), (TEXT, " upon a time"), (STOPS, "")]
    times = [at for at, _ in fake.received]
    assert (times[0], times[2], times[-1]) == (GRACE, 1.0, 2.0), "what was not written in haste is published at once"


@virtual_time
async def test_an_event_goes_to_every_relay() -> None:
    taken: list[str] = []

    def take(_event: Event, relay: str) -> bool:
        taken.append(relay)
        return True

    relays: Any = FakeRelay()
    relays.offer = take
    channel = StatusChannel(relays, {EXECUTOR: KEYS["executor"]}, VirtualClock(), [NEAR, FAR])
    indicator = RunIndicator(WHO, channel)
    indicator.set_activity(TYPING, is_writing=True)
    await asyncio.sleep(2 * GRACE)
    assert taken == [NEAR, FAR]


@given(st.lists(st.floats(0.0, 0.5), min_size=1, max_size=60), st.sampled_from([NEAR, FAR]))
@virtual_time
async def test_the_newest_text_wins_and_never_more_often_than_the_pace(pauses: list[float], relay: str) -> None:
    """However fast it is written: the parts are the text, and there are about three a second, one to far relays."""
    fake, indicator = of_run(relay)
    indicator.set_activity(TYPING, is_writing=True)
    on_text, text = indicator.open_text(), ""
    for number, pause in enumerate(pauses):
        text += f"{number} "
        on_text(text)
        await asyncio.sleep(pause)
    await asyncio.sleep(2)
    indicator.stop()
    times = [at for at, event in fake.received if event.kind == TEXT]
    assert "".join(content for _, content in fake.published(TEXT)) == text
    least = LOCAL_INTERVAL if relay == NEAR else REMOTE_INTERVAL
    assert all(later - earlier > least - 1e-6 for earlier, later in itertools.pairwise(times))
    numbers = [tag[1] for _, event in fake.received for tag in event.tags if tag[0] == "stream-seq"]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


@virtual_time
async def test_a_call_that_was_given_up_is_not_listened_to() -> None:
    """After a retry only the new call counts; while a tool runs, none does."""
    fake, indicator = of_run()
    indicator.set_activity(TYPING, is_writing=True)
    old, new = indicator.open_text(), indicator.open_text()
    old("old words")
    new("new words")
    await asyncio.sleep(1)
    indicator.set_activity(SHELL, is_writing=False)
    new("words of a step that is over")
    await asyncio.sleep(1)
    assert fake.published() == [(STARTS, TYPING), (TEXT, "new words"), (STARTS, SHELL)]


@virtual_time
async def test_a_full_relay_gets_the_newest_when_it_has_room_again() -> None:
    fake, indicator = of_run()
    fake.is_full = True
    indicator.set_activity(TYPING, is_writing=True)
    on_text = indicator.open_text()
    for text in ("a", "ab", "abc"):
        on_text(text)
        await asyncio.sleep(1)
    fake.is_full = False
    await asyncio.sleep(1)
    assert fake.published() == [(STARTS, TYPING), (TEXT, "abc")]


@virtual_time
async def test_long_work_is_published_again_for_new_subscribers() -> None:
    """Every 20 s while nothing else is; and no two of these are the same event."""
    fake, indicator = of_run()
    indicator.set_activity(SHELL, is_writing=False)
    await asyncio.sleep(3.5 * REFRESH)
    indicator.stop()
    assert [kind for kind, _ in fake.published()] == [STARTS] * 4 + [STOPS]
    assert len({event.id for _, event in fake.received}) == 5


@virtual_time
async def test_dates_count_up_and_stay_near() -> None:
    """Two of one second get two seconds, so that clients keep their order; but never far ahead."""
    relay: Any = FakeRelay()
    channel = StatusChannel(relay, {}, VirtualClock(), [NEAR])
    now = VirtualClock().now() // 1000
    assert [channel.stamp() for _ in range(3)] == [now, now + 1, now + 2]
    assert channel.stamp(later=False) == now + 2
    assert max(channel.stamp() for _ in range(200)) == now + LEAD


@virtual_time
async def test_an_unexpected_address_or_a_missing_key_does_not_reach_the_model() -> None:
    lost = EphemeralPublisher(speaker=EXECUTOR, address={"form": "notes"})
    for fake, indicator in (of_run(who=lost), of_run(has_key=False)):
        indicator.set_activity(TYPING, is_writing=True)
        indicator.open_text()("words")
        await asyncio.sleep(1)
        indicator.stop()
        assert fake.received == []


# ---- a conversation


class Scene:
    """A conversation whose every step a test takes, and a relay that receives its indicators."""

    def __init__(self, **options: Any) -> None:
        self.scenario = Scenario(
            lambda _: {"agents": ["executor"], "phase": "execute", "reason": "work"}, asks_once, config=RULES
        )
        self.relay = FakeRelay()
        self.indicators = listening(self.relay, **options)

    async def appended(self) -> None:
        """The actor has appended."""
        self.indicators.on_records(self.scenario.conversation, [])
        await asyncio.sleep(1)

    async def step(self) -> None:
        """One piece of work ends, of a model where one is wanted."""
        assert self.scenario.step(lambda effects: next((e for e in effects if isinstance(e, ModelCall)), effects[0]))
        await self.appended()

    async def routed(self, address: dict[str, Any] | None = None) -> None:
        """The router has named the executor, whose model is wanted."""
        self.scenario.user_writes("Write something")
        home = {"form": "notes", "root": ROOT, "root_relay": NEAR, "relays": [NEAR]}
        self.scenario.conversation.identity = replace(
            self.scenario.conversation.identity, address=home if address is None else address
        )
        await self.appended()
        self.scenario.step()
        await self.appended()

    def on_text(self) -> Any:
        call = next(e for e in pending(self.scenario.conversation).values() if isinstance(e, ModelCall))
        return self.indicators.on_text(self.scenario.conversation, call)


def listening(
    relay: FakeRelay, mode: Literal["auto", "on", "off"] = "auto", relays: tuple[str, ...] = (NEAR,)
) -> TypingIndicators:
    keys = {key.public: key for key in KEYS.values()}
    sink: Any = relay
    return TypingIndicators(
        sink, keys, NostrSealer(relays), VirtualClock(), speaker=PROJECT, status=status, mode=mode, relays=relays
    )


def status(at: int) -> UnsignedEvent:
    return status_event(PROJECT, [PublicKey("a" * 64)], {Slug("orchestrator"): PROJECT}, {}, {}, at)


def asks_once(conversation: Conversation, call: ModelCall) -> ModelStep:
    """Ask, then write, then have done."""
    results = sum(type(entry).__name__ == "CallResult" for entry in call.entries)
    calls: list[tuple[str, dict[str, Any]]] = [("ask", {"question": "Which name?"}), ("write_file", {"path": "f"})]
    return reply("It is done.") if results >= len(calls) else reply("One moment.", calls[results])


ROUTED = [(STARTS, "The orchestrator is deciding"), (STOPS, "")]
"""What is published while the router is asked, and when it has answered."""


@virtual_time
async def test_a_run_is_shown_from_its_start_over_a_question_to_its_end() -> None:
    """Typing stops while a person is asked, begins again with their answer, and stops with the run."""
    scene = Scene()
    await scene.routed()
    scene.on_text()("One mo")
    await asyncio.sleep(1)
    await scene.step()
    assert scene.scenario.conversation.work.is_parked
    count = len(scene.relay.received)
    await asyncio.sleep(60)
    assert len(scene.relay.received) == count, "nothing is published while it waits for a user"
    (*_, last) = [event for _, event in scene.relay.received if event.kind == OPERATIONS]
    assert ("status", "waiting") in last.tags
    scene.scenario.user_writes("greeter.py")
    await scene.appended()
    await scene.step()
    scene.scenario.settle()
    await scene.appended()
    first = [(STARTS, TYPING), (TEXT, "One mo"), (STOPS, "")]
    second = [(STARTS, TYPING), (STARTS, "Executor uses write_file"), (STOPS, "")]
    assert scene.relay.published(STARTS, STOPS, TEXT) == [*ROUTED, *first, *second]


@virtual_time
async def test_an_agent_that_waits_for_the_next_day_is_not_shown_as_typing() -> None:
    scene = Scene()
    await scene.routed()
    (call,) = (effect for effect in pending(scene.scenario.conversation).values() if isinstance(effect, ModelCall))
    until = Millis(scene.scenario.now + 3_600_000)
    scene.scenario.handle(DayLimitReached(key=call.key, limit="cost_per_day_usd", sentence="Enough.", until=until))
    await scene.appended()
    assert scene.relay.published(STARTS, STOPS) == [*ROUTED, (STARTS, TYPING), (STOPS, "")]


@virtual_time
async def test_a_stop_silences_a_model_that_goes_on_writing_and_no_agent_is_active() -> None:
    """The orchestrator is active while it decides, then the agent, then none; and then nothing is kept."""
    scene = Scene()
    await scene.routed()
    on_text = scene.on_text()
    on_text("Once")
    await asyncio.sleep(1)
    on_text("Once upon")
    scene.scenario.user_writes("/stop")
    scene.indicators.on_records(scene.scenario.conversation, [])
    on_text("Once upon a time")
    await asyncio.sleep(60)
    assert scene.indicators._conversations == {}
    own = [(STARTS, TYPING), (TEXT, "Once"), (STOPS, "")]
    assert scene.relay.published(STARTS, STOPS, TEXT) == [*ROUTED, *own]
    active = [PROJECT[:4], EXECUTOR[:4], ""]
    assert scene.relay.published(OPERATIONS) == [(OPERATIONS, who) for who in active]
    of_project = [event for _, event in scene.relay.received if event.kind == OPERATIONS]
    assert {event.pubkey for event in of_project} == {PROJECT}
    assert {tag[1] for event in of_project for tag in event.tags if tag[0] == "P"} == {"a" * 64}


@virtual_time
async def test_a_conversation_with_which_another_worker_goes_on_is_shown_no_more() -> None:
    scene = Scene()
    await scene.routed()
    for _ in range(2):
        scene.indicators.forget(scene.scenario.conversation.id)
    await asyncio.sleep(3.5 * REFRESH)
    assert scene.relay.published(STARTS, STOPS) == [*ROUTED, (STARTS, TYPING), (STOPS, "")]


@pytest.mark.parametrize(
    ("mode", "relay", "address", "is_published"),
    [
        ("auto", NEAR, {"form": "notes", "root_relay": NEAR}, True),
        ("auto", FAR, {"form": "notes", "root_relay": FAR}, False),
        ("on", FAR, {"form": "notes", "root_relay": FAR}, True),
        ("off", NEAR, {"form": "notes", "root_relay": NEAR}, False),
        ("on", NEAR, {"form": "direct"}, False),
        ("on", NEAR, {}, False),
    ],
)
@virtual_time
async def test_the_mode_decides_which_relays_get_indicators(
    mode: str, relay: str, address: dict[str, Any], is_published: bool
) -> None:
    """And no relay gets those of an encrypted conversation, or of a form that is unknown here."""
    scene = Scene(mode=mode, relays=(relay,))
    await scene.routed({**address, "root": ROOT, "relays": [relay]})
    assert (scene.on_text() is not ignore_text) is is_published
    assert bool(scene.relay.received) is is_published


def test_an_error_does_not_reach_the_actor() -> None:
    """A state it cannot make sense of, or a sealer that fails: the work goes on, and its text is not published."""
    indicators = listening(FakeRelay())
    nothing: Any = object()
    indicators.on_records(nothing, [])
    assert indicators.on_text(nothing, nothing) is ignore_text


# ---- the project


async def ends(*running: asyncio.Task[None]) -> None:
    for task in running:
        task.cancel()
    await asyncio.wait(running)


@virtual_time
async def test_the_project_status_is_published_at_an_interval_and_when_it_changes() -> None:
    """At once after a reload, and never where no relay gets indicators. With the service all typing ends."""
    scene, silent = Scene(), FakeRelay()
    running = [asyncio.create_task(each.run()) for each in (scene.indicators, listening(silent, relays=(FAR,)))]
    await asyncio.sleep(2 * PULSE + 1)
    scene.indicators.changed()
    await scene.routed()
    await ends(*running)
    count = len(scene.relay.received)
    await asyncio.sleep(120)
    assert len(scene.relay.received) == count, "no timer is left"
    times = [at for at, event in scene.relay.received if event.kind == STATUS]
    assert times == [GRACE, GRACE + PULSE, GRACE + 2 * PULSE, 61.0]
    assert scene.relay.published(STARTS, STOPS)[-1] == (STOPS, "")
    assert silent.received == []


@virtual_time
async def test_a_project_status_that_no_relay_took_is_published_once_there_is_room() -> None:
    """At the start and at an interval: a client must not take the project for gone because a relay was away."""
    relay = FakeRelay()
    running = asyncio.create_task(listening(relay).run())
    for until_full, until_room in ((0, 5), (20, 10)):
        await asyncio.sleep(until_full)
        relay.is_full = True
        await asyncio.sleep(until_room)
        relay.is_full = False
    await asyncio.sleep(5)
    await ends(running)
    first, second = (at for at, _ in relay.received)
    assert 5 < first < 5 + LOCAL_INTERVAL
    assert 35 < second < 35 + LOCAL_INTERVAL


async def test_the_status_of_a_real_configuration(tmp_path: Path) -> None:
    """The project first, every agent by key and slug, each model and tool with those who have it."""
    made = prepare(tmp_path, None, [NEAR])
    async with open_application(load(made.config, tmp_path, env={}, parse_key=parse_public_key)) as app:
        event = project_status(app.current.now, 1)
    tags = {tag[:2]: tag[2:] for tag in event.tags}
    agents = [tag for tag in tags if tag[0] == "agent"]
    slugs = [slug for tag in agents for slug in tags[tag]]
    assert (event.pubkey, agents[0]) == (app.project.public, ("agent", app.project.public))
    assert sum(tag[0] == "p" for tag in tags) == 1
    assert set(slugs[1:]) == set(app.policy.roster)
    assert [(tag[1], set(tags[tag])) for tag in tags if tag[0] == "model"] == [("offline", set(slugs))]
    assert "executor" in tags["tool", "write_file"]
    assert "planner" not in tags["tool", "write_file"]
