"""What users decide, and what they ask for during a gate, over a real relay: notes with their tags, keys and dates."""

import time
from pathlib import Path
from typing import Any

from tenex.core.phases import Phase
from tenex.nostr.keys import SecretKey
from tenex.workflows.phases import records as p
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, Team, brisk, complete

from . import person
from .kit import Folder, of_kind
from .loopback import at_work, settled

PERSON = """
[gates]
plan_approval = "person"
[conversations]
route_by_rule = false
"""
HOUR = 3_600


def routes(question: Json) -> Json:
    """A router that has a plan made, waits until it may go on, and then waits for the user."""
    if question["phase"] == "chat":
        return {"phase": "plan", "agents": ["planner"], "reason": "a plan is wanted"}
    if question["phase"] == "plan" and "execute" in question["permitted"]:
        return {"phase": "execute", "agents": ["executor"], "reason": "the plan is approved"}
    is_new = question["messages"][-1]["after_turn"] == question["turns"][-1]["turn"]
    if question["phase"] == "plan" and is_new:
        return {"agents": ["planner"], "reason": "look at what was written"}
    return {"agents": ["USER"], "reason": "the person is next"}


def talks(asked: Asked) -> Reply:
    return Answer(text=f"{asked.agent} on {asked.phase}, after {asked.messages} messages")


async def _reply(folder: Folder, text: str, root: str, to: str, by: SecretKey, *, late: int = 0) -> None:
    tags = [["e", root, folder.url, "root"], ["e", to, folder.url, "reply"], ["p", folder.project.public]]
    await person.publish(folder.url, person.note(by, text, *tags, at=int(time.time()) - late))


async def test_a_plan_is_approved_by_the_owners_yes_to_it_and_by_no_word_of_a_stranger(
    tmp_path: Path, relay: str
) -> None:
    stranger = SecretKey.generate()
    async with at_work(tmp_path, relay, Team(router=routes, worker=talks), PERSON, TENEX_PEOPLE__OPEN="true") as (
        folder,
        _,
    ):
        name = await folder.write("Design a bridge")
        await settled(folder, name, "waiting")
        (first,) = [event for event in await folder.sent(_e=[name]) if "/approve" in event["content"]]
        assert first["content"].startswith("planner on plan")
        for count, text in enumerate(("No! I do not approve.", "yes"), start=2):
            await _reply(folder, text, name, first["id"], stranger)
            await settled(folder, name, "waiting", messages=count)
        plan = (await folder.sent(_e=[name]))[-1]
        await _reply(folder, "yes", name, plan["id"], folder.owner, late=HOUR)
        await settled(folder, name, "waiting", messages=4)
        await _reply(folder, "yes", name, first["id"], folder.owner)
        await settled(folder, name, "waiting", messages=5)
        state = folder.state(name)
        assert state.cycle.phase is Phase.PLAN
        assert not of_kind(folder.records(name), p.PlanApproved)
        refusals = [
            event["content"] for event in await folder.sent(_e=[name]) if "approves nothing" in event["content"]
        ]
        assert ["dated before my question" in text for text in refusals] == [True, False]
        await _reply(folder, "Yes, please", name, plan["id"], folder.owner)
        await settled(folder, name, "waiting", messages=6)
    assert folder.state(name).cycle.phase is Phase.EXECUTE


def works(request: Json) -> Reply:
    """A team without a pause, but for chores, which takes a moment."""
    asked = Asked(request)
    if asked.question is not None:
        return Team()(request)
    if asked.phase == "chores":
        return Answer(calls=complete(response="Tidy.", summary="nothing to do").calls, delay=2.0)
    return brisk(asked)


async def test_a_request_written_during_chores_is_worked_on_in_the_next_cycle(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, works) as (folder, _):
        name = await folder.write("Write note-01.txt")

        def in_chores() -> Any:
            return folder.state(name).cycle.phase is Phase.CHORES

        await person.until(in_chores)
        await folder.write("Now write note-02.txt", to=name)
        state = await folder.until(name, "ended", cycle=2)
    assert [message.text for message in state.cycle.messages] == ["Now write note-02.txt"]
