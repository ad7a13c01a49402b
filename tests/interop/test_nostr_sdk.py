"""A client built on nostr-sdk converses in notes, the form every client writes and shows."""

import json
from pathlib import Path

import nostr_sdk as sdk
import pytest

from .answers import (
    CYCLE,
    check_order,
    check_transitions,
    closed,
    is_complete,
    is_confirmation,
    marked,
    notified,
    parent_of,
    phases,
    root_of,
    value,
)
from .daemons import Opening, in_process, reopened
from .person import owned, person

HELLO = "Create hello.py that prints hello"


async def test_a_whole_conversation_and_a_second_cycle(opened: Opening, relay: str, tmp_path: Path) -> None:
    async with owned(opened, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.write(HELLO, ["p", daemon.project])
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(closed())
        await daemon.ended(root)
        first = list(alice.received)
        last = first[-1]
        reply = await alice.write(
            "Create bye.py that prints bye",
            ["e", root, relay, "root", alice.pubkey],
            ["e", last["id"], relay, "reply", last["pubkey"]],
            ["p", last["pubkey"]],
        )
        await alice.until(closed(2))
        await daemon.ended(root, 2)
        second = alice.received[len(first) :]

        assert phases(first) == phases(second) == CYCLE
        check_transitions(first)
        check_transitions(second)
        check_order(alice.received)
        for answer in first + second:
            assert marked(answer, "root") == ["e", root, relay, "root", alice.pubkey]
            assert ["l", "ai", "agent"] in answer["tags"]
            assert (alice.pubkey in notified(answer)) is not is_confirmation(answer)
            assert answer["pubkey"] in daemon.agent_keys
            assert answer["pubkey"] not in notified(answer), "it calls itself"
        assert [marked(answer, "reply") for answer in first] == [None] * len(first)
        assert {tuple(marked(answer, "reply") or ()) for answer in second} == {
            ("e", reply, relay, "reply", alice.pubkey)
        }
        assert {answer["id"] for answer in await alice.fetch(kinds=[1], authors=sorted(daemon.agent_keys))} == {
            answer["id"] for answer in alice.received
        }
        assert (daemon.workspace / "hello.py").read_text() == 'print("hello")\n'
        assert (daemon.workspace / "bye.py").read_text() == 'print("bye")\n'


async def test_every_key_publishes_a_profile_and_a_relay_list(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data") as (daemon, _), person(relay) as bob:
        parsed = await bob.fetch(kinds=[0, 10002], authors=sorted(daemon.agent_keys))
        assert len(daemon.agent_keys) == 5
        assert {(event["kind"], event["pubkey"]) for event in parsed} == {
            (kind, key) for kind in (0, 10002) for key in daemon.agent_keys
        }
        assert len(parsed) == 2 * 5
        for event in parsed:
            if event["kind"] == 10002:
                assert event["tags"] == [["r", relay]]
            else:
                profile = sdk.Metadata.from_json(event["content"]).as_record()
                named = {key: slug for slug, key in daemon.agents.items()}.get(event["pubkey"])
                assert profile.name
                assert named in (None, profile.name.lower().replace(" ", "-"))
                assert profile.about
                assert json.loads(event["content"])["bot"] is True


@pytest.mark.parametrize("is_marked", [True, False], ids=["with markers", "the old convention"])
async def test_a_reply_without_p_tags_is_received_in_its_thread(relay: str, tmp_path: Path, is_marked: bool) -> None:
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.write("Hello there", ["p", daemon.project])
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(lambda received: any(map(is_complete, received)))
        await daemon.until(root, lambda view: view.get("status") == "waiting")
        answer = alice.received[-1]
        assert (phases(alice.received), answer["pubkey"]) == (["chat"], daemon.agents["project-manager"])
        markers = [["", "root"], ["", "reply"]] if is_marked else [[], []]
        reply = await alice.write(HELLO, ["e", root, *markers[0]], ["e", answer["id"], *markers[1]])
        await alice.until(closed())
        await daemon.ended(root)
        assert phases(alice.received) == ["chat", *CYCLE]
        check_transitions(alice.received)
        check_order(alice.received)
        assert {root_of(answer) for answer in alice.received} == {root}
        assert [parent_of(answer) for answer in alice.received] == [root, *[reply] * len(CYCLE)]


async def test_a_mention_in_the_text_goes_straight_to_the_agent(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        executor = daemon.agents["executor"]
        uri = sdk.PublicKey.parse(executor).to_nostr_uri()
        named = await alice.write(f"{uri} Hello there", ["p", executor])
        only_tagged = await alice.write("Hello there", ["p", executor])
        await alice.listen(kinds=[1], _e=[named, only_tagged])
        await alice.until(lambda received: sum(map(is_complete, received)) == 2)
        spoke = {root_of(answer): answer["pubkey"] for answer in alice.received}
        assert spoke == {named: executor, only_tagged: daemon.agents["project-manager"]}


async def test_a_reply_to_an_agents_question_answers_it(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.write(
            "Create a script that prints hello; ask me which name it should have", ["p", daemon.project]
        )
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(len)
        question = alice.received[0]
        assert question["pubkey"] == daemon.agents["executor"]
        assert "name" in question["content"]
        assert not is_complete(question)
        assert not list(daemon.workspace.iterdir()), "it did not wait for the answer"
        await alice.write("greet.py", ["e", root, relay, "root"], ["e", question["id"], relay, "reply"])
        await alice.until(closed())
        await daemon.ended(root)
        assert phases(alice.received) == CYCLE
        assert [path.name for path in daemon.workspace.iterdir()] == ["greet.py"]


async def test_three_conversations_at_once(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        roots = [await alice.write(f"Create {name}.py that prints {name}", ["p", daemon.project]) for name in "abc"]
        await alice.listen(kinds=[1], _e=roots)
        await alice.until(closed(3))
        for root in roots:
            thread = [answer for answer in alice.received if root_of(answer) == root]
            assert phases(thread) == CYCLE
            check_order(thread)
        assert len(alice.received) == 3 * len(CYCLE)
        assert {value(answer, "phase") for answer in alice.received} == set(CYCLE)


def commented(root: str, parent: str, parent_kind: int, *author: str) -> list[list[str]]:
    """The tags of a comment under a note (NIP-22); nostr-sdk has no builder for them."""
    return [["E", root], ["K", "1"], ["e", parent], ["k", str(parent_kind)], *(["p", key] for key in author)]


async def test_a_comment_whose_note_arrives_later_joins_it(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        note = alice.event(1, "Hello there", ["p", daemon.project])
        root = str(note.id().to_hex())
        await alice.listen(kinds=[1111], _E=[root])
        asked = await alice.write(HELLO, *commented(root, root, 1), kind=1111)
        await alice.publish(note)
        await alice.until(closed())
        await daemon.ended(root)
        assert phases(alice.received) == CYCLE
        assert {(value(answer, "E"), value(answer, "e")) for answer in alice.received} == {(root, asked)}


async def test_a_comment_written_while_the_daemon_is_away_is_answered_after_a_restart(
    relay: str, tmp_path: Path
) -> None:
    """It has no p tag: only the thread's own subscription asks for it."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.write("Hello there", ["p", daemon.project])
        await alice.listen(kinds=[1], _p=[alice.pubkey])
        await alice.until(len)
        await daemon.until(root, lambda view: view.get("status") == "waiting")
        keys = alice.keys
    async with person(relay, keys) as alice:
        asked = await alice.write(HELLO, *commented(root, root, 1), kind=1111)
        await alice.listen(kinds=[1111], _E=[root])
        async with reopened(daemon):
            await alice.until(closed())
        assert {(answer["kind"], value(answer, "e")) for answer in alice.received} == {(1111, asked)}
