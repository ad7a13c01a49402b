"""Scenarios of `tenex eval`: how files are read, what expectations find, and how the figures are computed."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tenex.core import records as r
from tenex.core.errors import ConfigurationError, ModelRefused
from tenex.core.ids import CallId, Millis, PublicKey, RunId, Slug, TurnId
from tenex.core.messages import CallRequest, ModelRequest, ModelStep, Usage
from tenex.core.phases import Phase
from tenex.features.evaluation.expectations import Run, failures
from tenex.features.evaluation.figures import Call, Figures, figures_of
from tenex.features.evaluation.scenario import Expectations, find, read_scenarios
from tenex.features.evaluation.scripted import ScriptedModel

FIGURES = Figures(calls=7, sequential_calls=5, prompt_tokens=900, cached=0.8, cost=0.02)


def call(agent: str, sent: str, began: float = 0, ended: float = 1, tokens: int = 0, cost: float | None = None) -> Call:
    usage = Usage(input_tokens=tokens, cost_usd=cost)
    return Call(agent=agent, sent=sent.encode(), began=began, ended=ended, usage=usage)


# ---- figures ----


@pytest.mark.parametrize(
    ("times", "count"),
    [
        ([(0, 1), (1, 2), (2, 3)], 3),
        ([(0, 1), (0, 1), (0, 1)], 1),
        ([(0, 9), (1, 2), (3, 4), (9, 10)], 3),
        ([(0, 2), (1, 3), (2, 4)], 2),
        ([], 0),
    ],
)
def test_calls_at_the_same_time_count_once(times: list[tuple[float, float]], count: int) -> None:
    """The longest chain in which each began after the one before had ended."""
    assert figures_of([call("a", "x", *time) for time in times]).sequential_calls == count


def test_the_cached_share_compares_with_every_earlier_request_of_the_agent() -> None:
    """8 of 10 bytes with the first and 3 with the second: 8; another agent's requests and the first do not count."""
    sent = [("a", "12345678ab", 1), ("a", "123xxxxx", 2), ("b", "12345678cd", 2), ("a", "12345678cd", 3)]
    calls = [call(agent, text, began) for agent, text, began in sent]
    assert figures_of(calls).cached == (3 + 8) / (8 + 10)
    assert figures_of(reversed(calls)).cached == (3 + 8) / (8 + 10), "in the order in which they began"
    assert figures_of(calls[:1]).cached is None


def test_prompt_tokens_are_those_of_the_server_or_estimated_from_the_bytes() -> None:
    """Four bytes to a token; a cost is known where one of the calls has one."""
    figures = figures_of([call("a", "12345", tokens=0), call("a", "1", tokens=50, cost=0.5)])
    assert (figures.calls, figures.prompt_tokens, figures.cost) == (2, 2 + 50, 0.5)
    assert figures_of([call("a", "12345")]).cost is None


# ---- expectations ----


def turn(phase: Phase, *agents: str) -> r.Record:
    slugs = tuple(map(Slug, agents))
    return r.TurnOpened(seq=1, at=Millis(0), turn_id=TurnId("turn-1"), phase=phase, agents=slugs, reason="")


IDS: dict[str, Any] = {"run": RunId("turn-1.a"), "call": CallId("c")}


def result(tool: str, content: str, *, ok: bool = True) -> r.Record:
    return r.ToolCallCompleted(seq=1, at=Millis(0), tool=tool, ok=ok, content=content, **IDS)


def program(line: str, status: int) -> list[r.Record]:
    """What is recorded of a command that an agent ran."""
    request = CallRequest(id=IDS["call"], tool="shell", arguments={"command": line})
    return [
        r.ModelResponded(seq=1, at=Millis(0), run=IDS["run"], step=ModelStep(calls=(request,))),
        r.ToolCallCompleted(seq=1, at=Millis(0), tool="shell", ok=not status, content="no", exit_status=status, **IDS),
    ]


def verdict(word: Literal["issues", "verified"]) -> r.Record:
    return r.RunEnded(seq=1, at=Millis(0), run=IDS["run"], outcome="finished", verdict=word)


def note(text: str, *, is_published: bool = True) -> r.Record:
    return r.MessageSent(
        seq=1,
        at=Millis(0),
        speaker=PublicKey("a" * 64),
        name="Executor",
        text=text,
        purpose="completion",
        phase=Phase.EXECUTE,
        is_published=is_published,
    )


RUN = Run(status="ended")
for seen in (
    turn(Phase.EXECUTE, "executor"),
    turn(Phase.EXECUTE, "executor"),
    turn(Phase.VERIFICATION, "planner"),
    result("check", "1 failed", ok=False),
    result("check", "all passed"),
    result("git_diff", "no", ok=False),
    *program("pytest -q", 1),
    *program("cd pkg", 0),
    verdict("issues"),
    verdict("verified"),
    note("It is done."),
    note("Nothing to tidy.", is_published=False),
):
    RUN.add(seen)


@pytest.mark.parametrize(
    ("expect", "failure"),
    [
        ({"status": "ended"}, ""),
        ({"status": "waiting"}, "status is ended, not waiting"),
        ({"phases": ["execute", "verification"]}, ""),
        ({"phases": ["...", "verification", "..."]}, ""),
        ({"phases": ["execute"]}, "phases were execute, verification, not execute"),
        ({"agents": ["planner", "executor"]}, ""),
        ({"agents": {"verification": ["planner"]}}, ""),
        ({"agents": {"execute": ["planner"]}}, "agents in execute were executor, not planner"),
        ({"tools": ["check"]}, ""),
        ({"tools": ["git_diff"]}, "git_diff was called without success"),
        ({"tools": ["learn"]}, "learn was not called"),
        ({"results": {"check": "passed"}}, ""),
        ({"results": {"check": "failed"}}, "the last result of check does not contain 'failed': all passed"),
        ({"files": {"a.txt": "one", "b.txt": None}}, ""),
        ({"files": {"a.txt": "two"}}, "a.txt does not contain 'two': one"),
        ({"files": {"a.txt": None}}, "a.txt exists"),
        ({"files": {"c.txt": ""}}, "c.txt does not exist"),
        ({"replies": ["It is"]}, ""),
        ({"replies": ["May I"]}, "no reply contains 'May I'; the last: It is done."),
        ({"replies": ["Nothing"]}, "no reply contains 'Nothing'; the last: It is done."),
        ({"never": ["Done", "tidy"]}, ""),
        ({"never": ["It is"]}, "a reply contains 'It is': It is done."),
        ({"notes": 1}, ""),
        ({"notes": 0}, "notes: 1 of at most 0"),
        ({"verdicts": ["issues", "verified"]}, ""),
        ({"verdicts": []}, "verdicts were issues, verified, not none"),
        ({"ran": {"verification": [{"pytest": 1}, {"cd": 0}]}}, ""),
        ({"ran": {"verification": [{"cd pkg": 0}]}}, ""),
        (
            {"ran": {"verification": [{"cd": 0}, {"pytest": 1}]}},  # in another order
            "programs in verification were `pytest -q`: 1, `cd pkg`: 0; not `cd`: 0, `pytest`: 1",
        ),
        ({"ran": {"execute": [{"ruff": 0}]}}, "programs in execute were none; not `ruff`: 0"),
        ({"calls": 7, "sequential_calls": 5, "prompt_tokens": 900, "cost": 0.02, "cached": 0.8}, ""),
        ({"calls": 6}, "calls: 7 of at most 6"),
        ({"prompt_tokens": 899}, "prompt tokens: 900 of at most 899"),
        ({"cached": 0.9}, "cached: 80.0% of at least 90.0%"),
    ],
)
def test_each_expectation_that_does_not_hold_is_a_sentence(
    expect: dict[str, Any], failure: str, tmp_path: Path
) -> None:
    """None where all hold."""
    (tmp_path / "a.txt").write_text("one")
    assert failures(Expectations(**expect), RUN, FIGURES, tmp_path) == ([failure] if failure else [])


# ---- files ----


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("messages: [hi]\nexpect:\n  call: 3\n", 3, "expect.call: there is no such key. Did you mean `calls`?"),
        ("messages: [hi]\nexpect:\n  phases: [exekute]\n", 3, "'exekute' is not a phase. Did you mean `execute`?"),
        ("messages:\n- hi\n- yes\n", 3, "messages.1: must be text; put it in quotes"),
        ("about: nothing\n", 1, "messages: is missing. Add it."),
        ("messages: [hi]\nfiles:\n  ../x: y\n", 3, "must be a path in the workspace"),
        ("messages:\n- {text: hi, when: now}\n", 2, "messages.0.when: there is no such key. There are: after,"),
        ("messages: [hi]\nexpect:\n  ran: {plan: [{a: ok}]}\n", 3, "expect.ran.plan.0.a: must be a whole number"),
        ("messages: [hi]\nvenv: 'yes'\n", 2, "venv: must be true or false"),
        ("messages: [hi]\nrepository: /tmp\n", 2, "repository: must be a folder below that of the scenario"),
        ("messages: [hi]\nrepository: ../x\n", 2, "repository: must be a folder below that of the scenario"),
        ("messages: [hi]\nrepository: gone\n", 2, "repository: there is no folder"),
        ("messages: [hi]\nscript:\n  a:\n    plan:\n    - 3\n", 5, "script.a.plan.0: must be a text, or tools"),
        ("messages: [hi]\nscript:\n  orchestrator: [DONE]\n", 3, "must be END, USER, or a phase with its agents"),
        ("messages: [hi]\nscript:\n  orchestrator: [{plane: a}]\n", 3, "'plane' is not a phase."),
        ("messages: [hi]\nexpect: {calls: many}\n", 2, "expect.calls: must be a whole number"),
        ("messages: [hi\n", 2, "this is not valid YAML"),
        ("messages: " + "[" * 3_000 + "]" * 3_000, 1, "it is nested too deeply to be read"),
        ("".join(f"{'  ' * depth}a:\n" for depth in range(1_200)), 1, "it is nested too deeply to be read"),
        ("- hi\n", 1, "must be lines of `key: value`, with: name, about, messages"),
    ],
)
def test_a_wrong_file_is_reported_with_its_line_and_what_is_allowed(
    text: str, line: int, sentence: str, tmp_path: Path
) -> None:
    """Before anything runs."""
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_scenarios([file])
    (fault,) = caught.value.faults
    assert fault.startswith(f"{file}:{line}: ")
    assert sentence in fault


def test_shipped_scenarios_can_be_named_and_need_no_real_model(tmp_path: Path) -> None:
    """Any other name is a path."""
    assert all(one.about and one.answered_by != "settings" for one in read_scenarios(find([])))
    assert [one.name for one in read_scenarios(find(["repair"]))] == ["repair"]
    with pytest.raises(ConfigurationError, match=r"nothing.yaml: cannot be read .*`tenex eval --list`"):
        read_scenarios(find([str(tmp_path / "nothing.yaml")]))


# ---- scripts ----


async def test_a_script_answers_by_agent_and_phase_in_order(tmp_path: Path) -> None:
    """Several calls of one answer; a list without phases is for any; after the last answer another model is asked."""
    file = tmp_path / "one.yaml"
    file.write_text(
        "messages: [hi]\n"
        "script:\n"
        "  orchestrator: [execute: executor, END]\n"
        "  executor:\n"
        "    plan: [planned]\n"
        "    any: [{read_file: [{path: a}, {path: b}], check: {path: c}}, done]\n"
    )
    (scenario,) = read_scenarios([file])
    model = ScriptedModel(scenario.script, None)
    steps = [await model.step(request("executor", phase)) for phase in ("execute", "plan", "execute")]
    calls = steps[0].calls
    assert [f"{one.tool} {one.arguments['path']}" for one in calls] == ["read_file a", "read_file b", "check c"]
    assert len({one.id for one in calls}) == 3
    assert [step.text for step in steps] == ["", "planned", "done"]
    first, second = [json.loads((await model.step(request("orchestrator", "chat"))).text) for _ in range(2)]
    assert first == {"reason": "scripted", "phase": "execute", "agents": "executor"}
    assert second == {"reason": "scripted", "agents": ["END"]}
    with pytest.raises(ModelRefused, match="the script has no further answer of executor in execute"):
        await model.step(request("executor", "execute"))
    assert model.missing
    other = ScriptedModel({"executor": {"any": ["of the other"]}}, None)
    assert (await ScriptedModel({}, other).step(request("executor", "execute"))).text == "of the other"


def request(agent: str, phase: str) -> ModelRequest:
    purpose: Literal["route", "work"] = "route" if agent == "orchestrator" else "work"
    return ModelRequest(purpose=purpose, agent=Slug(agent), phase=phase, system="You are.", entries=())
