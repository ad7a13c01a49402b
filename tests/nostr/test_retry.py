"""What a refusal means, and how long to wait after it."""

import asyncio
from random import Random

import pytest

from tenex.core.backoff import Backoff
from tenex.nostr.retry import Authenticate, ReasonAction, RetryPolicy, printable, read_answer
from tenex.nostr.timeouts import TokenBucket
from tests.fakes.virtual import virtual_time

from .kit import FAST


@pytest.mark.parametrize(
    ("text", "prefix", "advice"),
    [
        ("duplicate: have it", "duplicate", ReasonAction.HAVE),
        ("auth-required: who are you", "auth-required", ReasonAction.AUTH),
        ("rate-limited: slow down", "rate-limited", ReasonAction.SLOWER),
        ("error: could not save", "error", ReasonAction.AGAIN),
        ("", "", ReasonAction.AGAIN),
        ("bad day", "", ReasonAction.AGAIN),
        ("note: something", "", ReasonAction.AGAIN),
        ("pow: 20 bits", "pow", ReasonAction.FINAL),
        ("invalid: kind", "invalid", ReasonAction.FINAL),
        ("blocked: you", "blocked", ReasonAction.FINAL),
        ("restricted: members", "restricted", ReasonAction.FINAL),
        ("unsupported: filter", "unsupported", ReasonAction.FINAL),
        ("mute: you", "mute", ReasonAction.FINAL),
    ],
)
def test_a_prefix_determines_the_action(text: str, prefix: str, advice: ReasonAction) -> None:
    answer = read_answer(text)
    assert (answer.prefix, answer.action, answer.text) == (prefix, advice, text)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("rate-limited: retry in 7s", 7),
        ("rate-limited: wait 12 seconds", 12),
        ("rate-limited: in 9000 s", 600),
        ("rate-limited:", None),
    ],
)
def test_a_relay_may_give_the_seconds_to_wait(text: str, wait: float | None) -> None:
    assert read_answer(text).wait == wait


def test_a_relays_text_is_made_fit_for_a_log() -> None:
    assert printable("a\x1b[31m\nb" + "x" * 300) == "a [31m b" + "x" * 192


def test_pauses_double_to_the_ceiling_with_full_jitter() -> None:
    backoff = Backoff(0.25, 60, Random(1).uniform)
    for ceiling in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60):
        assert 0 <= backoff.next() <= ceiling
    backoff.reset()
    assert max(Backoff(0.25, 60, Random(seed).uniform).next() for seed in range(200)) > 0.2
    assert min(Backoff(0.25, 60, Random(seed).uniform).next() for seed in range(200)) < 0.05
    assert backoff.next() <= 0.25


def test_a_pace_never_exceeds_its_rate_and_loses_nothing() -> None:
    """6,000 frames asked for at once: at 90 a second the relay that resets at 6,001 a minute never sees so many."""
    pace = TokenBucket(90, 0.0)
    due = [pace.take(0.0) for _ in range(6000)]
    assert due[:90] == [0.0] * 90
    assert due == sorted(due)
    for start in range(0, 6000, 500):
        within = sum(1 for at in due if due[start] <= at < due[start] + 60)
        assert within <= 90 * 60 + 90


def test_a_pace_refills_while_nothing_is_sent() -> None:
    pace = TokenBucket(10, 0.0)
    assert [pace.take(0.0) for _ in range(11)][-1] == pytest.approx(0.1)
    assert [pace.take(5.0) for _ in range(10)] == [0.0] * 10
    assert pace.take(5.0) > 0


def authenticate(answer: str) -> Authenticate:
    async def call() -> str:
        return answer

    return call


async def test_after_two_accepted_auths_a_relay_that_asks_again_means_no() -> None:
    policy, answer = RetryPolicy(FAST, Random(1)), read_answer("auth-required: please")
    assert [await policy.wait(answer, authenticate("")) for _ in range(2)] == ["", ""]
    assert "accepted the AUTH" in await policy.wait(answer, authenticate(""))


async def test_a_refused_auth_is_final_and_gives_the_reason() -> None:
    answer = read_answer("auth-required: please")
    why = await RetryPolicy(FAST, Random(1)).wait(answer, authenticate("restricted: not a member"))
    assert why == "auth-required: please (restricted: not a member)"


@virtual_time
async def test_the_wait_a_relay_asks_for_is_kept() -> None:
    answer = read_answer("rate-limited: 60s")
    assert await RetryPolicy(FAST, Random(1)).wait(answer, authenticate("unasked")) == ""
    assert asyncio.get_running_loop().time() >= 60
