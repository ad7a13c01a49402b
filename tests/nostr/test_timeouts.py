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


@pytest.mark.parametrize(("outage", "within"), [(1.0, 4.0), (25.0, 4.0), (300.0, 43.0), (86_400.0, 60.0)])
def test_a_relay_that_comes_back_is_connected_to_soon(outage: float, within: float) -> None:
    assert max(back_after(outage, seed)[0] for seed in SEEDS) <= within


def test_a_relay_that_stays_away_is_not_pestered() -> None:
    assert max(back_after(3600.0, seed)[1] for seed in SEEDS) < 250


@pytest.mark.parametrize("served", [3.0, 15.0])
def test_a_relay_that_flaps_is_forgiven_once_it_has_served_for_a_while(served: float) -> None:
    for seed in SEEDS:
        now, pauses = 0.0, Reconnecting(TIMINGS, Random(seed), 0.0)
        waited = []
        for _ in range(50):
            now += served
            waited.append(pauses.lost(now, served))
            now += waited[-1]
        assert max(waited) <= TIMINGS.retry_soon


def test_a_relay_that_never_serves_is_connected_to_less_and_less_often() -> None:
    now, pauses = 0.0, Reconnecting(TIMINGS, Random(7), 0.0)
    waited = []
    for _ in range(100):
        now += 30.0
        waited.append(pauses.lost(now, served=0.0))
        now += waited[-1]
    assert max(waited[20:]) > 45


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
