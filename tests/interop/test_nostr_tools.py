"""A client built on nostr-tools converses in threads and in notes; its own parsers place the answers."""

from pathlib import Path

import nostr_sdk as sdk
import pytest

from tenex.core import records as r
from tests.fakes.modelscripts import Team
from tests.kits.daemon_approvals import COMMAND, UNCONFINED, runs
from tests.kits.direct_messages import listening
from tests.service.kit import of_kind
from tests.service.loopback import at_work
from tests.service.person import until

from .answers import CYCLE, check_order, check_transitions, closed, is_confirmation, notified, phases, value
from .daemons import Opening, in_process
from .scripts import Output, owned, script

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("javascript")]

CLIENT = "nostr-tools.mjs"
HELLO = "Create hello.py that prints hello"


async def test_a_thread_from_its_root_to_the_end_and_on_by_a_nested_comment(
    opened: Opening, relay: str, tmp_path: Path
) -> None:
    async with owned(opened, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        thread = await alice.write(HELLO, ["title", "A first program"], ["p", daemon.project], kind=11)
        root = thread["id"]
        await alice.listen(kinds=[1111], _E=[root])
        await alice.until(closed())
        await daemon.ended(root)
        assert phases(alice.received) == CYCLE
        check_transitions(alice.received)
        assert daemon.view(root)["title"] == "A first program"
        first, last = len(alice.received), alice.received[-1]
        await alice.write(
            "Create bye.py that prints bye",
            ["E", root, relay, alice.pubkey],
            ["K", "11"],
            ["P", alice.pubkey, relay],
            ["e", last["id"], relay, last["pubkey"]],
            ["k", "1111"],
            ["p", last["pubkey"], relay],
            kind=1111,
        )
        await alice.until(closed(2))
        await daemon.ended(root, 2)
        assert phases(alice.received[first:]) == CYCLE
        check_order(alice.received)
        for output in alice.outputs:
            _is_a_child_of_the_root(output, root, alice.pubkey, relay)
        assert {answer["pubkey"] for answer in alice.received} <= daemon.agent_keys
        assert sorted(path.name for path in daemon.workspace.iterdir()) == ["bye.py", "hello.py"]


async def test_a_comment_without_p_tags_is_received_in_its_thread(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        thread = await alice.write("Hello there", ["title", "Hello"], ["p", daemon.project], kind=11)
        root = thread["id"]
        await alice.listen(kinds=[1111], _E=[root])
        await alice.until(len)
        await daemon.until(root, lambda view: view.get("status") == "waiting")
        await alice.write(HELLO, ["E", root], ["K", "11"], ["e", root], ["k", "11"], kind=1111)
        await alice.until(closed())
        assert phases(alice.received) == ["chat", *CYCLE]
        for output in alice.outputs:
            _is_a_child_of_the_root(output, root, alice.pubkey, relay)


async def test_notes_carry_the_tags_nip10_asks_for(relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        root = (await alice.write(HELLO, ["p", daemon.project]))["id"]
        await alice.listen(kinds=[1], _e=[root])
        await alice.until(closed())
        await daemon.ended(root)
        first, last = len(alice.received), alice.received[-1]
        reply = await alice.write(
            "Create bye.py that prints bye", ["e", root, relay, "root"], ["e", last["id"], relay, "reply"]
        )
        await alice.until(closed(2))
        assert phases(alice.received[:first]) == phases(alice.received[first:]) == CYCLE
        check_order(alice.received)
        for number, output in enumerate(alice.outputs):
            assert output["verified"] is True
            parent = root if number < first else reply["id"]
            parsed = output["nip10"]
            assert parsed["root"] == {"id": root, "relays": [relay], "author": alice.pubkey}
            assert parsed["reply"] == {"id": parent, "relays": [relay], "author": alice.pubkey}
            assert parsed["mentions"] == parsed["quotes"] == []
            called = [profile["pubkey"] for profile in parsed["profiles"]]
            assert called == ([] if is_confirmation(output["heard"]) else [alice.pubkey])


async def test_a_comment_on_a_note_is_answered_by_comments_and_a_note_in_between_by_notes(
    relay: str, tmp_path: Path
) -> None:
    async with owned(in_process, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        root = (await alice.write("Hello there", ["p", daemon.project]))["id"]
        await alice.listen(kinds=[1], _e=[root])
        await alice.listen(kinds=[1111], _E=[root])
        await alice.until(len)
        await daemon.until(root, lambda view: view.get("status") == "waiting")
        asked = await alice.write(
            HELLO,
            ["E", root, relay, alice.pubkey],
            ["K", "1"],
            ["P", alice.pubkey, relay],
            ["e", root, relay, alice.pubkey],
            ["k", "1"],
            ["p", alice.pubkey, relay],
            kind=1111,
        )
        await alice.until(closed())
        await daemon.ended(root)
        comments = alice.outputs[1:]
        for output in comments:
            parsed = output["nip22"]
            assert (output["verified"], output["heard"]["kind"]) == (True, 1111)
            assert parsed["root"] == {"id": root, "relays": [relay], "author": alice.pubkey}
            assert parsed["reply"] == {"id": asked["id"], "relays": [relay], "author": alice.pubkey}
            assert (parsed["rootKind"], parsed["replyKind"]) == (1, 1111)
        last = comments[-1]["heard"]
        note = await alice.write(
            "Create bye.py that prints bye", ["e", root, relay, "root"], ["e", last["id"], relay, "reply"]
        )
        await alice.until(closed(2))
        for output in alice.outputs[1 + len(comments) :]:
            assert output["heard"]["kind"] == 1
            assert (output["nip10"]["root"]["id"], output["nip10"]["reply"]["id"]) == (root, note["id"])


async def test_comments_on_a_page_an_article_and_a_poll_are_answered_under_the_same_root(
    relay: str, tmp_path: Path
) -> None:
    async with owned(in_process, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        await alice.listen(kinds=[1111], _p=[alice.pubkey])
        url = "https://example.com/herons"
        to_us = ["p", daemon.project]
        on_page = await alice.write("Hello there", ["I", url], ["K", "web"], ["i", url], ["k", "web"], to_us, kind=1111)
        await alice.until(len)
        address = f"30023:{alice.pubkey}:herons"
        scope = (["A", address, relay], ["K", "30023"], ["P", alice.pubkey])
        on_article = await alice.write("Hello there", *scope, ["a", address], ["k", "30023"], to_us, kind=1111)
        await alice.until(lambda received: len(received) == 2)
        poll = await alice.write("Which bird?", ["option", "a", "Heron"], kind=1068)
        on = (["E", poll["id"], relay, alice.pubkey], ["K", "1068"], ["P", alice.pubkey])
        link = (["e", poll["id"], relay, alice.pubkey], ["k", "1068"])
        on_poll = await alice.write("Hello there", *on, *link, to_us, kind=1111)
        await alice.until(lambda received: len(received) == 3)
        page, article, third = (output["nip22"] for output in alice.outputs)
        assert third["root"] == {"id": poll["id"], "relays": [relay], "author": alice.pubkey}
        assert third["rootKind"] == 1068
        assert page["root"]["value"] == url
        assert (article["root"]["kind"], article["root"]["identifier"]) == (30023, "herons")
        for parsed, asked in ((page, on_page), (article, on_article), (third, on_poll)):
            assert parsed["reply"] == {"id": asked["id"], "relays": [relay], "author": alice.pubkey}
            assert parsed["replyKind"] == 1111
        assert all(output["verified"] for output in alice.outputs)


@pytest.mark.parametrize(("kind", "inner"), [(1059, 14), (4, 4)])
async def test_a_conversation_in_direct_messages(kind: int, inner: int, relay: str, tmp_path: Path) -> None:
    async with owned(in_process, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        await alice.listen(kinds=[kind], _p=[alice.pubkey])
        await alice.do("write_to", kind=kind, to=daemon.project, content=HELLO)
        await alice.until(lambda _: any("hello.py" in output["opened"]["content"] for output in alice.outputs))
        for output in alice.outputs:
            opened = output["opened"]
            assert output["verified"] is True
            assert (opened["kind"], opened["pubkey"]) == (inner, daemon.project)
            assert ["p", alice.pubkey] in opened["tags"]
    assert (daemon.workspace / "hello.py").read_text() == 'print("hello")\n'


async def test_a_reaction_and_a_deletion_in_wraps(relay: str, tmp_path: Path) -> None:
    """A message is taken back, work goes on by a thumb, and ends when its request is deleted."""
    async with at_work(tmp_path, relay, Team(worker=runs(f"{COMMAND}; sleep 60")), UNCONFINED) as (folder, _):
        secret = sdk.SecretKey.parse(folder.owner.nsec).to_hex()
        project = folder.project.public
        await listening(folder)
        async with script(CLIENT, relay, secret) as alice:
            await alice.listen(kinds=[1059], _p=[alice.pubkey])

            async def write(text: str, *tags: list[str], kind: int = 14) -> str:
                rumor = await alice.do("write_wrapped", kind=kind, to=project, content=text, tags=list(tags))
                return str(rumor["id"])

            name = await write("Publish it")
            await alice.until(len)
            asks = alice.outputs[0]["opened"]
            assert "Allow " in asks["content"]
            mistaken = await write("A mistake")
            await until(lambda: len(of_kind(folder.records(name), r.MessageRecorded)) == 2)
            await write("", ["e", mistaken], ["k", "14"], kind=5)
            (gone,) = await until(lambda: of_kind(folder.records(name), r.MessageWithdrawn))
            assert gone.message == of_kind(folder.records(name), r.MessageRecorded)[1].seq
            await write("👍", ["e", asks["id"]], ["k", "14"], kind=7)
            (given,) = await until(lambda: of_kind(folder.records(name), r.ApprovalAnswered))
            assert (given.outcome, given.by) == ("yes", alice.pubkey)
            await until((folder.workspace / "ran.txt").exists)
            await write("", ["e", name], ["k", "14"], kind=5)
            await alice.until(lambda _: any("You deleted" in output["opened"]["content"] for output in alice.outputs))
            assert of_kind(folder.records(name), r.Stopped)


def _is_a_child_of_the_root(output: Output, root: str, person: str, relay: str) -> None:
    """A genuine comment, whose root and parent are the kind 11, for the one who asked."""
    answer, parsed = output["heard"], output["nip22"]
    assert output["verified"] is True
    assert answer["kind"] == 1111
    assert parsed["root"] == parsed["reply"] == {"id": root, "relays": [relay], "author": person}
    assert (parsed["rootKind"], parsed["replyKind"]) == (11, 11)
    assert parsed["mentions"] == parsed["quotes"] == []
    assert {profile["pubkey"] for profile in parsed["profiles"]} == {person}
    assert value(answer, "phase")
    assert value(answer, "E") == value(answer, "e") == root
    assert notified(answer) == ([] if is_confirmation(answer) else [person])
