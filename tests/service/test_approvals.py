"""A real daemon, a real relay, an agent that wants to run a command without a sandbox: who may allow it, and when."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nostr_sdk as sdk
import pytest

from tenex.core import records as r
from tenex.core.work.runs import UNKNOWN
from tenex.nostr.keys import KeyRing, SecretKey
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete
from tests.fakes.modelserver import ModelServer, model_server
from tests.kits.daemon_approvals import COMMAND, UNCONFINED, answer, answers, ended, react, request, runs, times

from . import person
from .kit import Folder, of_kind, ordered
from .loopback import at_work, folder_with_model, serving
from .moments import Moment


@asynccontextmanager
async def asked(
    place: Path, relay: str, command: str = COMMAND, settings: str = ""
) -> AsyncIterator[tuple[Folder, str]]:
    """A daemon whose agent has asked for permission, and the conversation."""
    async with at_work(place, relay, Team(worker=runs(command)), UNCONFINED + settings) as (folder, _):
        name = await folder.write("Publish it")
        await request(folder, name)
        yield folder, name


async def test_a_thumb_from_another_library_lets_it_run(tmp_path: Path, relay: str) -> None:
    async with asked(tmp_path, relay) as (folder, name):
        wanted = await request(folder, name)
        assert wanted["content"].splitlines()[0] == f"Allow {COMMAND}? 👍 👎"
        assert folder.owner.public in [tag[1] for tag in wanted["tags"] if tag[0] == "p"]
        assert times(folder) == 0
        await person.publish(relay, thumb(folder.owner, wanted))
        assert await ended(folder, name) == "finished"
        assert times(folder) == 1
        (given,) = answers(folder, name)
        assert (given.outcome, given.by) == ("yes", folder.owner.public)


def thumb(key: SecretKey, to: person.Wire) -> person.Wire:
    """A 👍 as rust-nostr makes it."""
    tags = [["e", to["id"]], ["p", to["pubkey"]], ["k", "1"]]
    builder = sdk.EventBuilder(sdk.Kind(7), "👍").tags([sdk.Tag.parse(tag) for tag in tags])
    made: person.Wire = json.loads(builder.finalize(sdk.Keys.parse(key.nsec)).as_json())
    return made


async def test_the_first_of_two_devices_counts(tmp_path: Path, relay: str) -> None:
    async with asked(tmp_path, relay) as (folder, name):
        wanted = await request(folder, name)
        await react(folder, wanted, "👎")
        await person.until(lambda: answers(folder, name))
        await answer(folder, wanted, "yes", name)

        def replied() -> bool:
            return any("answered already" in one.text for one in of_kind(folder.records(name), r.MessageSent))

        await person.until(replied)
        assert [one.outcome for one in answers(folder, name)] == ["no"]
        assert times(folder) == 0


async def test_neither_a_stranger_nor_an_agent_nor_another_message_lets_it_run(tmp_path: Path, relay: str) -> None:
    async with asked(tmp_path, relay) as (folder, name):
        wanted = await request(folder, name)
        agent = KeyRing(folder.data / "keys").get("executor")
        for key in (SecretKey.generate(), agent, folder.project):
            await react(folder, wanted, "👍", key)
            await answer(folder, wanted, "yes", name, key)
        first = {"id": name, "pubkey": folder.owner.public}
        await react(folder, first, "👍")
        await react(folder, wanted, "❤️")
        await answer(folder, wanted, "/approvals", name)
        await person.until(lambda: of_kind(folder.records(name), r.CommandGiven))
        assert answers(folder, name) == []
        assert times(folder) == 0
        await answer(folder, wanted, "no: not today", name)
        await person.until(lambda: answers(folder, name))
        refused, *_ = of_kind(folder.records(name), r.ToolCallRejected)  # later ones are the verifier's
        assert "not today" in refused.sentence


async def test_an_answer_given_while_the_daemon_was_killed_runs_it_once(tmp_path: Path, relay: str) -> None:
    async with model_server(Team(worker=runs())) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, UNCONFINED)
        async with serving(folder, server) as process:
            name = await folder.write("Publish it")
            wanted = await request(folder, name)
            await process.die()
        await react(folder, wanted, "👍")
        assert times(folder) == 0
        async with serving(folder, server) as process:
            assert await ended(folder, name) == "finished"
            assert times(folder) == 1
            await process.die()
        async with serving(folder, server):
            await folder.write("/status", to=name)
            await person.until(
                lambda: of_kind(folder.records(name), r.CommandGiven, lambda one: one.command == "status")
            )
        assert times(folder) == 1
        assert [one.outcome for one in answers(folder, name)] == ["yes"]


@pytest.mark.parametrize(("moment", "ran"), [("tool", 0), ("tool done", 1)])
async def test_a_death_after_the_answer_neither_repeats_it_nor_asks_again(
    tmp_path: Path, relay: str, moment: Moment, ran: int
) -> None:
    folder = Folder(tmp_path / "data", relay, UNCONFINED)
    async with ordered(folder, moment, tool="shell", model="appender") as first:
        name = await folder.write("Publish it")
        await react(folder, await request(folder, name), "👍")
        assert await first.ended() == -signal.SIGKILL
    async with ordered(folder, model="appender"):
        assert await ended(folder, name) == "finished"
    assert times(folder) == ran
    assert [one.outcome for one in answers(folder, name)] == ["yes"]
    assert len(of_kind(folder.records(name), r.ApprovalRequested)) == 1
    (result,) = of_kind(folder.records(name), r.ToolCallCompleted, lambda one: one.tool == "shell")
    assert result.content == UNKNOWN, "the agent knows that it may have run"


async def test_it_expires_over_a_restart(tmp_path: Path, relay: str) -> None:
    async with model_server(Team(worker=runs())) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, f"{UNCONFINED}[approvals]\nexpire_after = 5\n")
        name = await _asked_and_killed(folder, server)
        async with serving(folder, server):
            assert await ended(folder, name) == "finished"
        assert [one.outcome for one in answers(folder, name)] == ["expired"]
        assert times(folder) == 0


async def _asked_and_killed(folder: Folder, server: ModelServer) -> str:
    async with serving(folder, server) as process:
        name = await folder.write("Publish it")
        await request(folder, name)
        await process.die()
    return name


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b"])
async def test_nothing_in_a_request_is_hidden(tmp_path: Path, relay: str, hidden: str) -> None:
    async with asked(tmp_path, relay, f"rm {hidden}txt.exe") as (folder, name):
        content = (await request(folder, name))["content"]
        assert hidden not in content
        assert hidden.encode("unicode_escape").decode() in content


async def test_a_folder_that_became_a_link_after_the_question_leads_nowhere(tmp_path: Path, relay: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with at_work(tmp_path, relay, Team(worker=runs(cwd="app")), UNCONFINED) as (folder, _):
        (folder.workspace / "app").mkdir(parents=True)
        name = await folder.write("Publish it")
        wanted = await request(folder, name)
        assert "wants `shell` in app." in wanted["content"]
        (folder.workspace / "app").rmdir()
        (folder.workspace / "app").symlink_to(outside)
        await react(folder, wanted, "👍")
        await person.until(lambda: len(of_kind(folder.records(name), r.ApprovalRequested)) == 2)
        again = await request(folder, name)
        assert "Asked again: `app` changed after the question before." in again["content"]
        await react(folder, again, "👍")
        assert await ended(folder, name) == "finished"
        (result,) = of_kind(folder.records(name), r.ToolCallCompleted, lambda one: one.tool == "shell")
        assert not result.ok
        assert "outside the workspace" in result.content
        assert list(outside.iterdir()) == []


async def test_a_script_that_changed_after_the_question_does_not_run_and_is_asked_about_again(
    tmp_path: Path, relay: str
) -> None:
    async with at_work(tmp_path, relay, Team(worker=runs("sh deploy.sh")), UNCONFINED) as (folder, _):
        folder.workspace.mkdir(parents=True, exist_ok=True)
        script = folder.workspace / "deploy.sh"
        script.write_text("echo shown >> ran.txt\n")
        name = await folder.write("Publish it")
        wanted = await request(folder, name)
        assert "If `deploy.sh` changes before it runs, you are asked again." in wanted["content"]
        script.write_text("echo other >> ran.txt\n")
        await react(folder, wanted, "👍")
        await person.until(lambda: len(of_kind(folder.records(name), r.ApprovalRequested)) == 2)
        again = await request(folder, name)
        assert "Asked again: `deploy.sh` changed after the question before." in again["content"]
        assert not (folder.workspace / "ran.txt").exists()
        await react(folder, again, "👍")
        assert await ended(folder, name) == "finished"
        assert (folder.workspace / "ran.txt").read_text() == "other\n"


async def test_an_edit_that_was_allowed_is_not_made_in_a_file_that_is_another_since_it_was_shown(
    tmp_path: Path, relay: str
) -> None:
    """One that someone has written to, and one that has become a link."""
    files = ("pets.txt", "more.txt")
    changes = [("edit_file", {"path": name, "edits": [{"old": "cat", "new": "dog"}]}) for name in files]

    def worker(asked: Asked) -> Reply:
        if asked.phase != "execute":
            return brisk(asked)
        if "read_file" not in asked.results:
            return calls(*(("read_file", {"path": name}) for name in files))
        return complete(response="Done.", summary="done") if "edit_file" in asked.results else calls(*changes)

    outside = tmp_path / "outside.txt"
    rule = '[[approve]]\ntool = "edit_file"\npath = "*.txt"\ndecision = "ask"\n'
    async with at_work(tmp_path, relay, Team(worker=worker), rule) as (folder, _):
        folder.workspace.mkdir(parents=True, exist_ok=True)
        pets, more = (folder.workspace / name for name in files)
        for file in (pets, more, outside):
            file.write_text("a cat\n")
        name = await folder.write("Change the pet")
        wanted = await request(folder, name)
        assert wanted["content"].startswith("Allow edit_file pets.txt, 1 change and 1 more? 👍 👎")
        assert "│ - cat\n│ + dog\n" in wanted["content"]
        pets.write_text("a cat, and a secret\n")
        more.unlink()
        more.symlink_to(outside)
        await react(folder, wanted, "👍")
        assert await ended(folder, name) == "finished"
        results = of_kind(folder.records(name), r.ToolCallCompleted, lambda one: one.tool == "edit_file")
        assert [result.ok for result in results] == [False, False]
        assert "has changed since you read it" in results[0].content
        assert "outside the workspace" in results[1].content
        assert pets.read_text() == "a cat, and a secret\n"
        assert outside.read_text() == "a cat\n"


async def test_an_answer_that_was_written_while_the_relay_was_away_counts_when_it_is_back(tmp_path: Path) -> None:
    async with FaultRelay() as away, asked(tmp_path, away.url) as (folder, name):
        wanted = await request(folder, name)
        await away.stop()
        away.stored.append(thumb(folder.owner, wanted))  # it was sent when no daemon was there to be sent it
        await away.start()
        assert await ended(folder, name) == "finished"
        assert times(folder) == 1
        assert [one.outcome for one in answers(folder, name)] == ["yes"]


@pytest.mark.parametrize("lost", ["Allow ", "In this conversation I allow"])
async def test_a_message_of_ours_that_a_relay_loses_arrives_later_and_the_call_runs_once(
    tmp_path: Path, lost: str
) -> None:
    """The request itself, or what is said about its answer."""
    dropped: list[str] = []

    async def drop_once(peer: Peer, event: person.Wire) -> None:
        if event["content"].startswith(lost) and not dropped:
            dropped.append(event["id"])
            peer.drop()
        else:
            await FaultRelay.accept(away, peer, event)

    async with FaultRelay() as away:
        away.on_event = drop_once
        async with asked(tmp_path, away.url) as (folder, name):
            await answer(folder, await request(folder, name), "always", name)
            assert await ended(folder, name) == "finished"
            await folder.delivered(name)
            assert times(folder) == 1
            sent = [event["id"] for event in await folder.sent(_e=[name]) if event["content"].startswith(lost)]
            assert sent == dropped, "the same event came again"


async def test_a_reaction_that_is_taken_back_counts_no_more_for_what_has_not_begun(tmp_path: Path, relay: str) -> None:
    folder = Folder(tmp_path / "data", relay, UNCONFINED)
    async with ordered(folder, "tool", tool="shell", hold=True, model="appender twice"):
        name = await folder.write("Publish it")
        like = thumb(folder.owner, await request(folder, name))
        await person.publish(relay, like)
        await folder.held()
        await person.publish(relay, person.note(folder.owner, "", ["e", like["id"]], ["k", "7"], kind=5))
        await person.until(lambda: len(of_kind(folder.records(name), r.ApprovalRequested)) == 2)
        folder.let_go()
        again = await request(folder, name)
        assert again["content"].startswith("Allow echo again >> ran.txt?")
        await answer(folder, again, "no", name)
        assert await ended(folder, name) == "finished"
    assert times(folder) == 1
    sent = [record.text for record in of_kind(folder.records(name), r.MessageSent)]
    assert any("runs already, so your answer cannot be taken back" in text for text in sent)


async def test_unattended_it_is_refused_without_a_question(tmp_path: Path, relay: str) -> None:
    settings = f"{UNCONFINED}[approvals]\nunattended = true\n"
    async with at_work(tmp_path, relay, Team(worker=runs()), settings) as (folder, _):
        name = await folder.write("Publish it")
        assert await ended(folder, name) == "finished"
        assert [one.outcome for one in answers(folder, name)] == ["unattended"]
        assert times(folder) == 0
        assert not any(event["content"].startswith("Allow ") for event in await folder.replies(name))
