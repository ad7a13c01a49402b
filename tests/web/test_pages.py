"""What the pages show is what the commands and the files show."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.core.conversation import fold
from tenex.core.ids import ConversationId, Millis
from tenex.core.projection import project
from tenex.core.records import RunStarted, TurnClosed
from tenex.core.text.amounts import dollars
from tenex.store import journal
from tenex.store.disk import Disk
from tenex.store.journal_reader import MARK
from tenex.store.repository import ConversationFolder
from tenex.web import source
from tenex.web.story import Story
from tenex.web.timeline import LABEL, LEFT, timeline_of
from tests.cli.journals import ONE, THREE, TWO, damage
from tests.fakes.scenario import ALICE
from tests.histories.record import ROOT
from tests.kits.commands import Tenex
from tests.kits.live_pages import split
from tests.kits.pages import MENU
from tests.store.kit import StillClock, longest_scenario, write_rotated

from .kit import Page, Served, append, paths_of, printed, served


def titles(page: Page) -> list[str]:
    return [element.attributes["href"].rpartition("/")[2] for element in page.all("a", class_="title")]


async def test_the_menu_of_each_page_leads_to_every_page_that_is_of_no_conversation(pages: Served) -> None:
    paths = [path for path in paths_of(pages.site, "GET") if not path.startswith("/c/") and path != "/events"]
    assert sorted(paths) == sorted(page.path for page in MENU)
    for path in paths:
        page = await pages.get(path)
        links = {element.attributes.get("href") for element in page.all("a")}
        assert links >= {f"{pages.site.base}{other}" for other in paths}


async def test_the_list_shows_what_the_command_lists(pages: Served) -> None:
    page = await pages.get("/conversations")
    assert set(titles(page)) == {ONE, TWO}
    text = " ".join(" ".join(item.text.split()) for item in page.all("li"))
    view = json.loads((pages.data / "conversations" / ONE / "conversation.json").read_text())
    assert f"· {dollars(view['usage']['costUsd'])}" in text
    assert view["messages"][-1]["text"][:40] in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?status=waiting", {TWO}),
        ("?status=ended", {ONE}),
        ("?phase=execute", {TWO}),
        ("?agent=@Executor", {ONE, TWO}),
        ("?agent=unknown", set()),
        (f"?person={ALICE}", {ONE, TWO}),
        (f"?person={'f' * 64}", set()),
        ("?sort=title", {ONE, TWO}),
        ("?since=1970-01-02", set()),
        ("?until=1970-01-02", {ONE, TWO}),
        ("?since=nonsense&status=nonsense&phase=nonsense", {ONE, TWO}),
        ("?q=let+us", {TWO}),
        ("?q=unfindable", set()),
    ],
)
async def test_filters_and_the_search_are_those_of_the_commands(
    pages: Served, query: str, expected: set[ConversationId]
) -> None:
    assert set(titles(await pages.get(f"/conversations{query}"))) == expected


async def test_what_was_found_is_marked_and_leads_to_its_place(pages: Served) -> None:
    page = await pages.get("/conversations?q=think")
    assert [mark.text for mark in page.all("mark")] == ["think"]
    link = next(e.attributes["href"] for e in page.all("a") if "#s" in e.attributes.get("href", ""))
    story = await pages.get(link.removeprefix(pages.site.base))
    assert int(link.rpartition("#s")[2]) in story.seqs


async def test_a_query_without_words_is_explained(pages: Served) -> None:
    page = await pages.get("/conversations?q=---")
    assert "no word" in page.of_class("bad")[0].text


async def test_damaged_conversations_are_listed_and_their_pages_say_why(pages: Served) -> None:
    damage(pages.data, ONE)
    (pages.data / "conversations" / TWO / MARK).write_text("journal.jsonl: it was odd.\n")
    page = await pages.get("/conversations")
    assert {chip.text for chip in page.of_class("chip")} >= {"unread", "quarantined"}
    assert "it was odd" in " ".join(element.text for element in page.of_class("bad"))
    broken = await pages.get(f"/c/{ONE}", 500)
    assert "line " in broken.of_class("bad")[0].text
    for path in ("/c/nothing", f"/c/{THREE}", f"/c/{THREE}/usage", "/no/page"):
        await pages.get(path, 404)


async def test_a_story_holds_every_line_of_show(pages: Served, tenex: Tenex) -> None:
    """`tenex conversations show` prints the heads and texts of the same entries."""
    shown = await printed(tenex, f"conversations show {TWO[:4]}", "--data", pages.data)
    page = await pages.get(f"/c/{TWO}")
    text = " ".join(" ".join(entry.text for entry in page.of_class("entry")).split())
    lines = [" ".join(line.split()) for line in shown.splitlines()[2:-1]]
    assert len(lines) > 20
    for line in lines:
        words = line.lstrip("·⚙✗■┄= ").split(" ")
        assert words[0] in text, line
    messages = [int(entry.attributes["data-seq"]) for entry in page.of_class("is-message")]
    assert messages == sorted(messages)
    assert len(messages) > 5


async def test_calls_reasons_refusals_and_costs_are_told(pages: Served) -> None:
    page = await pages.get(f"/c/{ONE}")
    text = " ".join(entry.text for entry in page.of_class("entry"))
    for words in ("given: path", "Result", "The answer that was refused", "decided by the orchestrator"):
        assert words in text, words
    assert "tokens in" in text


async def test_the_head_shows_where_the_conversation_is(pages: Served) -> None:
    page = await pages.get(f"/c/{TWO}")
    (head,) = page.all("div", id="head")
    assert head.text.split()[0] == "waiting"
    assert "waits for your answer" in head.text
    assert "in execute, cycle 1" in head.text
    assert "Helper" in head.text
    assert "Helper asks: Which colour?" in head.text


async def test_what_waits_is_shown_with_the_question_first(pages: Served) -> None:
    page = await pages.get("/")
    (ask,) = page.of_class("ask")
    assert "Which colour?" in ask.text
    assert "Helper" in ask.text


async def test_what_an_agent_was_sent_is_what_was_recorded(pages: Served, data: Path) -> None:
    disk = Disk()
    records = await ConversationFolder(data / "conversations", disk, StillClock()).read(TWO)
    disk.close()
    run = next(record for record in records if isinstance(record, RunStarted))
    page = await pages.get(f"/c/{TWO}/sent/{run.seq}")
    assert "You are an agent." in page.all("pre")[0].text
    assert "I want something nice" in " ".join(element.text for element in page.all("pre"))
    await pages.get(f"/c/{TWO}/sent/1", 404)
    await pages.get(f"/c/{TWO}/diff/1", 404)


async def test_the_figures_are_those_of_stats(pages: Served, tenex: Tenex) -> None:
    expected = json.loads(await printed(tenex, f"conversations stats {ONE}", "--json", "--data", pages.data))
    page = await pages.get(f"/c/{ONE}/usage")
    tables = [element.text for element in page.all("table")]
    assert len(tables) == 3
    for name, usage in expected["models"].items():
        assert name in tables[1]
        assert f"{usage['inputTokens']:,}" in tables[1]
    whole = await pages.get("/usage")
    total = json.loads(await printed(tenex, "conversations stats", "--json", "--data", pages.data))["total"]
    assert f"{total['turns']}" in whole.all("dl")[0].text


async def test_the_daemon_s_page_says_that_none_runs(pages: Served) -> None:
    page = await pages.get("/daemon")
    assert "stopped" in page.all("h1")[0].text
    assert "1 ended" in page.all("dl")[0].text
    assert "1 waiting" in page.all("dl")[0].text


async def test_the_daemon_s_page_shows_mcp_servers_signers_and_commands_in_the_background(
    pages: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = await pages.site.source.status()
    served = {"name": "files", "state": "ready", "tools": 3, "calls": 7, "failures": 1, "starts": 2}
    refused = {"name": "<b>", "state": "refused", "why": "no <program>"}
    command = {"id": "shell-1", "conversation": ONE, "agent": "executor", "seconds": 61.0, "command": "make <watch>"}
    at = "2026-01-02T03:04:05.000Z"
    silent = {"name": "project", "npub": "npub1", "relays": ["wss://relay.example"], "state": "silent", "why": "<i>"}
    asks = {**silent, "name": "planner", "state": "asks", "why": "https://signer.example/<allow>"}
    late = [
        {**silent, "silentSince": at, "waiting": 3, "waitingSince": at},
        {**asks, "silentSince": None, "waiting": 0, "waitingSince": None},
    ]
    report |= {"mcp": [served, refused], "background": [command], "signers": late}

    async def status() -> dict[str, Any]:
        return report

    monkeypatch.setattr(pages.site.source, "status", status)
    page = await pages.get("/daemon")
    rows = [element.text for element in page.all("tr")]
    assert any("files" in row and "ready" in row for row in rows)
    assert any("<b>" in row and "no <program>" in row for row in rows)
    assert any("make <watch>" in element.text for element in page.all("li"))
    assert any("project" in row and "silent" in row and "3" in row and "<i>" in row for row in rows)
    assert any("planner" in row and "allow it at https://signer.example/<allow>" in row for row in rows)
    assert "https://signer.example/<allow>" in [element.attributes.get("href") for element in page.all("a")]


async def test_the_doctor_is_asked_by_a_form(pages: Served) -> None:
    answer = await pages.post("/daemon/doctor", await pages.form("/daemon", "/daemon/doctor"))
    assert answer.status_code == 303
    page = await pages.get("/daemon")
    checks = {element.text for element in page.all("b")}
    assert {"settings", "keys", "folders"} <= checks


async def test_agents_are_shown_with_their_prompts(pages: Served) -> None:
    page = await pages.get("/agents")
    text = " ".join(element.text for element in page.all("li"))
    assert "executor" in text
    assert "orchestrator" in text
    assert page.all("pre")


@pytest.mark.parametrize("each", [40, 1])
async def test_a_long_story_is_read_a_file_at_a_time(data: Path, monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    """All pages together hold all, also where the newest file has nothing but its snapshot."""
    monkeypatch.setattr(journal, "FILE_BYTES", 1)
    monkeypatch.setattr(journal, "PER_SNAPSHOT", 0)
    monkeypatch.setattr(source, "ENTRIES", 7)
    shutil.rmtree(data / "conversations")
    scenario = longest_scenario()
    disk = Disk()
    folder = ConversationFolder(data / "conversations", disk, StillClock())
    await write_rotated(folder, scenario.journal, each)
    await folder.close()
    disk.close()
    name = scenario.conversation.id
    assert len(list((data / "conversations" / name).glob("journal*.jsonl"))) >= 4
    story = Story(name)
    entries = [entry for record in scenario.records() for entry in story.take(record)]
    everything = [entry.seq for entry in entries]
    executors = {entry.seq for entry in entries if entry.has("executor")}
    async with served(data) as pages:
        seqs: list[int] = []
        path = f"/c/{name}"
        while path:
            page = await pages.get(path)
            seqs = [*page.seqs, *seqs]
            earlier = page.all("a", id="earlier")
            path = earlier[0].attributes["href"].removeprefix(pages.site.base) if earlier else ""
        assert seqs == everything
        found = set[int]()
        path = f"/c/{name}?find=executor"
        while path:
            page = await pages.get(path)
            found |= set(page.seqs)
            earlier = page.all("a", id="earlier")
            path = earlier[0].attributes["href"].removeprefix(pages.site.base) if earlier else ""
        assert found == executors
        middle = everything[len(everything) // 2]
        around = await pages.get(f"/c/{name}?around={middle}")
        assert middle in around.seqs
        assert around.all("a", id="earlier")
        assert "earlier part" in around.of_class("notice")[0].text


HISTORIES = sorted(path.parent for path in ROOT.glob("*/journal.jsonl"))


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.name)
def test_every_recorded_history_can_be_told_and_drawn(history: Path) -> None:
    """Of whatever kind the conversation is: nothing is outside the drawing, and every bar leads to an entry."""
    from tenex.store.format import CONVERSATION
    from tenex.store.journal_reader import peek

    records = peek(history / "journal.jsonl", CONVERSATION)
    name = ConversationId(getattr(records[0], "id", history.name))
    story = Story(name)
    entries = [entry for record in records for entry in story.take(record)]
    assert story.state == fold(name, records)
    shown = project(story.state)
    drawn = timeline_of(shown)
    if drawn is None:
        return
    seqs = {entry.seq for entry in entries}
    turns = [str(turn.turn_id) for turn in shown.history.turns]
    parts = [timeline_of(shown, turns=[turn]) for turn in turns]
    panel = timeline_of(shown, turns=turns[-3:], width=390)
    for each in filter(None, (drawn, panel, *parts)):
        for bar in each.bars:
            assert LEFT <= bar.x <= bar.x + bar.width <= each.width + 0.5
            assert 0 <= bar.y <= bar.y + bar.height <= each.axis
            assert not bar.seq or bar.seq in seqs, bar
        assert each.ticks
        assert all(LEFT <= tick.x <= each.width - LABEL for tick in each.ticks)
    assert panel is None or panel.left_out >= len(turns) - 3
    closed = [record for record in records if isinstance(record, TurnClosed)]
    assert len([entry for entry in entries if entry.head.endswith(" is over")]) <= len(closed)


async def test_what_happened_since_this_browser_looked_is_marked(data: Path) -> None:
    _, after = split(TWO)
    async with served(data) as pages:
        assert await marked(pages) == set(), "what was there at the login is not new"
        later = Millis(time.time_ns() // 1_000_000 + 60_000)
        await append(data, TWO, *[tuple(replace(record, at=later) for record in each) for each in after])
        assert await marked(pages) == {TWO}
        session = next(iter(pages.site.logins._sessions.values()))
        session._visits[TWO] = later + 1
        assert await marked(pages) == set()
        assert session.is_new(TWO, later + 2)
        await pages.get(f"/c/{TWO}")
        assert session._visits[TWO] < later, "it was looked at now"


async def marked(pages: Served) -> set[str]:
    """The conversations that the list marks as new."""
    page = await pages.get("/conversations")
    return {name for name in (ONE, TWO) if any(name in row.attributes["href"] for row in page.of_class("is-new"))}
