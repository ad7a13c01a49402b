"""Models that are stuck, over real HTTP: an agent that repeats itself, a router that never answers."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Answer, Call, Fails, Hangs, Json, Reply
from tests.fakes.modelscripts import Asked, Team, straight, swift
from tests.fakes.modelserver import model_server

from .kit import of_kind
from .loopback import QUICK, folder_with_model, serving, settled
from .person import until
from .test_bad_models import words


async def test_an_agent_that_repeats_a_refused_call_costs_few_requests(tmp_path: Path, relay: str) -> None:
    """Two runs of three steps each, then a notice reports what happened and what to try."""

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
    """However often the question times out; the work goes on by itself when the model answers."""
    team, hangs = Team(straight, swift), [True] * 3

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
    """The provider wants to be left alone for ten minutes; the person does not want to wait."""
    team, left = Team(straight, swift), [Fails(status=429, message="slow down", headers={"retry-after": "600"})]

    def model(request: Json) -> Reply:
        return left.pop() if left else team(request)

    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, QUICK)
        async with serving(folder, server) as process:
            name = await folder.write("Write note-03.txt.")
            await until(lambda: of_kind(folder.records(name), r.RetryScheduled))
            await folder.write("/continue", to=name)
            await until(lambda: len(server.delivered()) == 1)
            assert await process.stop() == 0
