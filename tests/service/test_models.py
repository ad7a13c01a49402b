"""Models behind OpenAI's protocol over real HTTP: what they were sent, what was done, what it cost, to the token."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tenex.core import records as r
from tests.fakes.modelprotocol import Fails, Json, Reply
from tests.fakes.modelscripts import Asked, Team, all_phases, brisk, straight
from tests.fakes.modelserver import Exchange, ModelServer

from .kit import FULL_CYCLE, Folder, of_kind, phases
from .loopback import QUICK, agree, at_work, billed, priced, rounded, settled, spent

WISH, IDEA, CHOICE = "I want a note-01.txt.", "Give me ideas for note-01.txt.", "Take the first one."
WAY = ["brainstorm", "plan", "execute", "verification", "execute", "verification", "chores", "reflection"]
"""The first draft is unfinished, so verification sends it back once."""


def of_agents(server: ModelServer) -> list[tuple[Asked, Exchange]]:
    pairs = [(Asked(exchange.request), exchange) for exchange in server.delivered()]
    return [(asked, exchange) for asked, exchange in pairs if asked.question is None]


def questions(server: ModelServer) -> list[Json]:
    asked = [Asked(exchange.request).question for exchange in server.delivered()]
    return [question for question in asked if question is not None]


async def through_all_phases(
    place: Path, relay: str, settings: str = "", **env: str
) -> tuple[Folder, ModelServer, str]:
    """One conversation from the first wish to END, in which the person has the word twice; routed after each turn."""
    env["TENEX_CONVERSATIONS__ROUTE_BY_RULE"] = "false"
    async with at_work(place, relay, Team(all_phases), settings, **env) as (folder, server):
        name = await folder.write(WISH)
        await settled(folder, name, "waiting", messages=1)
        await folder.write(IDEA, to=name)
        await settled(folder, name, "waiting", messages=2)
        await folder.write(CHOICE, to=name)
        await settled(folder, name, "ended", messages=3)
    assert phases(folder.view(name)) == WAY
    agree(server, spent(folder.records(name)))
    return folder, server, name


async def test_a_team_of_models_goes_through_all_phases(tmp_path: Path, relay: str) -> None:
    folder, server, name = await through_all_phases(tmp_path, relay)
    assert {exchange.stream for _, exchange in of_agents(server)} == {True}
    assert (folder.workspace / "note-01.txt").read_text() == "note-01.txt: all done\n"
    assert (folder.workspace / "note-01.md").read_text() == "# About note-01.txt\n"
    check_router(server)
    await check_figures(folder, server, name)


def check_router(server: ModelServer) -> None:
    """The router saw each message of the cycle, and each completion."""
    asked = questions(server)
    assert asked[0]["turns"] == []
    written = [WISH, IDEA, CHOICE]
    for before, question in zip([None, *asked], asked, strict=False):
        texts = [message["text"] for message in question["messages"]]
        assert texts == written[: len(texts)]
        assert before is None or len(question["turns"]) >= len(before["turns"])
        for turn in question["turns"]:
            assert sorted(done["agent"] for done in turn["completions"]) == sorted(turn["agents"])
            assert all(done["outcome"] == "finished" and done["text"] for done in turn["completions"])


def figures_in(messages: Iterable[Iterable[Sequence[str]]]) -> list[dict[str, str]]:
    """The tags with figures of each message that has some."""
    found = ({tag[0]: tag[1] for tag in tags if tag[0].startswith("llm-")} for tags in messages)
    return [figures for figures in found if figures]


async def check_figures(folder: Folder, server: ModelServer, name: str) -> None:
    """The server's log, the journal, the view, the tags on the relay and the statistics agree."""
    view = folder.view(name)
    assert rounded(view["usage"]) == billed(server.delivered())
    # each run's completion carries what the run cost, on the relay where it is published; the router never speaks
    messages = of_kind(folder.records(name), r.MessageSent)
    tagged = figures_in(message.tags for message in messages)
    published = figures_in(message.tags for message in messages if message.is_published)
    assert sorted(figures_in(event["tags"] for event in await folder.sent()), key=str) == sorted(published, key=str)
    assert 0 < len(published) < len(tagged)
    worked = [exchange for _, exchange in of_agents(server)]
    assert sum(int(tag["llm-prompt-tokens"]) for tag in tagged) == sum(e.input_tokens for e in worked)
    assert sum(int(tag["llm-completion-tokens"]) for tag in tagged) == sum(e.output_tokens for e in worked)
    for tag in tagged:
        prompt, completion = int(tag["llm-prompt-tokens"]), int(tag["llm-completion-tokens"])
        assert int(tag["llm-total-tokens"]) == prompt + completion
        assert round(float(tag["llm-cost-usd"]), 8) == round(priced(1, prompt, completion)["costUsd"], 8)
    # the statistics: by agent, by phase, by model
    stats = await folder.facts("conversations", "stats", name)
    assert rounded(stats["usage"]) == billed(server.delivered())
    by_agent: dict[str, list[Exchange]] = {"orchestrator": []}
    by_phase: dict[str, list[Exchange]] = {}
    for exchange in server.delivered():
        asked = Asked(exchange.request)
        is_router = asked.question is not None
        by_agent.setdefault("orchestrator" if is_router else asked.agent, []).append(exchange)
        by_phase.setdefault(asked.question["phase"] if asked.question else asked.phase, []).append(exchange)
    assert {agent: rounded(usage) for agent, usage in stats["agents"].items()} == {
        agent: billed(exchanges) for agent, exchanges in by_agent.items()
    }
    assert set(stats["phases"]) == set(view["phaseMetrics"]) == set(by_phase)
    for table in (stats["phases"], view["phaseMetrics"]):
        assert sum(of["usage"]["inputTokens"] for of in table.values()) == server.tokens().input
        assert sum(of["usage"]["outputTokens"] for of in table.values()) == server.tokens().output


async def test_each_question_goes_to_the_model_set_for_it_also_unstreamed(tmp_path: Path, relay: str) -> None:
    settings = """
[models.agents.executor]
model = "local:executor"
[models.agents.executor.phases]
verification = "local:strict"
"""
    special = {"TENEX_MODELS__ROUTER": "local:router", "TENEX_MODELS__PHASES__PLAN": "local:planner"}
    _, server, _ = await through_all_phases(tmp_path, relay, settings, TENEX_MODELS__STREAM="false", **special)
    assert {exchange.stream for exchange in server.exchanges} == {False}
    assert {e.request["model"] for e in server.exchanges if Asked(e.request).question} == {"router"}
    named = {(asked.agent, asked.phase): exchange.request["model"] for asked, exchange in of_agents(server)}
    assert named["planner", "plan"] == "planner"
    assert named["executor", "verification"] == "strict"
    assert named["executor", "execute"] == named["executor", "chores"] == "executor"
    assert named["project-manager", "chat"] == named["planner", "reflection"] == "test"


@pytest.mark.parametrize("lacks", ["response_format", "tool_choice"])
async def test_a_server_that_knows_less_is_asked_in_another_way(tmp_path: Path, relay: str, lacks: str) -> None:
    team = Team(straight)

    def model(request: Json) -> Reply:
        given = request.get(lacks)
        if given is not None and given != "auto":
            return Fails(status=400, message=f"Unrecognized request argument supplied: {lacks}")
        return team(request)

    async with at_work(tmp_path, relay, model, QUICK) as (folder, server):
        name = await folder.write("Write note-03.txt.")
        await settled(folder, name)
    # first with what is possible now as the schema, then with all of it
    assert len([exchange for exchange in server.exchanges if exchange.outcome == "failed"]) <= 2
    agree(server, spent(folder.records(name)))
    assert not [message for message in folder.view(name)["messages"] if "model" in message["text"].lower()]


def asked_of(server: ModelServer) -> list[str]:
    """Whose models were asked, in order, as `agent phase`."""
    seen = [Asked(exchange.request) for exchange in server.delivered()]
    return ["router" if asked.question is not None else f"{asked.agent} {asked.phase}" for asked in seen]


async def test_a_simple_request_takes_six_calls_one_after_another(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(straight, brisk)) as (folder, server):
        name = await folder.write("Create note-01.txt.")
        await settled(folder, name, "ended")
    assert phases(folder.view(name)) == FULL_CYCLE
    assert (folder.workspace / "note-01.txt").read_text() == "all done\n"
    made = asked_of(server)
    verification = ["project-manager verification"] * 2
    assert made[:5] == ["router", "executor execute", *verification, "executor chores"]
    verifying = Asked(server.delivered()[2].request)
    assert "You may use all your tools but `learn`, `hand_over`." in verifying.words
    assert made[5:] == ["executor reflection"], "who only verified has nothing to reflect on"


async def test_a_chat_message_takes_one_call_and_all_phases_sixteen(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(all_phases, brisk)) as (folder, server):
        name = await folder.write(WISH)
        await settled(folder, name, "waiting", messages=1)
        assert asked_of(server) == ["router", "project-manager chat"]
        await folder.write(IDEA, to=name)
        await settled(folder, name, "waiting", messages=2)
        assert asked_of(server)[2:] == ["project-manager chat", "project-manager brainstorm"]
        await folder.write(CHOICE, to=name)
        await settled(folder, name, "ended", messages=3)
    assert phases(folder.view(name)) == ["brainstorm", "plan", *FULL_CYCLE]
    made = asked_of(server)
    assert made.count("router") == 2, "for the first phase, and whether the plan is good"
    assert len(made) <= 16
