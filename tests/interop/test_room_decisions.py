"""Decisions in a room of a relay with Buzz's rules: reactions that name an event alone, replies that are a choice."""

from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.nostr.interactions import CLOSE, PRESS, PROMPT
from tenex.nostr.keys import SecretKey
from tests.kits.daemon_approvals import answers, ended, runs, times
from tests.kits.room_person import RoomPerson, room_person
from tests.kits.room_relay import Raw, Rules
from tests.kits.room_work import Working, asks, at_work_in_a_room, until
from tests.service.kit import of_kind
from tests.service.loopback import serving

COLOURS = ("Which colour?", "red", "dark blue")


async def test_a_guest_answers_what_they_were_asked_by_a_reaction_also_one_given_while_the_daemon_was_killed(
    tmp_path: Path,
) -> None:
    guest = SecretKey.generate()
    async with at_work_in_a_room(tmp_path / "data", worker=asks(*COLOURS)) as working:
        folder = working.folder
        working.relay.add(working.room, guest.public)
        async with room_person(working.relay, guest, working.room) as person:
            async with serving(folder, working.server) as process:
                live = await working.begin("Paint it", person)
                question = await working.asked(live, "Which colour?")
                await person.react(question["id"], "2️⃣")
                assert await ended(folder, live) == "finished"
                later = await working.begin("Paint the other one", person)
                question = await working.asked(later, "Which colour?")
                await process.die()
            await person.react(question["id"], "1️⃣")
            async with serving(folder, working.server):
                assert await ended(folder, later) == "finished"
        for name, colour in ((live, "dark blue"), (later, "red")):
            (answered,) = of_kind(folder.records(name), r.QuestionAnswered)
            assert answered.text == colour


async def test_a_thumb_of_who_may_not_decide_does_nothing_and_a_member_of_the_room_reads_so_once(
    tmp_path: Path,
) -> None:
    guest, stranger = SecretKey.generate(), SecretKey.generate()
    async with at_work_in_a_room(tmp_path / "data") as working:
        folder, owner = working.folder, working.owner
        working.relay.add(working.room, guest.public)
        async with (
            room_person(working.relay, guest, working.room) as person,
            room_person(working.relay, stranger, working.room) as outsider,
        ):
            async with serving(folder, working.server) as process:
                name = await working.begin("Publish it")
                request = await working.asked(name, "Allow ")
                await outsider.react(request["id"], "👍")
                await person.react(request["id"], "👍")
                notice = await working.asked(name, "Only an owner")
                assert notice["content"] == "Only an owner can allow or refuse that."
                assert [tag[1] for tag in notice["tags"] if tag[0] == "p"] == [guest.public]
                await person.react(request["id"], "👌")
                await process.die()
            await person.react(request["id"], "✅")
            await outsider.react(request["id"], "✅")
            async with serving(folder, working.server):
                await owner.react(request["id"], "👍")
                assert await ended(folder, name) == "finished"
        assert times(folder) == 1
        (given,) = answers(folder, name)
        assert given.by == folder.owner.public
        (uncounted,) = of_kind(folder.records(name), r.AnswerUncounted)
        assert (uncounted.author, uncounted.question) == (guest.public, request["id"])
        said = [event for event in owner.heard if event["content"].startswith("Only an owner")]
        assert len(said) == 1


@pytest.mark.parametrize("kind", [5, 9005])
async def test_a_permission_is_taken_back_by_the_deletion_of_its_reaction(tmp_path: Path, kind: int) -> None:
    """A kind 5 names the reaction alone, a 9005 the room too."""
    begins = "echo begun > begun; while [ ! -e go ]; do sleep 0.05; done"
    async with at_work_in_a_room(tmp_path / "data", worker=runs(begins, "echo ran >> ran.txt")) as working:
        folder, owner = working.folder, working.owner
        async with serving(folder, working.server):
            name = await working.begin("Publish it")
            request = await working.asked(name, "Allow echo begun")
            thumb = await owner.react(request["id"], "👍")
            await until(lambda: (folder.workspace / "begun").exists())
            await owner.delete(thumb, working.room if kind == 9005 else "")
            again = await working.asked(name, "Allow echo ran")
            (folder.workspace / "go").touch()
            await owner.react(again["id"], "👎")
            assert await ended(folder, name) == "finished"
        assert times(folder) == 0
        (withdrawn,) = of_kind(folder.records(name), r.ApprovalWithdrawn)
        assert withdrawn.by == folder.owner.public


async def test_questions_in_two_threads_are_answered_each_by_its_own_replies_and_reactions(tmp_path: Path) -> None:
    async with at_work_in_a_room(tmp_path / "data", worker=asks(*COLOURS)) as working:
        folder, owner = working.folder, working.owner
        async with serving(folder, working.server):
            names = [await working.begin(text) for text in ("Paint it", "Paint the other", "And the third")]
            questions = [await working.asked(name, "Which colour?") for name in names]
            await owner.react(questions[2]["id"], "1️⃣")
            nested = [["e", names[1], "", "root"], ["e", questions[1]["id"], "", "reply"]]
            await owner.say(working.room, "@Executor Dark blue!", *nested)
            await owner.say(working.room, "1.", ["e", names[0], "", "reply"])
            for name in names:
                assert await ended(folder, name) == "finished"
        texts = [of_kind(folder.records(name), r.QuestionAnswered)[0].text for name in names]
        assert texts == ["red", "dark blue", "red"]


# ---- buttons ---------------------------------------------------------------------------------------------------------

BUTTONS = Rules(interactions=True)


async def press(person: RoomPerson, working: Working, shown: Raw, choice: str) -> str:
    """Press a button of the prompt that a message of the relay shows."""
    return await person.publish(
        PRESS, "", ["h", working.room], ["e", prompt_in(shown), "", "prompt"], ["choice", choice]
    )


def prompt_in(shown: Raw) -> str:
    return next(str(tag[1]) for tag in shown["tags"] if tag[0] == "interaction")


async def closed(working: Working, shown: Raw) -> None:
    """Wait until the relay shows the prompt as closed by who asked."""
    prompt = working.relay.interactions.prompts[prompt_in(shown)]
    await until(lambda: prompt.closed)
    assert prompt.closed == "manual"
    assert len(working.relay.accepted(CLOSE, e=prompt.event["id"])) == 1


@pytest.mark.parametrize("way", ["press", "reaction"])
async def test_a_question_is_one_prompt_which_is_answered_also_while_the_daemon_was_killed(
    tmp_path: Path, way: str
) -> None:
    async with at_work_in_a_room(tmp_path / "data", worker=asks(*COLOURS), rules=BUTTONS) as working:
        folder, owner, relay = working.folder, working.owner, working.relay
        async with serving(folder, working.server) as process:
            live = await working.begin("Paint it")
            shown = await working.asked(live, "Which colour?")
            assert shown["pubkey"] == relay.key.public
            (prompt,) = relay.accepted(PROMPT)
            assert prompt["pubkey"] in folder.public_keys
            assert [tag for tag in prompt["tags"] if tag[0] == "opt"] == [
                ["opt", "1", "red", "default"],
                ["opt", "2", "dark blue", "default"],
            ]
            await press(owner, working, shown, "2")
            assert await ended(folder, live) == "finished"
            await closed(working, shown)
            later = await working.begin("Paint the other one")
            shown = await working.asked(later, "Which colour?")
            await process.die()
        if way == "press":
            await press(owner, working, shown, "1")
        else:
            await owner.react(shown["id"], "1️⃣")
        async with serving(folder, working.server):
            assert await ended(folder, later) == "finished"
            await closed(working, shown)
        texts = [of_kind(folder.records(name), r.QuestionAnswered)[0].text for name in (live, later)]
        assert texts == ["dark blue", "red"]
        asked = [event for event in owner.heard if event["content"].startswith("Which colour?")]
        assert len(asked) == 2, "each question is shown once"
        assert len(relay.accepted(PROMPT)) == 2


async def test_a_permission_has_buttons_and_only_an_owners_press_counts(tmp_path: Path) -> None:
    guest = SecretKey.generate()
    async with at_work_in_a_room(tmp_path / "data", rules=BUTTONS) as working:
        folder, owner = working.folder, working.owner
        working.relay.add(working.room, guest.public)
        async with serving(folder, working.server), room_person(working.relay, guest, working.room) as other:
            name = await working.begin("Publish it")
            shown = await working.asked(name, "Allow ")
            await press(other, working, shown, "yes")
            await working.asked(name, "Only an owner can allow or refuse that.")
            assert times(folder) == 0
            await press(owner, working, shown, "yes")
            assert await ended(folder, name) == "finished"
            await closed(working, shown)
        assert times(folder) == 1
        (given,) = answers(folder, name)
        assert given.by == folder.owner.public


@pytest.mark.parametrize("way", ["reaction", "label", "number in the thread"])
async def test_what_is_answered_in_another_way_closes_its_buttons(tmp_path: Path, way: str) -> None:
    """A client without buttons shows the relay's words of the prompt; replies and reactions to them count."""
    async with at_work_in_a_room(tmp_path / "data", worker=asks(*COLOURS), rules=BUTTONS) as working:
        folder, owner = working.folder, working.owner
        async with serving(folder, working.server):
            other = await working.begin("Paint the other")
            await working.asked(other, "Which colour?")
            name = await working.begin("Paint it")
            shown = await working.asked(name, "Which colour?")
            match way:
                case "reaction":
                    await owner.react(shown["id"], "2️⃣")
                case "label":
                    root = ["e", name, "", "root"]
                    await owner.say(working.room, "Dark Blue", root, ["e", shown["id"], "", "reply"])
                case _:
                    await owner.say(working.room, "2", ["e", name, "", "reply"])
            assert await ended(folder, name) == "finished"
            await closed(working, shown)
            (answered,) = of_kind(folder.records(name), r.QuestionAnswered)
            assert answered.text == "dark blue"
            assert of_kind(folder.records(other), r.QuestionAnswered) == []


async def test_a_prompt_that_the_relay_refuses_is_asked_once_more_in_plain_words(tmp_path: Path) -> None:
    async with at_work_in_a_room(tmp_path / "data", worker=asks(*COLOURS), rules=BUTTONS) as working:
        folder, owner, relay = working.folder, working.owner, working.relay
        relay.interactions.refuses = "restricted: experimental interactions are disabled"
        async with serving(folder, working.server):
            name = await working.begin("Paint it")
            question = await working.asked(name, "Which colour?")
            assert question["pubkey"] in folder.public_keys
            await owner.react(question["id"], "1️⃣")
            assert await ended(folder, name) == "finished"
        assert [event["content"] for event in owner.heard].count(question["content"]) == 1
        assert relay.accepted(CLOSE) == []


async def test_a_question_of_a_key_that_may_not_write_is_shown_once_by_the_projects(tmp_path: Path) -> None:
    """The relay refuses the prompt, then the plain message; the project passes that on, and a reply to it counts."""
    async with at_work_in_a_room(tmp_path / "data", worker=asks(*COLOURS), rules=BUTTONS) as working:
        folder, owner, relay = working.folder, working.owner, working.relay
        room = relay.rooms[working.room]
        room.private = True
        for key in set(room.members) - {folder.owner.public, folder.project.public}:
            relay.remove(room.id, key)
        async with serving(folder, working.server):
            name = await working.begin("Paint it")
            shown = await owner.until(lambda event: "Which colour?" in event["content"], 60)
            assert shown["pubkey"] == folder.project.public
            assert "cannot write here" in shown["content"]
            await owner.say(room.id, "2", ["e", name, "", "root"], ["e", shown["id"], "", "reply"])
            assert await ended(folder, name) == "finished"
        assert of_kind(folder.records(name), r.QuestionAnswered)[0].text == "dark blue"
        assert len([event for event in owner.heard if "Which colour?" in event["content"]]) == 1


async def test_a_relay_that_shows_another_question_gets_no_permission_by_the_answers_to_that(tmp_path: Path) -> None:
    async with at_work_in_a_room(tmp_path / "data", rules=BUTTONS) as working:
        folder, owner, relay = working.folder, working.owner, working.relay
        async with serving(folder, working.server):
            name = await working.begin("Publish it")
            shown = await working.asked(name, "Allow ")
            link = [["h", working.room], ["e", name, "", "reply"], ["interaction", prompt_in(shown)]]
            false = relay.say(9, link, working.room, "Do you like cats? 👍")
            await owner.react(false, "👍")
            await owner.say(working.room, "yes", ["e", name, "", "root"], ["e", false, "", "reply"])
            await until(lambda: len(of_kind(folder.records(name), r.MessageRecorded)) == 2)
            assert answers(folder, name) == []
            assert times(folder) == 0
            await owner.react(shown["id"], "👎")
            assert await ended(folder, name) == "finished"
        assert times(folder) == 0
