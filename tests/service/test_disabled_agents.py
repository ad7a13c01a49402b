"""An agent whose file or key has a fault is disabled, at a start as at a reload; everything else is served."""

from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.nostr.keys import KeyRing

from . import person
from .kit import Folder, daemon, of_kind, ordered, tenex, tenex_here

HELPER = "---\nname: Helper\nrole: helps\nkind: worker\nuse_when: help is needed\ntools: [{tool}]\n---\nYou help.\n"
GOOD, BAD = HELPER.format(tool="read_file"), HELPER.format(tool="read_fiel")
REQUEST = "Create hello.py that prints hello"


async def last_words(folder: Folder, name: str) -> str:
    """The newest message of ours in a thread, once all are delivered."""
    return str((await folder.replies(name))[-1]["content"])


def write(folder: Folder, text: str, slug: str = "helper") -> Path:
    file = folder.data / "agents" / f"{slug}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


async def test_a_faulty_file_disables_its_agent_and_users_and_the_operator_read_why(folder: Folder) -> None:
    file = write(folder, BAD)
    key = KeyRing(folder.data / "keys").get_or_create("helper")
    why = "there is no tool 'read_fiel'. Did you mean `read_file`?"
    async with daemon(folder) as process:
        assert why in str((await process.until("agent.disabled"))["faults"])
        status = (await folder.facts("status"))["configuration"]["disabledAgents"]
        assert list(status) == ["helper"]
        asked = await folder.write("@helper look at the code")
        note = person.note(folder.owner, f"nostr:{key.npub} what do you see?", ["p", key.public])
        await person.publish(folder.url, note)
        listed = await folder.write("/help")
        work = await folder.write(REQUEST)
        for name in (asked, str(note["id"])):
            await folder.until(name, "ended")
            said = await last_words(folder, name)
            assert f"The agent helper is disabled: helper.md:6: {why}" in said
            assert str(file.parent) not in said
        await person.until(lambda: of_kind(folder.records(listed), r.MessageSent))
        assert "Disabled, because of a fault in their files: helper" in await last_words(folder, listed)
        await folder.until(work, "ended")
        code, out, _ = await tenex_here("doctor", "--data", folder.data)
        assert (code, "the agent helper is disabled" in out) == (3, True)
        write(folder, GOOD)
        await process.reload()
        assert "disabledAgents" not in (await folder.facts("status"))["configuration"]
        write(folder, BAD)
        done = await folder.facts("reload", code=1)
        assert list(done["disabled"]) == ["helper"]
        assert process.events().count("configuration.refused") == 0


async def test_a_key_that_cannot_be_read_two_files_of_one_agent_and_what_needs_them_are_disabled(
    folder: Folder,
) -> None:
    write(folder, GOOD)
    write(folder, GOOD, "Twin")
    write(folder, GOOD, "twin")
    write(folder, GOOD.replace("tools:", "agents: [helper]\ntools:"), "lead")
    (folder.data / "agents" / "notes.txt").write_text("not an agent")
    (folder.data / "keys" / "helper.nsec").touch(0o600)
    folder.put(
        "pair.toml", 'initial_speaker = "helper"\nmax_turns = 2\n[workflow]\nparticipants = ["helper", "executor"]\n'
    )
    async with daemon(folder):
        shown = (await folder.facts("status"))["configuration"]
        assert set(shown["disabledAgents"]) == {"helper", "twin", "lead"}
        assert "holds no nsec1 key" in str(shown["disabledAgents"]["helper"])
        assert "its sub-agent helper is disabled" in str(shown["disabledAgents"]["lead"])
        assert "helper takes part, and is disabled" in str(shown["disabledWorkflows"]["pair"])
        work = await folder.write(REQUEST)
        await folder.until(work, "ended")


async def test_an_agent_that_the_settings_name_answers_that_it_is_disabled_until_it_is_right(folder: Folder) -> None:
    write(folder, BAD)
    folder.edit("", '[conversations]\nagent = "helper"\n')
    async with daemon(folder) as process:
        name = await folder.write("Are you there?")
        await folder.until(name, "waiting")
        assert "The agent helper is disabled: helper.md:6" in await last_words(folder, name)
        write(folder, GOOD)
        await process.reload()
        await folder.write("And now?", to=name)
        await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        assert of_kind(folder.records(name), r.RunEnded)[0].outcome == "finished"


@pytest.mark.parametrize("is_reload", [False, True])
async def test_without_its_orchestrator_nothing_is_routed_so_a_start_and_a_reload_are_refused(
    folder: Folder, *, is_reload: bool
) -> None:
    if is_reload:
        async with daemon(folder):
            write(folder, BAD, "orchestrator")
            code, _, err = await tenex_here("reload", "--data", folder.data)
            assert (code, "orchestrator.md:6" in err) == (3, True)
            await folder.until(await folder.write(REQUEST), "ended")
    else:
        write(folder, BAD, "orchestrator")
        code, _, err = await tenex("run", "--data", folder.data)
        assert (code, "orchestrator.md:6" in err) == (3, True)


async def test_an_agent_that_is_disabled_while_it_works_ends_its_part_without_tools_and_the_conversation_goes_on(
    folder: Folder,
) -> None:
    async with ordered(folder, "model", 2, hold=True) as process:
        name = await folder.write(REQUEST)
        await folder.held()
        write(folder, BAD, "executor")
        await process.reload()
        folder.let_go()
        await person.until(lambda: of_kind(folder.records(name), r.RunEnded))
        await person.until(lambda: folder.state(name).cycle.status in ("waiting", "ended"))
        ended = of_kind(folder.records(name), r.RunEnded)[0]
        assert ended.run.endswith("executor")
        assert not (folder.workspace / "hello.py").exists(), "it has no tools any more"
        assert {log["event"] for log in process.errors} == {"agent.disabled"}
