"""Models that play badly, over real HTTP: repaired, held or given up, reported to the user once, resumed by itself."""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.records import Record
from tenex.nostr.embedded import embedded_relay
from tests.fakes.modelprotocol import Answer, Breaks, Call, Closes, Fails, Hangs, Json, Reply, Sends, nonsense
from tests.fakes.modelscripts import Asked, Team, straight, swift
from tests.fakes.modelserver import Exchange, ModelServer, model_server

from . import person
from .kit import Folder, of_kind
from .loopback import QUICK, agree, folder_with_model, serving, settled, spent

GOOD = json.dumps({"agents": ["executor"], "phase": "execute", "reason": "the request is clear"})
END = json.dumps({"agents": ["END"], "reason": "all is done"})
SECRET = "No one may read this."
LATE = "2"
"""Seconds a call may take here."""
BYTES = b"<html><body>Bad gateway</body></html>"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Bad replies to the first requests of somebody in a conversation, and what has to follow from them."""

    to: str
    """`router`, or the phase whose agent it is."""
    replies: tuple[Reply, ...]
    follows: Mapping[type[Record], int] = field(default_factory=dict)
    """How many records of a kind there must be; of those not named here none is allowed."""


def _texts(*texts: str) -> tuple[Reply, ...]:
    return tuple(Answer(text=text) for text in texts)


def _calls(tool: str, arguments: Json | str) -> tuple[Reply, ...]:
    return (Answer(calls=(Call(tool=tool, arguments=arguments),)),)


BROKEN = Breaks(answer=Answer(text=nonsense(400)), after=5)
CASES: dict[str, Case] = {
    # content: repaired by a sentence the model can act on
    "no JSON": Case(to="router", replies=_texts("The executor shall do it."), follows={r.RouteRejected: 1}),
    "wrong types": Case(
        to="router",
        replies=_texts('{"agents": 7}', '{"agents": ["executor"], "phase": ["execute"], "reason": {}}'),
        follows={r.RouteRejected: 2},
    ),
    "agents as a string": Case(to="router", replies=_texts(GOOD.replace('["executor"]', '"executor"'))),
    "a fence and prose": Case(to="router", replies=_texts(f"Well.\n```json\n{GOOD}\n```\nThat is all.")),
    "two answers in one": Case(to="router", replies=_texts(f"{END}\n{GOOD}")),
    "a thought to the router": Case(to="router", replies=_texts(f"{END} {SECRET}</think>\n{GOOD}")),
    "a thought, and a call written as text": Case(
        to="execute",
        replies=_texts(
            f'{SECRET}</think>\n<tool_call>{{"name": "teleport", "arguments": {{"to": "Mars"}}}}</tool_call>'
        ),
        follows={r.ToolCallRejected: 1},
    ),
    "nonsense to the router": Case(to="router", replies=_texts(nonsense(10_000)), follows={r.RouteRejected: 1}),
    "an unknown name": Case(
        to="router",
        replies=_texts(GOOD.replace("executor", "wizard")),
        follows={r.RouteRejected: 1, r.RouterCorrected: 1},
    ),
    "a tool that is none": Case(
        to="execute", replies=_calls("teleport", {"to": "Mars"}), follows={r.ToolCallRejected: 1}
    ),
    "a tool of another phase": Case(
        to="verification",
        replies=_calls("write_file", {"path": "x.txt", "content": "x"}),
        follows={r.ToolCallRejected: 1},
    ),
    "arguments that are no JSON": Case(
        to="execute", replies=_calls("edit_file", '{"path": "evil.txt", "old": '), follows={r.ToolCallRejected: 1}
    ),
    "arguments that are no object": Case(
        to="execute", replies=_calls("edit_file", '["evil.txt", "x"]'), follows={r.ToolCallRejected: 1}
    ),
    "an empty answer": Case(to="execute", replies=_texts(""), follows={r.ModelReprompted: 1}),
    "no verdict": Case(to="verification", replies=_texts("It looks fine."), follows={r.ModelReprompted: 1}),
    "cut off by length": Case(
        to="execute", replies=(Answer(text="I wro", finish="length"),), follows={r.ModelReprompted: 1}
    ),
    "filtered": Case(to="execute", replies=(Answer(text="", finish="content_filter"),), follows={r.ModelReprompted: 1}),
    # transport: tried again, and not reported
    "a 500": Case(to="execute", replies=(Fails(),), follows={r.RetryScheduled: 1}),
    "a 500 to the router": Case(to="router", replies=(Fails(),), follows={r.RetryScheduled: 1}),
    "a 529": Case(to="execute", replies=(Fails(status=529, message="overloaded"),), follows={r.RetryScheduled: 1}),
    "a broken stream": Case(to="execute", replies=(BROKEN, BROKEN), follows={r.RetryScheduled: 2}),
    "a broken stream to the router": Case(to="router", replies=(BROKEN,), follows={r.RetryScheduled: 1}),
    "a closed socket": Case(to="execute", replies=(Closes(),), follows={r.RetryScheduled: 1}),
    "a page of HTML": Case(
        to="execute", replies=(Sends(body=BYTES, content_type="text/html"),), follows={r.RetryScheduled: 1}
    ),
    "a reply after the deadline": Case(
        to="execute", replies=(Answer(text="too late", delay=20),), follows={r.RetryScheduled: 1}
    ),
    "no reply at all": Case(to="router", replies=(Hangs(),), follows={r.RetryScheduled: 1}),
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
        """Play badly while it is due."""
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
    """The conversation comes to its end by itself; what was wrong is on record; the person reads nothing of it."""
    records = played.folder.records(played.names[case])
    counts = Counter(type(record) for record in records if isinstance(record, COUNTED))
    assert counts == Counter(CASES[case].follows)
    assert (played.folder.workspace / FILES[case]).read_text() == f"{FILES[case]}: all done\n"
    assert not [text for text in played.sent[played.names[case]] if TROUBLE.search(text)]
    assert not [text for text in played.sent[played.names[case]] if SECRET in text or "<tool_call>" in text]


def test_what_bad_answers_cost_is_counted_to_the_token(played: Played) -> None:
    """Refused, of no use, repaired: whatever was delivered was paid for."""
    agree(played.server, [usage for name in played.names.values() for usage in spent(played.folder.records(name))])


def test_nothing_bad_was_carried_out_or_crashed_anything(played: Played) -> None:
    made = {path.name for path in played.folder.workspace.iterdir()}
    assert made == {*FILES.values(), *(file.replace(".txt", ".md") for file in FILES.values())}
    assert not [log for log in played.log if log["level"] in ("error", "critical")]
    assert played.server.refused == []


def test_a_refusal_advises_the_model(played: Played) -> None:
    """The sentence reaches the model with its next request."""
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


def notices(folder: Folder, texts: list[str]) -> list[str]:
    """What the person read about a model that cannot be reached."""
    return [text for text in texts if "cannot be reached" in text]


async def test_five_429s_are_waited_out_as_long_as_the_server_asks(tmp_path: Path, relay: str) -> None:
    """Retry-After is kept; the retry table ends before the fifth, so the work is held, and the user notified once."""
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
    assert len(notices(folder, (await words(folder))[name])) == 1
    assert [record.on_hold for record in of_kind(folder.records(name), r.RetryScheduled)] == [False] * 3 + [True] * 2


async def held_until_repaired(folder: Folder, server: ModelServer, file: str, repair: Any, **env: str) -> list[str]:
    """Have a conversation run into trouble, repair it after the notice and more failures; returns our messages."""
    async with serving(folder, server, **env) as process:
        name = await folder.write(f"Write {file}.")
        await person.until(
            lambda: sum(record.on_hold for record in of_kind(folder.records(name), r.RetryScheduled)) >= 3
        )
        assert not (folder.workspace / file).exists()
        await repair()
        await settled(folder, name)
        assert (folder.workspace / file).read_text() == f"{file}: all done\n"
        assert await process.stop() == 0
    agree(server, spent(folder.records(name)))
    return (await words(folder))[name]


async def test_a_closed_port_holds_the_work_until_it_opens(tmp_path: Path, relay: str) -> None:
    """Reported once, however often it was tried; it goes on by itself."""
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        await server.down()
        sent = await held_until_repaired(folder, server, "note-05.txt", server.up)
    assert len(notices(folder, sent)) == 1


@pytest.mark.soak
async def test_a_port_closed_for_a_minute_in_the_middle_of_work(tmp_path: Path, relay: str) -> None:
    """With the delays people have, in the middle of a stream of work."""
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, "[limits]\nhold_for = 20\n")
        async with serving(folder, server) as process:
            names = [await folder.write(f"Write note-{number}.txt.") for number in range(10, 15)]
            await server.until(lambda s: len(s.delivered()) > 12)
            await server.down()
            await asyncio.sleep(60)  # the minute is what is tested
            await server.up()
            for name in names:
                await settled(folder, name, within=120)
            assert await process.stop() == 0
        sent = await words(folder)
        assert all(len(notices(folder, sent[name])) <= 1 for name in names)
        assert any(notices(folder, sent[name]) for name in names)


async def test_a_wrong_key_is_reported_once_and_the_work_goes_on_once_it_is_right(tmp_path: Path, relay: str) -> None:
    """401 does not pass by itself, but the work is not lost; no word of ours holds the key."""
    wrong = "sk-no-longer-valid"
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)

        async def repair() -> None:
            server.key = wrong

        sent = await held_until_repaired(folder, server, "note-06.txt", repair, LOCAL_KEY=wrong)
        assert len(notices(folder, sent)) == 1
        assert "key" in notices(folder, sent)[0]
    everything = [path.read_text() for path in (folder.data / "conversations").rglob("*.json*") if path.is_file()]
    assert not [text for text in [*sent, *everything] if wrong in text]


async def test_a_router_that_never_answers_well_leaves_the_word_to_the_person(tmp_path: Path, relay: str) -> None:
    """Three refusals, one message that names what was refused, and the next message tries again."""
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


async def test_an_agent_that_never_answers_well_fails_and_the_router_is_informed(tmp_path: Path, relay: str) -> None:
    """Given up after three tries with the reason; the router decides what becomes of the request."""
    seen: list[Json] = []

    def router(question: Json) -> Mapping[str, Any]:
        seen.append(question)
        return {"agents": ["USER"], "reason": "it failed"} if question["turns"] else straight(question)

    def worker(asked: Asked) -> Reply:
        return Answer(text="I was cut", finish="length")

    async with model_server(Team(router, worker)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-08.txt.")
            await settled(folder, name, "waiting")
            assert await process.stop() == 0
        (turn,) = seen[-1]["turns"]
        assert [(done["agent"], done["outcome"]) for done in turn["completions"]] == [("executor", "failed")]
        worked: list[Exchange] = [e for e in server.delivered() if Asked(e.request).question is None]
        assert len(worked) == 3
        agree(server, spent(folder.records(name)))


@pytest.mark.soak
async def test_those_who_wait_for_a_busy_provider_are_not_given_up(tmp_path: Path, relay: str) -> None:
    """One answer at a time for eight conversations: each waits longer in the queue than its agents may work."""
    pace, most = 0.25, 2.5
    team = Team(straight, swift)

    async def model(request: Json) -> Reply:
        await asyncio.sleep(pace)
        return team(request)

    settings = f"[limits.expectations.default]\nwarn_after = {most}\nclose_after = {most}\n"
    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, settings)
        async with serving(folder, server, TENEX_MODELS__PROVIDERS__LOCAL__CONCURRENCY="1") as process:
            names = [await folder.write(f"Write note-{number}.txt.") for number in range(20, 28)]
            for name in names:
                await settled(folder, name, within=120)
            assert await process.stop() == 0
        agree(server, [usage for name in names for usage in spent(folder.records(name))])
    records = [folder.records(name) for name in names]
    queued = [sum(record.step.queued for record in of_kind(each, r.ModelResponded)) for each in records]
    assert max(queued) > most * 1000, "no call waited: this shows nothing"
    assert {record.outcome for each in records for record in of_kind(each, r.RunEnded)} == {"finished"}
