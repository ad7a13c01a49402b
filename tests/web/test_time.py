"""The past of a conversation: the state after a record is what `replay` says, and going back is asked for twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from tenex.core.rollback.whole import RolledBack
from tests.cli.journals import ONE
from tests.kits.commands import Tenex

from .kit import Served, printed


@pytest.mark.parametrize("seq", [1, 2, 20, 57])
async def test_the_state_after_a_record_is_that_of_replay(pages: Served, tenex: Tenex, seq: int) -> None:
    expected = json.loads(await printed(tenex, f"conversations replay {ONE} --to {seq} --json", "--data", pages.data))
    page = await pages.get(f"/c/{ONE}/at?seq={seq}")
    head = " ".join(page.all("div", id="head")[0].text.split())
    assert f"in {expected['phase']}, cycle {expected['cycle']}" in head
    assert f"{expected['turns']} turn" in head
    assert expected["record"] in page.all("main")[0].text


async def test_what_changed_between_two_records_is_shown(pages: Served) -> None:
    page = await pages.get(f"/c/{ONE}/at?seq=57&than=1")
    lines = page.all("pre")[0].text
    assert '-  "seq": 1,' in lines
    assert '+  "seq": 57,' in lines
    same = await pages.get(f"/c/{ONE}/at?seq=5&than=5")
    assert not same.all("pre")
    beyond = await pages.get(f"/c/{ONE}/at?seq=999999999999")
    assert "After record" in beyond.all("h1")[0].text


async def test_going_back_says_first_what_it_will_do_and_needs_a_daemon(
    pages: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(pages.data / "conversations" / ONE / "journal.jsonl")
    before = path.read_bytes()
    page = await pages.get(f"/c/{ONE}/back/5")
    assert "turn-1" in page.all("main")[0].text
    fields = await pages.form(f"/c/{ONE}/back/5", f"/c/{ONE}/back/5/rollback")
    assert (await pages.post(f"/c/{ONE}/back/6/rollback", fields)).status_code == 403
    refused = await pages.post(f"/c/{ONE}/back/5/rollback", fields)
    assert (refused.status_code, "Only a running daemon" in refused.text) == (403, False)  # it was used up
    fields = await pages.form(f"/c/{ONE}/back/5", f"/c/{ONE}/back/5/rollback")
    refused = await pages.post(f"/c/{ONE}/back/5/rollback", fields)
    assert (refused.status_code, "Only a running daemon" in refused.text) == (400, True)
    assert path.read_bytes() == before
    asked: list[Any] = []

    async def ask(_: Path, do: str, **words: Any) -> dict[str, Any]:
        asked.append((do, {name: value for name, value in words.items() if name != "patience"}))
        return {"text": "Left as they are: a.csv (large)."} if do == "rollback_files" else {"id": ONE}

    monkeypatch.setattr("tenex.web.time_pages.ask", ask)
    assert "a.csv (large)" in (await pages.get(f"/c/{ONE}/back/5")).all("main")[0].text
    for more in ({"files": "yes"}, {"all_files": "yes"}):
        fields = {**await pages.form(f"/c/{ONE}/back/5", f"/c/{ONE}/back/5/rollback"), "reason": "why", **more}
        assert (await pages.post(f"/c/{ONE}/back/5/rollback", fields)).status_code == 303
    fields = await pages.form(f"/c/{ONE}/back/5", f"/c/{ONE}/back/5/fork")
    assert (await pages.post(f"/c/{ONE}/back/5/fork", fields)).status_code == 303
    assert asked[0] == ("rollback_files", {"id": ONE, "to": 5})
    assert [each for each in asked if each[0] != "rollback_files"] == [
        ("rollback", {"id": ONE, "to": 5, "reason": "why", "files": True, "all_files": False}),
        ("rollback", {"id": ONE, "to": 5, "reason": "why", "files": True, "all_files": True}),
        ("fork", {"id": ONE, "at": 5}),
    ]
    await pages.get(f"/c/{ONE}/back/999999", 404)
    assert RolledBack.__name__ not in path.read_text()
