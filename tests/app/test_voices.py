"""One run's whispers on virtual time: how soon, how often, in which order, and when it is silent."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenex.app.run_indicator import FAR, GRACE, LEAD, NEAR, REFRESH, RunIndicator, StatusChannel
from tenex.nostr.ephemeral import EphemeralPublisher
from tenex.nostr.events import Event, unsigned_event
from tenex.nostr.keys import SecretKey
from tests.fakes.virtual import VirtualClock, run

NEAR_RELAY, FAR_RELAY = "ws://127.0.0.1:7447", "wss://relay.example"
KEY = SecretKey(bytes([3]) * 32)
WHO = EphemeralPublisher(speaker=KEY.public, address={"form": "notes", "root": "a" * 64, "root_relay": NEAR_RELAY})
TYPING = "Executor is typing"
STARTS, STOPS, TEXT = 24111, 24112, 24135


class Ears:
    """A relay that hears everything, or nothing while it is deaf."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, Event]] = []
        self.is_deaf = False

    def has_room(self, relay: str) -> bool:
        """Whether it hears."""
        return not self.is_deaf

    def offer(self, event: Event, relay: str) -> bool:
        """Hear."""
        if not self.is_deaf:
            self.heard.append((asyncio.get_running_loop().time(), event))
        return not self.is_deaf

    async def connected(self, timeout: float) -> None:  # noqa: ASYNC109
        """At once."""

    @property
    def told(self) -> list[tuple[int, str]]:
        """Kind and content of what was heard."""
        return [(event.kind, event.content) for _, event in self.heard]


def voice(ears: Ears, relay: str = NEAR_RELAY) -> RunIndicator:
    return RunIndicator(WHO, StatusChannel(ears, {KEY.public: KEY}, [relay], VirtualClock()))


def play(scene: Callable[[Ears, RunIndicator], Coroutine[Any, Any, None]], relay: str = NEAR_RELAY) -> Ears:
    """Play a scene on virtual time."""
    ears = Ears()

    async def main() -> None:
        await scene(ears, voice(ears, relay))

    run(main)
    return ears


def test_a_key_that_is_not_ours_any_more_says_nothing() -> None:
    ears = Ears()
    channel = StatusChannel(ears, {}, [NEAR_RELAY], VirtualClock())
    assert not channel.tell(unsigned_event(KEY.public, 0, TEXT, [], "hello"))
    assert not ears.heard


def test_typing_text_and_stop_in_this_order() -> None:
    """The first is heard when the work has lasted a moment, and the end at once."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        speaks.does(TYPING, is_writing=True)
        whisper = speaks.writes()
        whisper("Once")
        await asyncio.sleep(1)
        whisper("Once upon a time")
        await asyncio.sleep(1)
        speaks.stop()

    ears = play(scene)
    assert ears.told == [(STARTS, TYPING), (TEXT, "Once"), (TEXT, " upon a time"), (STOPS, "")]
    assert ears.heard[0][0] == GRACE
    assert ears.heard[2][0] == 1.0, "a text that was not written in haste is told at once"
    assert ears.heard[-1][0] == 2.0


def test_what_is_over_at_once_is_not_heard_at_all() -> None:
    """A mind that answers in a blink would only make a client flicker."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        speaks.does(TYPING, is_writing=True)
        speaks.writes()("Done.")
        await asyncio.sleep(GRACE / 2)
        speaks.stop()
        await asyncio.sleep(2 * REFRESH)

    assert play(scene).heard == []


@given(st.lists(st.floats(0.0, 0.5), min_size=1, max_size=60), st.sampled_from([NEAR_RELAY, FAR_RELAY]))
def test_the_newest_text_wins_and_never_more_often_than_the_pace(pauses: list[float], relay: str) -> None:
    """However fast it is written: the parts are the text, and there are about three a second, one to far relays."""
    text = ""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        nonlocal text
        speaks.does(TYPING, is_writing=True)
        whisper = speaks.writes()
        for number, pause in enumerate(pauses):
            text += f"{number} "
            whisper(text)
            await asyncio.sleep(pause)
        await asyncio.sleep(2)
        speaks.stop()

    ears = play(scene, relay)
    times = [at for at, event in ears.heard if event.kind == TEXT]
    assert "".join(event.content for _, event in ears.heard if event.kind == TEXT) == text
    least = NEAR if relay == NEAR_RELAY else FAR
    assert all(later - earlier > least - 1e-6 for earlier, later in itertools.pairwise(times))
    numbers = [tag[1] for _, event in ears.heard for tag in event.tags if tag[0] == "stream-seq"]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


def test_after_the_stop_nothing_comes_however_late_a_model_speaks() -> None:
    """Not what waited for its turn, not what a call says that is still ending."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        speaks.does(TYPING, is_writing=True)
        whisper = speaks.writes()
        whisper("Once")
        await asyncio.sleep(GRACE)
        whisper("Once upon")
        speaks.stop()
        whisper("Once upon a time")
        await asyncio.sleep(3 * REFRESH)

    assert play(scene).told[-1] == (STOPS, "")


def test_a_call_that_was_given_up_is_not_listened_to() -> None:
    """After a retry only the new call counts; while a tool runs, none does."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        speaks.does(TYPING, is_writing=True)
        old, new = speaks.writes(), speaks.writes()
        old("old words")
        new("new words")
        await asyncio.sleep(1)
        speaks.does("Executor uses shell", is_writing=False)
        new("words of a step that is over")
        await asyncio.sleep(1)

    assert play(scene).told == [(STARTS, TYPING), (TEXT, "new words"), (STARTS, "Executor uses shell")]


def test_a_deaf_relay_gets_the_newest_when_it_hears_again() -> None:
    """Nothing is queued for it: what it missed it gets in one."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        ears.is_deaf = True
        speaks.does(TYPING, is_writing=True)
        whisper = speaks.writes()
        for text in ("a", "ab", "abc"):
            whisper(text)
            await asyncio.sleep(1)
        ears.is_deaf = False
        await asyncio.sleep(1)

    assert play(scene).told == [(STARTS, TYPING), (TEXT, "abc")]


def test_long_work_is_told_again_for_who_comes_late() -> None:
    """Every 20 s while nothing else is; and no two of these are the same event."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        speaks.does("Executor uses shell", is_writing=False)
        await asyncio.sleep(3.5 * REFRESH)
        speaks.stop()

    ears = play(scene)
    assert [kind for kind, _ in ears.told] == [STARTS] * 4 + [STOPS]
    assert len({event.id for _, event in ears.heard}) == 5


def test_words_whispered_in_haste_never_starve() -> None:
    """A text that grows with every turn of the loop is told all the same."""

    async def scene(ears: Ears, speaks: RunIndicator) -> None:
        speaks.does(TYPING, is_writing=True)
        whisper = speaks.writes()
        await asyncio.sleep(1)
        for size in range(1, 50):
            whisper("x" * size)
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert ears.told[1][0] == TEXT

    play(scene)


def test_dates_count_up_and_stay_near() -> None:
    """Two of one second get two seconds, so that clients keep their order; but never far ahead."""

    async def main() -> None:
        channel = StatusChannel(Ears(), {}, [NEAR_RELAY], VirtualClock())
        now = VirtualClock().now() // 1000
        stamps = [channel.stamp(later=True) for _ in range(3)]
        assert stamps == [now, now + 1, now + 2]
        assert channel.stamp() == now + 2
        assert max(channel.stamp(later=True) for _ in range(200)) == now + LEAD

    run(main)


def test_a_fault_of_ours_stays_ours() -> None:
    """An address nobody expected, a key that is gone: the model that whispers does not notice."""

    async def main() -> None:
        ears = Ears()
        clock = VirtualClock()
        broken = EphemeralPublisher(speaker=KEY.public, address={"form": "notes"})
        keyless = StatusChannel(ears, {}, [NEAR_RELAY], clock)
        for speaks in (
            RunIndicator(broken, StatusChannel(ears, {KEY.public: KEY}, [NEAR_RELAY], clock)),
            RunIndicator(WHO, keyless),
        ):
            speaks.does(TYPING, is_writing=True)
            speaks.writes()("words")
            await asyncio.sleep(1)
            speaks.stop()
        assert ears.heard == []

    run(main)
