"""What agents have learned: from whom it came, whom it reaches, and how an operator removes it."""

from typing import Any

from tenex.core.phases import Phase
from tenex.core.records import PhaseTransition
from tenex.nostr.keys import SecretKey

from .kit import Folder, daemon, tenex_here


async def removed(folder: Folder, number: object) -> tuple[int, str, str]:
    return await tenex_here("agents", "lessons", "remove", str(number), "--data", folder.data)


async def listed(folder: Folder, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await folder.facts("agents", "lessons", "list", *words)
    return found


async def is_in_prompt(lesson: dict[str, Any], folder: Folder, conversation: str) -> bool:
    words = ("agents", "show", "executor", "--prompt", "--conversation", conversation, "--phase", "execute")
    code, out, err = await tenex_here(*words, "--data", folder.data)
    assert code == 0, err
    return f"{lesson['title']}: {lesson['lesson'][:20]}" in out


async def test_a_lesson_has_a_source_reaches_no_owner_from_a_member_and_can_be_removed(folder: Folder) -> None:
    member = SecretKey.generate()
    folder.edit("[people]\n", f'[gates]\nreflection = "always"\n\n[people]\nmembers = ["{member.npub}"]\n')
    async with daemon(folder):
        name = await folder.write("Create zebra.py that prints xylophone", by=member)
        await folder.until(name, "ended")
        own = await folder.write("Create lion.py that prints savannah")
        await folder.until(own, "ended")
        every = await listed(folder)
        authors = {name: (member.public, "member"), own: (folder.owner.public, "owner")}
        assert all((one["author"], one["role"]) == authors[one["conversation"]] for one in every)
        of_executor = {one["conversation"]: one for one in every if one["agent"] == "executor"}
        one, other = of_executor[name], of_executor[own]
        assert await listed(folder, "--agent", "executor") == [each for each in every if each["agent"] == "executor"]

        assert await is_in_prompt(one, folder, name)
        assert not await is_in_prompt(one, folder, own)
        assert await is_in_prompt(other, folder, own)
        folder.edit("[people]\n", "[people]\nshare_lessons = true\n")
        assert await is_in_prompt(one, folder, own)

        words = ("agents", "lessons", "edit", str(one["number"]), "--data", folder.data)
        code, out, err = await tenex_here(*words, "--title", "Zebras", "--text", "Print xylophone, as asked.")
        assert (code, out) == (0, f"edited: {one['number']}  executor  Zebras\n"), err
        assert "The running daemon shows it to agents from now on" in err
        edited = {**one, "title": "Zebras", "lesson": "Print xylophone, as asked."}
        every = [edited if each == one else each for each in every]
        one = edited
        assert one in await listed(folder)
        assert await is_in_prompt(one, folder, name)
        code, _, err = await tenex_here(*words)  # without a terminal there is no editor
        assert (code, "pass `--title` or `--text`" in err) == (2, True)
        code, _, err = await tenex_here(*words, "--text", "  ")
        assert (code, "cannot be blank" in err) == (2, True)

        code, out, err = await removed(folder, one["number"])
        assert (code, out) == (0, f"removed: {one['number']}  executor  {one['title']}\n")
        assert "The running daemon no longer shows it to agents" in err
        assert one not in await listed(folder)
        assert not await is_in_prompt(one, folder, name)
        code, _, err = await removed(folder, one["number"])
        advice = f"`tenex --data {folder.data} agents lessons list` shows all."
        assert (code, err) == (2, f"tenex: There is no lesson {one['number']}; {advice}\n")

    facts = await folder.facts("agents", "lessons", "remove", str(other["number"]))
    assert facts == {"removed": other, "by": "command"}
    async with daemon(folder):
        assert await listed(folder) == [each for each in every if each not in (one, other)]


async def test_agents_reflect_until_there_is_a_lesson_and_then_where_there_is_a_reason(folder: Folder) -> None:
    async with daemon(folder):
        reasons = []
        for request in ("Create zebra.py that prints xylophone", "Create lion.py that prints savannah"):
            name = await folder.write(request)
            await folder.until(name, "ended")
            moves = [record for record in folder.records(name) if isinstance(record, PhaseTransition)]
            reasons += [move.reason for move in moves if move.to is Phase.REFLECTION]
    assert reasons == [
        "the work is done; no lesson is recorded in this project yet",
        "nothing to reflect on: no call failed, no fault was found and nobody was corrected",
    ]


async def test_without_a_folder_there_are_no_lessons_and_none_is_made(folder: Folder) -> None:
    empty = folder.data.parent / "empty"
    words = ("agents", "lessons")
    assert await tenex_here(*words, "list", "--data", empty) == (0, "", "There are no lessons.\n")
    assert (await tenex_here(*words, "remove", "1", "--data", empty))[0] == 2
    assert not empty.exists()
