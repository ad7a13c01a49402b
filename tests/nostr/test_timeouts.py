"""How long the client waits before it connects again."""

from random import Random

import pytest

from tenex.nostr.timeouts import Reconnecting, RelayTimeouts, clock_ahead

TIMINGS = RelayTimeouts()
SEEDS = range(100)


def back_after(outage: float, seed: int) -> tuple[float, int]:
    """Seconds from a relay's return to the next try, and the tries until then, after a connection of a day."""
    now, tries = 86_400.0, 0
    pauses = Reconnecting(TIMINGS, Random(seed), 0.0)
    back = now + outage
    now += pauses.lost(now, served=86_400.0)
    while now < back:
        tries += 1
        now += pauses.lost(now, served=0.0)
    return now - back, tries


@pytest.mark.parametrize(("outage", "within"), [(1.0, 4.0), (25.0, 4.0), (300.0, 43.0), (3600.0, 60.0)])
def test_a_relay_that_comes_back_is_connected_to_soon_and_not_pestered_before(outage: float, within: float) -> None:
    waits, tries = zip(*(back_after(outage, seed) for seed in SEEDS), strict=True)
    assert max(waits) <= within
    assert max(tries) < 250


def pauses(served: float, seed: int, number: int) -> list[float]:
    """Seconds before each next connection to a relay that serves for so long, or hangs up after 30 s."""
    now, reconnecting = 0.0, Reconnecting(TIMINGS, Random(seed), 0.0)
    waited: list[float] = []
    for _ in range(number):
        now += served or 30.0
        waited.append(reconnecting.lost(now, served))
        now += waited[-1]
    return waited


@pytest.mark.parametrize("served", [3.0, 15.0])
def test_a_relay_that_flaps_is_forgiven_once_it_has_served_for_a_while(served: float) -> None:
    assert max(max(pauses(served, seed, 50)) for seed in SEEDS) <= TIMINGS.retry_soon


def test_a_relay_that_never_serves_is_connected_to_less_and_less_often() -> None:
    assert max(pauses(0.0, 7, 100)[20:]) > 45


HOUR = 3600.0


@pytest.mark.parametrize(
    ("readings", "ahead"),
    [
        ([], None),
        ([HOUR / 2], None),  # one relay may be wrong itself
        ([2 * HOUR], 2 * HOUR),
        ([-2 * HOUR], -2 * HOUR),
        ([HOUR / 2, HOUR], HOUR / 2),
        ([HOUR, 2.0], None),
        ([2 * HOUR, -2 * HOUR], None),
        ([60.0, 30.0], None),
    ],
)
def test_our_clock_is_wrong_where_no_relay_agrees_with_it(readings: list[float], ahead: float | None) -> None:
    assert clock_ahead(readings) == ahead
