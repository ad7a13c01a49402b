"""Models that play badly, over real HTTP: repaired, held or given up, reported to the user once, resumed by itself."""

import asyncio
import json
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.nostr.embedded import embedded_relay
from tests.fakes.modelprotocol import Answer, Breaks, Call, Closes, Fails, Hangs, Json, Reply, Sends, nonsense
from tests.fakes.modelscripts import Asked, Team, straight, swift
from tests.fakes.modelserver import ModelServer, model_server

from . import person
from .kit import Folder, daemon, of_kind
from .loopback import MODEL, QUICK, agree, folder_with_model, serving, settled, spent

GOOD = json.dumps({"agents": ["executor"], "phase": "execute", "reason": "the request is clear"})
END = json.dumps({"agents": ["END"], "reason": "all is done"})
SECRET = "No one may read this."
LATE = "2"
"""Seconds a call may take here."""
BYTES = b"<html><body>Bad gateway</body></html>"


@dataclass(frozen=True)
class Case:
    """Bad replies to the first requests of somebody in a conversation, and what has to follow from them."""

    to: str
    """`router`, or the phase whose agent it is."""
    replies: tuple[Reply, ...]
    follows: Mapping[type[Any], int] = field(default_factory=dict)
    """How many records of a kind there must be; of those not named here none is allowed."""


def _texts(*texts: str) -> tuple[Reply, ...]:
    return tuple(Answer(text=text) for text in texts)


def _calls(tool: str, arguments: Json | str) -> tuple[Reply, ...]:
    return (Answer(calls=(Call(tool=tool, arguments=arguments),)),)


BROKEN = Breaks(answer=Answer(text=nonsense(400)), after=5)
REFUSED, REPROMPTED, TRIED_AGAIN = {r.ToolCallRejected: 1}, {r.ModelReprompted: 1}, {r.RetryScheduled: 1}
WRONG_TYPES = _texts('{"agents": 7}', '{"agents": ["executor"], "phase": ["execute"], "reason": {}}')
THOUGHT = _texts(f'{SECRET}</think>\n<tool_call>{{"name": "teleport", "arguments": {{"to": "Mars"}}}}</tool_call>')
CASES: dict[str, Case] = {
    # content: repaired by a sentence the model can act on
    "no JSON": Case("router", _texts("The executor shall do it."), {r.RouteRejected: 1}),
    "wrong types": Case("router", WRONG_TYPES, {r.RouteRejected: 2}),
    "agents as a string": Case("router", _texts(GOOD.replace('["executor"]', '"executor"'))),
    "a fence and prose": Case("router", _texts(f"Well.\n```json\n{GOOD}\n```\nThat is all.")),
    "two answers in one": Case("router", _texts(f"{END}\n{GOOD}")),
    "a thought to the router": Case("router", _texts(f"{END} {SECRET}</think>\n{GOOD}")),
    "a thought, and a call written as text": Case("execute", THOUGHT, REFUSED),
    "nonsense to the router": Case("router", _texts(nonsense(10_000)), {r.RouteRejected: 1}),
    "an unknown name": Case(
        "router", _texts(GOOD.replace("executor", "wizard")), {r.RouteRejected: 1, r.RouterCorrected: 1}
    ),
    "a tool that is none": Case("execute", _calls("teleport", {"to": "Mars"}), REFUSED),
    "a tool of another phase": Case("verification", _calls("write_file", {"path": "x.txt", "content": "x"}), REFUSED),
    "arguments that are no JSON": Case("execute", _calls("edit_file", '{"path": "evil.txt", "old": '), REFUSED),
    "arguments that are no object": Case("execute", _calls("edit_file", '["evil.txt", "x"]'), REFUSED),
    "an empty answer": Case("execute", _texts(""), REPROMPTED),
    "no verdict": Case("verification", _texts("It looks fine."), REPROMPTED),
    "cut off by length": Case("execute", (Answer(text="I wro", finish="length"),), REPROMPTED),
    "filtered": Case("execute", (Answer(text="", finish="content_filter"),), REPROMPTED),
    # transport: tried again, and not reported
    "a 500": Case("execute", (Fails(),), TRIED_AGAIN),
    "a 500 to the router": Case("router", (Fails(),), TRIED_AGAIN),
    "a 529": Case("execute", (Fails(status=529, message="overloaded"),), TRIED_AGAIN),
    "a broken stream": Case("execute", (BROKEN, BROKEN), {r.RetryScheduled: 2}),
    "a broken stream to the router": Case("router", (BROKEN,), TRIED_AGAIN),
    "a closed socket": Case("execute", (Closes(),), TRIED_AGAIN),
    "a page of HTML": Case("execute", (Sends(body=BYTES, content_type="text/html"),), TRIED_AGAIN),
    "a reply after the deadline": Case("execute", (Answer(text="too late", delay=20),), TRIED_AGAIN),
    "no reply at all": Case("router", (Hangs(),), TRIED_AGAIN),
}
FILES = {name: f"case-{place:02}.txt" for place, name in enumerate(CASES, 1)}
COUNTED = (r.RouteRejected, r.RouterCorrected, r.ToolCallRejected, r.ModelReprompted, r.RetryScheduled)
TROUBLE = re.compile(r"cannot be reached|could not decide|could not be used", re.IGNORECASE)


class Trouble:
    """A good team, but for the replies that the cases want first; it distinguishes conversations by their file."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self._team = Team(straight, swift)
        self._due = {FILES[name]: list(case.replies) for name, case in cases.items()}
        self._to = {FILES[name]: case.to for name, case in cases.items()}

    def __call__(self, request: Json) -> Reply:
        asked = Asked(request)
        if asked.question is not None:
            who, file = "router", asked.question["messages"][0]["text"].split()[1].rstrip(".")
        else:
            who, file = asked.phase, asked.file
        if self._to[file] == who and self._due[file]:
            return self._due[file].pop(0)
        return self._team(request)


@dataclass(frozen=True)
class Played:
    """What became of the cases: all in one daemon, at the same time."""

    folder: Folder
    server: ModelServer
    names: Mapping[str, str]
    sent: Mapping[str, list[str]]
    """What the relay holds of ours, by conversation."""
    log: list[dict[str, Any]]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    data = tmp_path_factory.mktemp("cases") / "data"

    async def hold() -> Played:
        async with embedded_relay() as url, model_server(Trouble(CASES)) as server:
            folder = folder_with_model(data, url, server, QUICK)
            async with serving(folder, server, TENEX_MODELS__TIMEOUT=LATE) as process:
                names = {name: await folder.write(f"Write {FILES[name]}.") for name in CASES}
                for conversation in names.values():
                    await settled(folder, conversation, within=90)
                assert await process.stop() == 0
            sent = await words(folder)
        return Played(folder, server, names, sent, process.logs)

    with ThreadPoolExecutor(1) as thread:  # pytest-asyncio owns the loop of this one
        return thread.submit(asyncio.run, hold()).result()


async def words(folder: Folder) -> dict[str, list[str]]:
    """Our messages on the relay, by the root of its thread."""
    sent: dict[str, list[str]] = defaultdict(list)
    for event in await person.stored(folder.url, authors=sorted(folder.public_keys), kinds=[1]):
        root = next(tag[1] for tag in event["tags"] if tag[0] == "e" and "root" in tag)
        sent[root].append(event["content"])
    return sent


@pytest.mark.parametrize("case", CASES)
def test_a_bad_answer_is_repaired_without_a_notice(played: Played, case: str) -> None:
    records = played.folder.records(played.names[case])
    counts = Counter(type(record) for record in records if isinstance(record, COUNTED))
    assert counts == Counter(CASES[case].follows)
    assert (played.folder.workspace / FILES[case]).read_text() == f"{FILES[case]}: all done\n"
    assert not [text for text in played.sent[played.names[case]] if TROUBLE.search(text)]
    assert not [text for text in played.sent[played.names[case]] if SECRET in text or "<tool_call>" in text]


def test_what_bad_answers_cost_is_counted_to_the_token(played: Played) -> None:
    agree(played.server, [usage for name in played.names.values() for usage in spent(played.folder.records(name))])


def test_nothing_bad_was_carried_out_or_crashed_anything(played: Played) -> None:
    made = {path.name for path in played.folder.workspace.iterdir()}
    assert made == {*FILES.values(), *(file.replace(".txt", ".md") for file in FILES.values())}
    assert not [log for log in played.log if log["level"] in ("error", "critical")]
    assert played.server.refused == []


def test_a_refusal_advises_the_model(played: Played) -> None:
    expected = {
        "no JSON": "no JSON object",
        "an unknown name": "There is no agent 'wizard'",
        "a tool that is none": "teleport",
        "arguments that are no JSON": "JSON",
        "cut off by length": "could not be used",
    }
    requests = [exchange.request for exchange in played.server.delivered()]
    for case, sentence in expected.items():
        file = FILES[case]
        texts = [json.dumps(request["messages"], ensure_ascii=False) for request in requests]
        assert any(file in text and sentence in text for text in texts), case


# ---- faults that last until they are repaired -------------------------------------------------------------------


def notices(texts: list[str]) -> list[str]:
    """What the person read about a model that cannot be reached."""
    return [text for text in texts if "cannot be reached" in text]


async def test_five_429s_are_waited_out_as_long_as_the_server_asks(tmp_path: Path, relay: str) -> None:
    team, limited = Team(straight, swift), Fails(status=429, message="slow down", headers={"retry-after": "1"})
    left = [limited] * 5

    def model(request: Json) -> Reply:
        return left.pop() if left else team(request)

    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-04.txt.")
            await settled(folder, name)
            assert await process.stop() == 0
        tries = server.exchanges[:6]
        assert [exchange.outcome for exchange in tries] == ["failed"] * 5 + ["delivered"]
        gaps = [after.began - before.ended for before, after in pairwise(tries)]
        assert all(gap >= 0.9 for gap in gaps), gaps  # ms are rounded on the way
        agree(server, spent(folder.records(name)))
    assert len(notices((await words(folder))[name])) == 1
    assert [record.on_hold for record in of_kind(folder.records(name), r.RetryScheduled)] == [False] * 3 + [True] * 2


async def test_a_closed_port_holds_the_work_until_it_opens(tmp_path: Path, relay: str) -> None:
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        await server.down()
        async with serving(folder, server) as process:
            name = await folder.write("Write note-05.txt.")
            await person.until(
                lambda: sum(record.on_hold for record in of_kind(folder.records(name), r.RetryScheduled)) >= 2
            )
            assert not (folder.workspace / "note-05.txt").exists()
            await server.up()
            await settled(folder, name)
            assert await process.stop() == 0
        agree(server, spent(folder.records(name)))
    assert (folder.workspace / "note-05.txt").exists()
    assert len(notices((await words(folder))[name])) == 1


async def test_a_wrong_key_is_reported_once_and_the_work_goes_on_once_the_right_one_was_read(
    tmp_path: Path, relay: str
) -> None:
    wrong, patient = "sk-a-wrong-one", "[limits]\nretry_delays = []\nhold_for = 3600\n"
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, patient)
        stored = folder.data / "keys" / "local.api-key"
        stored.touch(0o600)
        stored.write_text(wrong)
        async with daemon(folder, TENEX_MODELS__DEFAULT=MODEL) as process:
            name = await folder.write("Write note-06.txt.")
            await person.until(lambda: (question := folder.state(name).question) and question.retry)
            stored.write_text(f"{server.key}\n")
            process.signal(signal.SIGHUP)
            await settled(folder, name)
            assert await process.stop() == 0
        assert (folder.workspace / "note-06.txt").exists()
        agree(server, spent(folder.records(name)))
        sent = (await words(folder))[name]
    (notice,) = notices(sent)
    assert "key" in notice
    everything = [path.read_text() for path in (folder.data / "conversations").rglob("*.json*") if path.is_file()]
    assert not [text for text in [*sent, *everything] if wrong in text or server.key in text]


async def test_a_router_that_never_answers_well_leaves_the_word_to_the_person(tmp_path: Path, relay: str) -> None:
    team, good = Team(straight, swift), list[bool]()

    def model(request: Json) -> Reply:
        asked = Asked(request)
        return team(request) if good or asked.question is None else Answer(text="I would rather not.")

    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-07.txt.")
            await settled(folder, name, "waiting")
            assert len(server.exchanges) == 3
            sent = (await words(folder))[name]
            assert len(sent) == 1
            assert "it did not answer in the form that is asked for" in sent[0]
            good.append(True)
            await folder.write("Please try again.", to=name)
            await settled(folder, name, "ended", messages=2)
            assert await process.stop() == 0
        agree(server, spent(folder.records(name)))


async def test_an_agent_that_repeats_a_refused_call_costs_few_requests(tmp_path: Path, relay: str) -> None:
    def worker(asked: Asked) -> Reply:
        return Answer(calls=(Call(tool="teleport", arguments={"to": "Mars"}),))

    def router(question: Json) -> Json:
        return {"agents": ["executor"], "phase": "execute", "reason": "once more"}

    async with model_server(Team(router, worker)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-01.txt.")
            await settled(folder, name, "waiting")
            assert await process.stop() == 0
        assert len(server.exchanges) == 8
    records = folder.records(name)
    assert [record.limit for record in of_kind(records, r.LimitReached)] == ["same_failure"]
    sent = (await words(folder))[name]
    assert sum("has stopped" in text or "have stopped" in text for text in sent) == 1
    assert any("There is no tool teleport" in text and "`/continue`" in text for text in sent)


async def test_the_user_is_notified_once_of_a_router_that_never_answers(tmp_path: Path, relay: str) -> None:
    team, hangs = Team(straight, swift), [True]

    def model(request: Json) -> Reply:
        return Hangs() if Asked(request).question is not None and hangs and hangs.pop() else team(request)

    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, f"{QUICK}router_warn_after = 1\n")
        async with serving(folder, server, TENEX_MODELS__TIMEOUT="2") as process:
            name = await folder.write("Write note-02.txt.")
            await settled(folder, name)
            assert await process.stop() == 0
    (delayed,) = of_kind(folder.records(name), r.RouteDelayed)
    (asked,) = [record for record in of_kind(folder.records(name), r.RouteRequested) if record.seq < delayed.seq]
    assert delayed.at - asked.at < 2_000, "before the first try has timed out"
    sent = (await words(folder))[name]
    assert [text for text in sent if "has not answered" in text] == [
        "The orchestrator's model local:test has not answered for 1 s. I keep trying; `/stop` ends it."
    ]
    assert (folder.workspace / "note-02.txt").exists()


async def test_continue_goes_through_a_pause_the_provider_asked_for(tmp_path: Path, relay: str) -> None:
    team, left = Team(straight, swift), [Fails(status=429, message="slow down", headers={"retry-after": "600"})]

    def model(request: Json) -> Reply:
        return left.pop() if left else team(request)

    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-03.txt.")
            await person.until(lambda: of_kind(folder.records(name), r.RetryScheduled))
            await folder.write("/continue", to=name)
            await person.until(lambda: len(server.delivered()) == 1)
            assert await process.stop() == 0
