"""A client built on NDK converses: what it sends after its first message is made by NDK's own reply()."""

from pathlib import Path

import pytest

from .answers import (
    CYCLE,
    check_order,
    check_transitions,
    closed,
    is_confirmation,
    notified,
    parent_of,
    phases,
    root_of,
    value,
)
from .daemons import Opening
from .scripts import owned

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("javascript")]

CLIENT = "ndk.mjs"
HELLO = "Create hello.py that prints hello"
NEXT = {1: "Create bye.py that prints bye", 2: "Create again.py that prints again"}


@pytest.mark.parametrize("kind", [1, 11], ids=["notes", "a thread"])
async def test_replies_to_our_answers_go_on(opened: Opening, kind: int, relay: str, tmp_path: Path) -> None:
    async with owned(opened, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        begun = await alice.write(
            HELLO, ["p", daemon.project], *([["title", "Hello"]] if kind == 11 else []), kind=kind
        )
        root, asked = begun["id"], begun["id"]
        await alice.listen(**({"kinds": [1111], "_E": [root]} if kind == 11 else {"kinds": [1], "_e": [root]}))
        for cycle in (1, 2, 3):
            known = 0 if cycle == 1 else len(alice.received)
            if cycle > 1:
                printed = await alice.do("reply", to=alice.received[-1]["id"], content=NEXT[cycle - 1])
                assert printed["kind"] == (1 if kind == 1 else 1111)
                asked = printed["id"]
            await alice.until(closed(cycle))
            await daemon.ended(root, cycle)
            answers = alice.received[known:]
            assert phases(answers) == CYCLE
            check_transitions(answers)
            for answer in answers:
                if kind == 11:
                    assert value(answer, "E") == value(answer, "e") == root
                else:
                    assert (root_of(answer), parent_of(answer)) == (root, asked)
                assert notified(answer) == ([] if is_confirmation(answer) else [alice.pubkey])
        check_order(alice.received)
        assert all(output["verified"] for output in alice.outputs)
        assert {answer["pubkey"] for answer in alice.received} <= daemon.agent_keys
        assert sorted(path.name for path in daemon.workspace.iterdir()) == ["again.py", "bye.py", "hello.py"]


async def test_comments_on_notes_go_on_as_comments(opened: Opening, relay: str, tmp_path: Path) -> None:
    """The client replies by kind 1111 to a note of an agent, then to the comment that answers it."""
    async with owned(opened, relay, tmp_path / "data", CLIENT) as (daemon, alice):
        begun = await alice.write("Hello there", ["p", daemon.project])
        root = begun["id"]
        await alice.listen(kinds=[1], _p=[alice.pubkey])
        await alice.until(len)
        await daemon.until(root, lambda view: view.get("status") == "waiting")
        first = alice.received[-1]
        await alice.listen(kinds=[1111], _E=[first["id"]])
        for cycle in (1, 2):
            known = len(alice.received)
            text = HELLO if cycle == 1 else NEXT[1]
            asked = await alice.do("reply", to=alice.received[-1]["id"], content=text, comment=True)
            assert asked["kind"] == 1111
            await alice.until(closed(cycle))
            await daemon.ended(root, cycle)
            for answer in alice.received[known:]:
                assert answer["kind"] == 1111
                assert (value(answer, "E"), value(answer, "K")) == (first["id"], "1")
                assert value(answer, "P") == first["pubkey"]
                assert (value(answer, "e"), value(answer, "k")) == (asked["id"], "1111")
                assert notified(answer) == ([] if is_confirmation(answer) else [alice.pubkey])
        assert all(output["verified"] for output in alice.outputs)
        assert sorted(path.name for path in daemon.workspace.iterdir()) == ["bye.py", "hello.py"]
