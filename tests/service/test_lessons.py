"""What agents have learned: from whom it came, whom it reaches, and how an operator takes it back."""

import json
from typing import Any

from tenex.nostr.keys import SecretKey

from .kit import Folder, daemon, tenex

WORK = "Create zebra.py that prints xylophone"


async def listed(folder: Folder, *words: str) -> list[dict[str, Any]]:
    code, out, err = await tenex("agents", "lessons", "list", "--json", "--data", folder.data, *words)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def shown(lesson: dict[str, Any]) -> str:
    """How a prompt begins it."""
    return f"{lesson['title']}: {lesson['lesson'][:20]}"


async def prompt(folder: Folder, agent: str, conversation: str) -> str:
    words = ("agents", "show", agent, "--prompt", "--conversation", conversation, "--phase", "execute")
    code, out, err = await tenex(*words, "--data", folder.data)
    assert code == 0, err
    return out


async def test_a_lesson_has_a_source_reaches_no_owner_from_a_member_and_can_be_removed(folder: Folder) -> None:
    member = SecretKey.generate()
    file = folder.file.read_text()
    folder.file.write_text(file.replace("[people]\n", f'[people]\nmembers = ["{member.npub}"]\n'))
    async with daemon(folder) as process:
        name = await folder.write(WORK, by=member)
        await folder.until(name, "ended")
        own = await folder.write("Create lion.py that prints savannah")
        await folder.until(own, "ended")
        lessons = await listed(folder)
        from_member = [one for one in lessons if one["conversation"] == name]
        from_owner = [one for one in lessons if one["conversation"] == own]
        assert {(one["author"], one["role"]) for one in from_member} == {(member.public, "member")}
        assert {(one["author"], one["role"]) for one in from_owner} == {(folder.owner.public, "owner")}
        one = next(one for one in from_member if one["agent"] == "executor")
        assert await listed(folder, "--agent", "executor") == [each for each in lessons if each["agent"] == "executor"]

        assert shown(one) in await prompt(folder, "executor", name)
        assert shown(one) not in await prompt(folder, "executor", own)
        other = next(each for each in from_owner if each["agent"] == "executor")
        assert shown(other) in await prompt(folder, "executor", own)
        folder.file.write_text(folder.file.read_text().replace("[people]\n", "[people]\nshare_lessons = true\n"))
        assert shown(one) in await prompt(folder, "executor", own)

        code, out, err = await tenex("agents", "lessons", "remove", str(one["number"]), "--data", folder.data)
        assert (code, out) == (0, f"removed: {one['number']}  executor  {one['title']}\n")
        assert "The running daemon no longer shows it to agents" in err
        assert one not in await listed(folder)
        assert shown(one) not in await prompt(folder, "executor", name)
        code, _, err = await tenex("agents", "lessons", "remove", str(one["number"]), "--data", folder.data)
        advice = f"`tenex --data {folder.data} agents lessons list` shows all."
        assert (code, err) == (2, f"tenex: There is no lesson {one['number']}; {advice}\n")
        assert await process.stop() == 0

    remove = ("agents", "lessons", "remove", str(other["number"]), "--json", "--data", folder.data)
    code, out, _ = await tenex(*remove)
    assert (code, json.loads(out)) == (0, {"removed": other, "by": "command"})
    assert (await tenex(*remove))[0] == 2
    async with daemon(folder) as process:
        left = await listed(folder)
        assert left == [each for each in lessons if each not in (one, other)]
        await process.stop()


async def test_without_a_folder_there_are_no_lessons_and_none_is_made(folder: Folder) -> None:
    empty = folder.data.parent / "empty"
    code, out, err = await tenex("agents", "lessons", "list", "--data", empty)
    assert (code, out, err) == (0, "", "There are no lessons.\n")
    assert (await tenex("agents", "lessons", "remove", "1", "--data", empty))[0] == 2
    assert not empty.exists()
