"""Settings converted to the core's values: every field of the core has a setting, made of it."""

from dataclasses import Field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tenex.core.config import Bounds, Expectation, GateRules, Limits, Role, Verbosity
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.settings import Settings, load


def given(**sections: Any) -> Settings:
    return load(None, Path("/nowhere"), env={}, overrides=sections)


TIMES = {
    name: any(isinstance(mark, Bounds) and mark.is_time for mark in getattr(kind, "__metadata__", ()))
    for name, kind in get_type_hints(Limits, include_extras=True).items()
}


@pytest.mark.parametrize(
    "field", [f for f in fields(Limits) if "expectation" not in f.name], ids=lambda field: field.name
)
def test_every_limit_of_the_core_is_a_setting_in_seconds_where_it_is_a_time(field: Field[Any]) -> None:
    name, default = field.name, getattr(Limits(), field.name)
    is_time = TIMES[name]
    value: Any
    wanted: Any
    value, wanted = ([0.5, 2], (500, 2000)) if isinstance(default, tuple) else (2.5, 2500) if is_time else (7, 7)
    assert Settings().limits.to_core() == Limits()
    assert given(limits={name: value}).limits.to_core() == replace(Limits(), **{name: wanted})
    assert wanted != default


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_may_have_an_expectation_of_its_own(phase: Phase) -> None:
    times = {"default": {"warn_after": 1, "close_after": 2}, phase.value: {"warn_after": 3, "close_after": 4.5}}
    found = given(limits={"expectations": times}).limits.to_core()
    own, others = (Expectation(warn_after=w, close_after=c) for w, c in ((3000, 4500), (1000, 2000)))
    assert all(found.expectation(one) == (own if one is phase else others) for one in Phase)


def test_every_rule_of_the_gates_is_a_setting() -> None:
    rules: dict[str, Any] = {
        "members_may_waive": True,
        "plan_approval": "person",
        "chores": "always",
        "reflection": "never",
    }
    assert {field.name for field in fields(GateRules)} == set(rules)
    assert given(gates=rules).gates.to_core() == GateRules(**rules)


WINTER = Millis(1_768_500_000_000)
"""2026-01-15, 18:00 in UTC."""


@pytest.mark.parametrize(
    ("hours", "zone", "until"),
    [
        ("19:00-07:30", "Europe/Berlin", "2026-01-16T06:30"),
        (" 7:00 – 23:00 ", "America/New_York", "2026-01-16T04:00"),
        ("20:00-07:00", "Europe/Berlin", None),
        ("", "Europe/Berlin", None),
    ],
)
def test_quiet_hours_are_local_times(hours: str, zone: str, until: str | None) -> None:
    rules = given(people={"quiet_hours": hours, "time_zone": zone}).notifications()
    end = rules.quiet_hours.until(WINTER) if rules.quiet_hours is not None else 0
    assert end == (datetime.fromisoformat(until).replace(tzinfo=UTC).timestamp() * 1000 if until else 0)


def test_without_a_zone_they_are_those_of_the_machine() -> None:
    rules = given(people={"quiet_hours": "00:00-23:59"}, relays={"verbosity": "quiet"}).notifications()
    assert rules.verbosity is Verbosity.QUIET
    assert rules.quiet_hours is not None
    local = datetime.fromtimestamp(WINTER / 1000).astimezone()
    assert rules.quiet_hours.offset(WINTER) * 60 == local.utcoffset().total_seconds()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quiet_hours", "22:00"),
        ("quiet_hours", "22:00-25:00"),
        ("quiet_hours", "7:00-07:00"),
        ("time_zone", "Europe/Atlantis"),
        ("time_zone", "../etc"),
    ],
)
def test_wrong_hours_and_zones_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"people.{name}"):
        given(people={name: value})


def test_roles_follow_the_lists_and_whether_anyone_may_talk() -> None:
    owner, member, guest_key = (SecretKey.generate() for _ in range(3))
    for is_open, guest in ((False, None), (True, Role.GUEST)):
        people = {"owners": [owner.npub], "members": [member.public, owner.public], "open": is_open}
        found = given(people=people).peer_group(parse_public_key)
        assert [found.role(key.public) for key in (owner, member, guest_key)] == [Role.OWNER, Role.MEMBER, guest]


def test_a_project_no_one_may_talk_to_and_every_invalid_key_is_reported() -> None:
    with pytest.raises(ConfigurationError, match="no one may talk here"):
        Settings().peer_group(parse_public_key)
    with pytest.raises(ConfigurationError) as caught:
        given(people={"owners": ["x"], "members": ["y"]}).peer_group(parse_public_key)
    assert [line.split(": ")[1] for line in caught.value.faults] == ["people.owners[0]", "people.members[0]"]


def test_the_most_specific_model_wins_and_every_named_one_is_listed() -> None:
    """An agent in a phase, the agent, its own file, the phase, the default; the router has its own."""
    agents = {"executor": {"model": "a", "phases": {"plan": ["ap", "d"]}}, "planner": {}}
    models = given(models={"default": ["d", "e"], "phases": {"plan": "p"}, "agents": agents}).models
    assert models.for_agent("executor", Phase.PLAN, own="o") == ("ap", "d")
    assert models.for_agent("executor", Phase.CHAT, own="o") == ("a",)
    assert models.for_agent("planner", Phase.PLAN, own="o") == ("o",)
    assert models.for_agent("planner", Phase.PLAN) == ("p",)
    assert models.for_agent("planner", Phase.CHAT) == models.for_router() == ("d", "e")
    routed = models.model_copy(update={"router": ["r", "s", "r"]})
    assert routed.for_router() == ("r", "s")
    assert routed.named() == {
        "models.default": ("d", "e"),
        "models.router": ("r", "s"),
        "models.phases.plan": ("p",),
        "models.agents.executor.model": ("a",),
        "models.agents.executor.phases.plan": ("ap", "d"),
    }


@pytest.mark.parametrize("wrong", [5, [], [""], "", ["a", 5], {"a": "b"}])
def test_an_invalid_model_is_one_error_with_an_example(wrong: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        given(models={"default": wrong})
    assert raised.value.faults == (
        'command line: models.default: must be the name of a model in quotes, or a list of one to ten: ["a:b", "c:d"]',
    )


def test_a_check_has_a_line_a_limit_patterns_and_whether_it_runs_tests() -> None:
    found = given(checks={"test": {"run": " make test\t-j "}, "docs-1_b": {"run": "", "timeout": 1, "when": ["*.md"]}})
    assert found.checks["test"].model_dump() == {"run": "make test\t-j", "timeout": 1_800, "when": [], "tests": None}
    assert found.checks["docs-1_b"].when == ["*.md"]


def test_a_check_may_be_set_by_a_variable() -> None:
    found = load(None, Path("/nowhere"), env={"TENEX_CHECKS__TEST__RUN": "make test"})
    assert found.checks["test"].run == "make test"


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ({"Test": {"run": "x"}}, "checks: 'Test' is no name for a check; use lower-case letters"),
        ({"a" * 33: {"run": "x"}}, "is no name for a check"),
        ({"test": {}}, "checks.test.run: it is missing, and this table needs it"),
        ({"test": {"run": "a\nb"}}, "checks.test.run: must be one line of plain text; join several commands with &&"),
        ({"test": {"run": "a\0b"}}, "checks.test.run: must be one line"),
        ({"test": {"run": ["make"]}}, "checks.test.run: the value is a list; it must be text in quotes"),
        ({"test": {"run": "x", "timeout": 0.5}}, "checks.test.timeout: 0.5 is out of bounds; it must be at least 1"),
        ({"test": {"run": "x", "timeout": 86_401}}, "it must be at most 86,400"),
        ({"test": {"run": "x", "when": "*.py"}}, "checks.test.when: '*.py' is text; it must be a list"),
        ({"test": {"run": "x", "wen": []}}, "checks.test.wen: there is no such setting; did you mean `when`?"),
    ],
)
def test_what_is_wrong_with_a_check_is_named(checks: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        given(checks=checks)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "steps", "words"),
    [
        ("test", ["python", "-m", "pytest"], 'write `[checks.test]` and below it `run = "python -m pytest"`'),
        ("lint", [["a", "b c"], ["d"]], """write `[checks.lint]` and below it `run = "a 'b c' && d"`"""),
        ("build", [], "workspace.build: there is no such setting; remove it, a command is the `run` of [checks.build]"),
        ("test", "make", "remove it, a command is the `run` of [checks.test]"),
    ],
)
def test_a_command_that_became_a_check_is_refused_with_what_to_write(name: str, steps: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        given(workspace={name: steps})
    assert words in str(refused.value)
