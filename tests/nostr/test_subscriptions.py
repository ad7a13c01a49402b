"""What is listened for: threads join one of a few REQs, and the past of each is read from its beginning."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tenex.core.signals import InboundMessage
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import SecretKey
from tenex.nostr.subscriptions import BEFORE, FIRST, FOLLOWED, OVERLAP, PER_REQ, RECENT, Listener
from tenex.nostr.threading import KINDS, PUBLIC, SCHEMES
from tenex.nostr.threading.base import ThreadingScheme
from tenex.nostr.threading.comments import COMMENT

from .kit import ALICE, BOB, NOW, OURS, PROJECT, RELAY, answer, note, pool, read, running, written


class Asked:
    """A pool that records what is subscribed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[dict[str, Any]], int | None]] = []
        self.wanted: dict[str, list[str]] = {}

    def subscribe(self, name: str, filters: list[dict[str, Any]], since: int | None) -> None:
        self.calls.append((name, filters, since))
        if "#e" in filters[0]:
            self.wanted[name] = filters[0]["#e"]


def listener(
    relays: Any, receive: Callable[[InboundMessage], object] = lambda message: None, people: Sequence[SecretKey] = ()
) -> Listener:
    keys = [key.public for key in people]
    return Listener(relays, [BOB.public], {}, None, receive, now=lambda: float(NOW), people=keys)


def root(number: int) -> str:
    return f"{number:064x}"


def test_the_backlog_begins_before_our_last_time_of_receipt_and_in_a_first_life_just_before_now() -> None:
    asked, first = Asked(), Asked()
    listener(asked).start(NOW - 5000, [root(1)])
    assert {since for _, _, since in asked.calls} == {NOW - 5000 - OVERLAP}
    listener(first).start(None)
    assert [(name, since) for name, _, since in first.calls] == [("addressed", NOW - FIRST)]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_what_a_threading_scheme_reads_and_writes_is_subscribed_to(scheme: ThreadingScheme) -> None:
    """Answers to us in each of its kinds; and in our threads, where relays have the events as they are read."""
    asked = Asked()
    listener(asked).start(NOW, [root(1)])
    filters = [each for _, wanted, _ in asked.calls for each in wanted]
    for tag in ("#p", "#e") if scheme in PUBLIC else ("#p",):
        subscribed = {kind for each in filters if tag in each for kind in each["kinds"]}
        assert set(scheme.kinds) <= subscribed


@pytest.mark.parametrize("scheme", PUBLIC, ids=lambda scheme: scheme.name)
def test_a_threading_scheme_reads_and_writes_the_kinds_that_it_names(scheme: ThreadingScheme) -> None:
    read_kinds: set[int] = set()
    for kind, root in itertools.product(KINDS, ("1", "11", "30023")):
        tags = [["E", "e" * 64], ["K", root], ["e", "e" * 64], ["k", root]] if kind == COMMENT else []
        event = written(["p", PROJECT.public], *tags, kind=kind)
        if scheme.read(event, OURS, {}, RELAY, None) is not None:
            asked = read(event)
            read_kinds |= {kind, *(sealed.kind for sealed in scheme.seal(answer(asked, asked), ()))}
    assert read_kinds == set(scheme.kinds)


def test_a_thread_is_read_once_from_its_first_message_on() -> None:
    asked = Asked()
    subscriber = listener(asked)
    subscriber.follow(root(1), NOW - 1300)
    subscriber.follow(root(2), NOW - 10)
    subscriber.follow(root(3))
    subscriber.follow(root(4), 5)
    subscriber.follow(root(1), 5)  # followed already
    assert [since for _, _, since in asked.calls] == [NOW - 1300 - BEFORE, NOW - RECENT, NOW - RECENT, 0]


def test_one_req_changes_with_each_new_thread_and_the_oldest_hundred_make_room() -> None:
    asked = Asked()
    subscriber = listener(asked)
    subscriber.start(NOW, [root(n) for n in range(FOLLOWED - 1)])
    subscriber.follow(root(1), NOW)  # followed already
    for number in range(FOLLOWED - 1, FOLLOWED + PER_REQ + 1):
        before = dict(asked.wanted)
        subscriber.follow(root(number), NOW)
        assert sum(asked.wanted[name] != before.get(name) for name in asked.wanted) == 1
    assert len(asked.calls) == 1 + FOLLOWED // PER_REQ + PER_REQ + 2
    assert len(asked.wanted) == FOLLOWED // PER_REQ
    followed = [each for roots in asked.wanted.values() for each in roots]
    # the second hundred went when the 601st root came
    assert sorted(followed) == [root(n) for n in range(2 * PER_REQ, FOLLOWED + PER_REQ + 1)]


async def test_an_answer_without_our_p_tag_is_received_after_its_thread() -> None:
    """Both were written 20 minutes ago; the thread is known only when its first message has been taken."""
    got: asyncio.Queue[InboundMessage] = asyncio.Queue()
    opening = note("hello", at=NOW - 1300, tags=[["p", BOB.public]])
    answer = note("and now build it", at=NOW - 1200, tags=[["e", opening.id, "", "root"], ["p", ALICE.public]])

    def receive(message: InboundMessage) -> None:
        got.put_nowait(message)
        subscriber.follow(message.conversation, message.created_at)

    async with embedded_relay() as url:
        async with running(pool(url)) as speaker:
            for event in (opening, answer):
                assert (await speaker.publish(event, url)).accepted
        relays = pool(url, on_event=lambda event, relay: subscriber.on_event(event, relay))
        subscriber = listener(relays, receive)
        subscriber.start(NOW - 2000)
        async with running(relays):
            messages = [await asyncio.wait_for(got.get(), 5) for _ in range(2)]
    assert [message.event_id for message in messages] == [opening.id, answer.id]


def test_another_project_is_listened_to_at_once() -> None:
    asked = Asked()
    subscriber = listener(asked, people=[ALICE])
    subscriber.start(None)
    for project in ("31933:x:demo", "31933:x:demo", ""):
        subscriber.change([BOB.public], {}, [ALICE.public], project)
    named = [[wanted["kinds"] for wanted in filters if "#a" in wanted] for _, filters, _ in asked.calls]
    assert named == [[], [[11], [24134]], []]


def test_notes_of_our_people_are_read_for_who_they_name_in_their_text() -> None:
    asked = Asked()
    subscriber = listener(asked, people=[ALICE])
    subscriber.start(None)
    assert {"kinds": [kind for kind in KINDS if kind != COMMENT], "authors": [ALICE.public]} in asked.calls[0][1]
    for _ in range(2):  # the second change is none
        subscriber.change([BOB.public], {}, [])
        assert len(asked.calls) == 2
    assert all("authors" not in wanted for wanted in asked.calls[-1][1])
    assert asked.calls[-1][2] == NOW - FIRST, "what was written just before is for them too"
