"""A client built on nostr-sdk converses in notes, the form every client writes and shows."""

import json
from pathlib import Path

import nostr_sdk as sdk

from .answers import (
    CYCLE,
    Answer,
    check_order,
    check_transitions,
    closed,
    is_complete,
    marked,
    parent_of,
    phases,
    root_of,
    tags,
    value,
)
from .daemons import Daemon, Opening, in_process
from .person import Person, owned, person

HELLO = "Create hello.py that prints hello"


async def test_a_whole_conversation_and_a_second_cycle(opened: Opening, relay: str, tmp_path: Path) -> None:
    """A note goes through every phase to END; a reply to the last answer begins the next cycle in the same thread."""
    async with owned(opened, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.say(HELLO, ["p", daemon.project])
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(closed())
        await daemon.ended(root)
        first = list(alice.heard)
        last = first[-1]
        reply = await alice.say(
            "Create bye.py that prints bye",
            ["e", root, relay, "root", alice.pubkey],
            ["e", last["id"], relay, "reply", last["pubkey"]],
            ["p", last["pubkey"]],
        )
        await alice.until(closed(2))
        await daemon.ended(root, 2)
        second = alice.heard[len(first) :]

        assert phases(first) == phases(second) == CYCLE
        check_transitions(first)
        check_transitions(second)
        check_order(alice.heard)
        await _are_known_agents(alice, daemon, first + second)
        for answer in first + second:
            assert marked(answer, "root") == ["e", root, relay, "root", alice.pubkey]
            assert ["l", "ai", "agent"] in answer["tags"]
            assert alice.pubkey in [tag[1] for tag in tags(answer, "p")]
            assert answer["pubkey"] not in [tag[1] for tag in tags(answer, "p")], "it calls itself"
        assert [marked(answer, "reply") for answer in first] == [None] * len(first)
        assert {tuple(marked(answer, "reply") or ()) for answer in second} == {
            ("e", reply, relay, "reply", alice.pubkey)
        }
        assert {answer["id"] for answer in await alice.fetch(kinds=[1], authors=sorted(daemon.voices))} == {
            answer["id"] for answer in alice.heard
        }
        assert (daemon.workspace / "hello.py").read_text() == 'print("hello")\n'
        assert (daemon.workspace / "bye.py").read_text() == 'print("bye")\n'


async def _are_known_agents(alice: Person, daemon: Daemon, answers: list[Answer]) -> None:
    """Who spoke is an agent of ours, whose profile on the relay says so, and that it is a bot."""
    names = {key: slug for slug, key in daemon.agents.items()}
    authors = {answer["pubkey"] for answer in answers}
    assert authors <= names.keys()
    for profile in await alice.fetch(kinds=[0], authors=sorted(authors)):
        told = json.loads(profile["content"])
        assert told["name"].lower().replace(" ", "-") == names[profile["pubkey"]]
        assert told["bot"] is True
        authors.remove(profile["pubkey"])
    assert not authors, "some have no profile"


async def test_every_key_says_who_it_is_and_where_it_reads(relay: str, tmp_path: Path) -> None:
    """Each key has one kind 0 and one kind 10002, which names the relay a person has to write to."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, _), person(relay) as bob:
        told = await bob.fetch(kinds=[0, 10002], authors=sorted(daemon.voices))
        assert len(daemon.voices) == 5
        assert {(event["kind"], event["pubkey"]) for event in told} == {
            (kind, key) for kind in (0, 10002) for key in daemon.voices
        }
        assert len(told) == 2 * 5
        for event in told:
            if event["kind"] == 10002:
                assert event["tags"] == [["r", relay]]
            else:
                profile = sdk.Metadata.from_json(event["content"]).as_record()
                assert profile.name
                assert profile.about
                assert json.loads(event["content"])["bot"] is True


async def test_a_client_that_drops_the_p_tags_is_heard_in_the_thread(relay: str, tmp_path: Path) -> None:
    """A reply that names nobody, neither in tags nor in the text, goes on with the conversation it stands in."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.say("Hello there", ["p", daemon.project])
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(lambda heard: any(map(is_complete, heard)))
        await daemon.until(root, lambda view: view.get("status") == "waiting")
        answer = alice.heard[-1]
        assert (phases(alice.heard), answer["pubkey"]) == (["chat"], daemon.agents["project-manager"])
        await alice.say(HELLO, ["e", root, "", "root"], ["e", answer["id"], "", "reply"])
        await alice.until(closed())
        await daemon.ended(root)
        assert phases(alice.heard) == ["chat", *CYCLE]
        check_transitions(alice.heard)
        check_order(alice.heard)
        assert {root_of(answer) for answer in alice.heard} == {root}


async def test_a_client_of_the_old_convention_is_heard_in_the_thread(relay: str, tmp_path: Path) -> None:
    """Without markers the first e tag is the root and the last the parent."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.say("Hello there", ["p", daemon.project])
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(lambda heard: any(map(is_complete, heard)))
        reply = await alice.say(HELLO, ["e", root], ["e", alice.heard[-1]["id"]])
        await alice.until(closed())
        assert [root_of(answer) for answer in alice.heard] == [root] * 5
        assert [parent_of(answer) for answer in alice.heard] == [root, *[reply] * 4]


async def test_a_mention_in_the_text_goes_straight_to_the_agent(relay: str, tmp_path: Path) -> None:
    """Who is named in the text answers; p tags alone, which clients add by themselves, leave it to the orchestrator."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        executor = daemon.agents["executor"]
        uri = sdk.PublicKey.parse(executor).to_nostr_uri()
        named = await alice.say(f"{uri} Hello there", ["p", executor])
        only_tagged = await alice.say("Hello there", ["p", executor])
        await alice.listen(kinds=[1], _e=[named, only_tagged])
        await alice.until(lambda heard: sum(map(is_complete, heard)) == 2)
        spoke = {root_of(answer): answer["pubkey"] for answer in alice.heard}
        assert spoke == {named: executor, only_tagged: daemon.agents["project-manager"]}


async def test_a_reply_to_an_agents_question_answers_it(relay: str, tmp_path: Path) -> None:
    """The agent that asked goes on with what it was told, in the phase and the turn in which it asked."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        root = await alice.say(
            "Create a script that prints hello; ask me which name it should have", ["p", daemon.project]
        )
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(len)
        question = alice.heard[0]
        assert question["pubkey"] == daemon.agents["executor"]
        assert "name" in question["content"]
        assert not is_complete(question)
        assert not list(daemon.workspace.iterdir()), "it did not wait for the answer"
        await alice.say("greet.py", ["e", root, relay, "root"], ["e", question["id"], relay, "reply"])
        await alice.until(closed())
        await daemon.ended(root)
        assert phases(alice.heard) == CYCLE
        assert [path.name for path in daemon.workspace.iterdir()] == ["greet.py"]


async def test_three_conversations_at_once(relay: str, tmp_path: Path) -> None:
    """Each thread gets its own answers, all of them, in order."""
    async with owned(in_process, relay, tmp_path / "data") as (daemon, alice):
        roots = [await alice.say(f"Create {name}.py that prints {name}", ["p", daemon.project]) for name in "abc"]
        await alice.listen(kinds=[1], _e=roots)
        await alice.until(closed(3))
        for root in roots:
            thread = [answer for answer in alice.heard if root_of(answer) == root]
            assert phases(thread) == CYCLE
            check_order(thread)
        assert len(alice.heard) == 3 * len(CYCLE)
        assert {value(answer, "phase") for answer in alice.heard} == set(CYCLE)
