"""Typing indicators of one run on virtual time: when, how often, in which order, and when they stop."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenex.app.typing_indicators import (
    GRACE,
    LEAD,
    LOCAL_INTERVAL,
    REFRESH,
    REMOTE_INTERVAL,
    RunIndicator,
    StatusChannel,
)
from tenex.nostr.ephemeral import EphemeralPublisher
from tenex.nostr.events import Event, unsigned_event
from tenex.nostr.keys import SecretKey
from tests.fakes.virtual import VirtualClock, run

NEAR_RELAY, FAR_RELAY = "ws://127.0.0.1:7447", "wss://relay.example"
KEY = SecretKey(bytes([3]) * 32)
WHO = EphemeralPublisher(speaker=KEY.public, address={"form": "notes", "root": "a" * 64, "root_relay": NEAR_RELAY})
TYPING = "Executor is typing"
STARTS, STOPS, TEXT = 24111, 24112, 24135


class FakeRelay:
    """A relay that takes every event, or none while it is full."""

    def __init__(self) -> None:
        self.received: list[tuple[float, Event]] = []
        self.is_full = False

    def has_room(self, relay: str) -> bool:
        """Whether it has room."""
        return not self.is_full

    def offer(self, event: Event, relay: str) -> bool:
        """Receive."""
        if not self.is_full:
            self.received.append((asyncio.get_running_loop().time(), event))
        return not self.is_full

    async def connected(self, timeout: float) -> None:  # noqa: ASYNC109
        """At once."""

    @property
    def published(self) -> list[tuple[int, str]]:
        """Kind and content of what was received."""
        return [(event.kind, event.content) for _, event in self.received]


def indicator_of(fake: FakeRelay, relay: str = NEAR_RELAY) -> RunIndicator:
    return RunIndicator(WHO, StatusChannel(fake, {KEY.public: KEY}, [relay], VirtualClock()))


def scenario(
    scene: Callable[[FakeRelay, RunIndicator], Coroutine[Any, Any, None]], relay: str = NEAR_RELAY
) -> FakeRelay:
    """Play a scene on virtual time."""
    fake = FakeRelay()

    async def main() -> None:
        await scene(fake, indicator_of(fake, relay))

    run(main)
    return fake


def test_a_key_that_was_removed_publishes_nothing() -> None:
    fake = FakeRelay()
    channel = StatusChannel(fake, {}, [NEAR_RELAY], VirtualClock())
    assert not channel.send(unsigned_event(KEY.public, 0, TEXT, [], "hello"))
    assert not fake.received


def test_typing_text_and_stop_in_this_order() -> None:
    """The start is published after a moment of work, and the end at once."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        indicator.set_activity(TYPING, is_writing=True)
        on_text = indicator.open_text()
        on_text("Once")
        await asyncio.sleep(1)
        on_text("Once upon a time")
        await asyncio.sleep(1)
        indicator.stop()

    fake = scenario(scene)
    assert fake.published == [(STARTS, TYPING), (TEXT, "Once"), (TEXT, " upon a time"), (STOPS, "")]
    assert fake.received[0][0] == GRACE
    assert fake.received[2][0] == 1.0, "a text that was not written in haste is published at once"
    assert fake.received[-1][0] == 2.0


def test_what_is_over_at_once_is_not_published() -> None:
    """A model that answers in a blink would only make a client flicker."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        indicator.set_activity(TYPING, is_writing=True)
        indicator.open_text()("Done.")
        await asyncio.sleep(GRACE / 2)
        indicator.stop()
        await asyncio.sleep(2 * REFRESH)

    assert scenario(scene).received == []


@given(st.lists(st.floats(0.0, 0.5), min_size=1, max_size=60), st.sampled_from([NEAR_RELAY, FAR_RELAY]))
def test_the_newest_text_wins_and_never_more_often_than_the_pace(pauses: list[float], relay: str) -> None:
    """However fast it is written: the parts are the text, and there are about three a second, one to far relays."""
    text = ""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        nonlocal text
        indicator.set_activity(TYPING, is_writing=True)
        on_text = indicator.open_text()
        for number, pause in enumerate(pauses):
            text += f"{number} "
            on_text(text)
            await asyncio.sleep(pause)
        await asyncio.sleep(2)
        indicator.stop()

    fake = scenario(scene, relay)
    times = [at for at, event in fake.received if event.kind == TEXT]
    assert "".join(event.content for _, event in fake.received if event.kind == TEXT) == text
    least = LOCAL_INTERVAL if relay == NEAR_RELAY else REMOTE_INTERVAL
    assert all(later - earlier > least - 1e-6 for earlier, later in itertools.pairwise(times))
    numbers = [tag[1] for _, event in fake.received for tag in event.tags if tag[0] == "stream-seq"]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


def test_after_the_stop_nothing_comes_however_late_a_model_speaks() -> None:
    """Neither pending text, nor that of a call that is still ending."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        indicator.set_activity(TYPING, is_writing=True)
        on_text = indicator.open_text()
        on_text("Once")
        await asyncio.sleep(GRACE)
        on_text("Once upon")
        indicator.stop()
        on_text("Once upon a time")
        await asyncio.sleep(3 * REFRESH)

    assert scenario(scene).published[-1] == (STOPS, "")


def test_a_call_that_was_given_up_is_not_listened_to() -> None:
    """After a retry only the new call counts; while a tool runs, none does."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        indicator.set_activity(TYPING, is_writing=True)
        old, new = indicator.open_text(), indicator.open_text()
        old("old words")
        new("new words")
        await asyncio.sleep(1)
        indicator.set_activity("Executor uses shell", is_writing=False)
        new("words of a step that is over")
        await asyncio.sleep(1)

    assert scenario(scene).published == [(STARTS, TYPING), (TEXT, "new words"), (STARTS, "Executor uses shell")]


def test_a_full_relay_gets_the_newest_when_it_has_room_again() -> None:
    """Nothing is queued for it: what it missed it gets in one."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        fake.is_full = True
        indicator.set_activity(TYPING, is_writing=True)
        on_text = indicator.open_text()
        for text in ("a", "ab", "abc"):
            on_text(text)
            await asyncio.sleep(1)
        fake.is_full = False
        await asyncio.sleep(1)

    assert scenario(scene).published == [(STARTS, TYPING), (TEXT, "abc")]


def test_long_work_is_published_again_for_new_subscribers() -> None:
    """Every 20 s while nothing else is; and no two of these are the same event."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        indicator.set_activity("Executor uses shell", is_writing=False)
        await asyncio.sleep(3.5 * REFRESH)
        indicator.stop()

    fake = scenario(scene)
    assert [kind for kind, _ in fake.published] == [STARTS] * 4 + [STOPS]
    assert len({event.id for _, event in fake.received}) == 5


def test_a_text_that_grows_fast_is_still_published() -> None:
    """A text that grows with every turn of the loop is published all the same."""

    async def scene(fake: FakeRelay, indicator: RunIndicator) -> None:
        indicator.set_activity(TYPING, is_writing=True)
        on_text = indicator.open_text()
        await asyncio.sleep(1)
        for size in range(1, 50):
            on_text("x" * size)
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert fake.published[1][0] == TEXT

    scenario(scene)


def test_dates_count_up_and_stay_near() -> None:
    """Two of one second get two seconds, so that clients keep their order; but never far ahead."""

    async def main() -> None:
        channel = StatusChannel(FakeRelay(), {}, [NEAR_RELAY], VirtualClock())
        now = VirtualClock().now() // 1000
        stamps = [channel.stamp(later=True) for _ in range(3)]
        assert stamps == [now, now + 1, now + 2]
        assert channel.stamp() == now + 2
        assert max(channel.stamp(later=True) for _ in range(200)) == now + LEAD

    run(main)


def test_a_fault_of_ours_stays_ours() -> None:
    """An unexpected address or a missing key: the model whose text is published does not notice."""

    async def main() -> None:
        fake = FakeRelay()
        clock = VirtualClock()
        broken = EphemeralPublisher(speaker=KEY.public, address={"form": "notes"})
        keyless = StatusChannel(fake, {}, [NEAR_RELAY], clock)
        for indicator in (
            RunIndicator(broken, StatusChannel(fake, {KEY.public: KEY}, [NEAR_RELAY], clock)),
            RunIndicator(WHO, keyless),
        ):
            indicator.set_activity(TYPING, is_writing=True)
            indicator.open_text()("words")
            await asyncio.sleep(1)
            indicator.stop()
        assert fake.received == []

    run(main)
