"""Settings from file, environment and command line: precedence, and the text of every error."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import SecretKey, parse_public_key
from tenex.settings import Settings, load


def write(folder: Path, text: str) -> Path:
    file = folder / "tenex.toml"
    file.write_text(text, encoding="utf-8")
    return file


def faults(folder: Path, text: str | None = None, **env: str) -> tuple[str, ...]:
    if text is not None:
        write(folder, text)
    with pytest.raises(ConfigurationError) as caught:
        load(None, folder, env=env, parse_key=parse_public_key)
    return caught.value.faults


def test_without_a_file_the_defaults_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that are constructed directly read no environment."""
    settings = load(None, tmp_path, env={"TENEX_LOG__LEVEL": "", "TENEX_DATA": "/x", "OTHER": "1"})
    monkeypatch.setenv("TENEX_LIMITS__SAME_ROUTE", "9")
    assert settings.model_dump() == Settings().model_dump()
    assert (settings.file, settings.data, settings.origins) == (None, tmp_path, {})


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[limits]\nsame_route = 5\nsteps_per_run = 6\nturns_per_message = 7\n")
    env = {"TENEX_LIMITS__SAME_ROUTE": "8", "TENEX_LIMITS__STEPS_PER_RUN": "9"}
    settings = load(None, tmp_path, env=env, overrides={"limits": {"same_route": 10}})
    assert (settings.limits.same_route, settings.limits.steps_per_run, settings.limits.turns_per_message) == (10, 9, 7)
    assert settings.limits.tokens_per_cycle == 2_000_000
    assert settings.origins == {
        "limits.same_route": "command line",
        "limits.steps_per_run": "TENEX_LIMITS__STEPS_PER_RUN",
        "limits.turns_per_message": str(file),
    }


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("TENEX_PEOPLE__OPEN", "true", True),
        ("TENEX_LIMITS__HOLD_FOR", "2.5", 2.5),
        ("TENEX_LIMITS__RETRY_DELAYS", "[2, 3.5]", [2, 3.5]),
        ("TENEX_RELAYS__URLS", '["wss://a.example"]', ["wss://a.example"]),
        ("TENEX_PROJECT__NAME", "2024", "2024"),
        ("tenex_log__level", "debug", "debug"),
        ("TENEX_LIMITS", '{"same_route": 3}', 3),
        ("TENEX_LIMITS__EXPECTATIONS__PLAN__WARN_AFTER", "5", 5),
        ("TENEX_MODELS__AGENTS__EXECUTOR__PHASES__PLAN", "vendor:one", "vendor:one"),
    ],
)
def test_the_environment_sets_every_type(tmp_path: Path, variable: str, value: str, expected: Any) -> None:
    settings = load(None, tmp_path, env={variable: value})
    ((name, origin),) = settings.origins.items()
    assert origin == variable
    found: Any = settings.model_dump()
    for part in name.split("."):
        found = found[part]
    assert found == expected


def test_all_errors_are_reported_at_once_with_source_setting_and_what_is_allowed(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        """
        store = "mysql://x"
        [limts]
        same_route = 1
        [limits]
        turns_per_mesage = 3
        same_route = 0
        steps_per_run = "7"
        tokens_per_cycle = true
        cost_per_cycle_usd = nan
        retry_delays = ["a", -1]
        [limits.expectations.plan]
        warn_after = 3000
        [limits.expectations.excute]
        warn_after = 1
        [gates]
        plan_approval = "persn"
        [people]
        owners = ["npub1mistyped", 3]
        [relays]
        urls = ["http://x.example", "wss://ok.example", "ws://host:99999", "wss://me:pw@x.example"]
        [models.agents.executor]
        modl = "x"
        [log]
        workflows = ["house.flows:review"]
        [expectations.plan]
        warn_after = 1
        """,
        TENEX_LIMITS__HOLD_FOR="soon",
        TENEX_LOG__COLOUR="red",
        TENEX_SPEED="9",
        TENEX_PEOPLE__MEMBERS="npub1x",
    )
    file = str(tmp_path / "tenex.toml")
    expected = [
        f"{file}: store: must be empty, for files, or the address of a database such as postgresql://user@host/tenex",
        f"{file}: limts: there is no such setting; did you mean `limits`?",
        f"{file}: limits.turns_per_mesage: there is no such setting; did you mean `turns_per_message`?",
        f"{file}: limits.same_route: 0 is out of bounds; it must be at least 1",
        f"{file}: limits.steps_per_run: '7' is text; it must be a whole number",
        f"{file}: limits.tokens_per_cycle: true is a yes or no; it must be a whole number",
        f"{file}: limits.cost_per_cycle_usd: nan is out of bounds; it must be a finite number",
        f"{file}: limits.retry_delays[0]: 'a' is text; it must be a number",
        f"{file}: limits.retry_delays[1]: -1 is out of bounds; it must be more than 0",
        f"{file}: limits.expectations.plan: warn_after (3000) must not be later than close_after (1800)",
        f"{file}: limits.expectations.excute: there is no such setting; did you mean `execute`?",
        f"{file}: gates.plan_approval: 'persn' is not allowed; it must be one of: router, person",
        f"{file}: people.owners[0]: this npub is mistyped: its checksum does not hold",
        f"{file}: people.owners[1]: the value is a whole number; it must be text in quotes",
        f"{file}: relays.urls[0]: must be the address of a relay, such as wss://relay.example.com",
        f"{file}: relays.urls[2]: must be the address of a relay, such as wss://relay.example.com",
        f"{file}: relays.urls[3]: must not hold a user or a password: relays know users by their keys",
        f"{file}: models.agents.executor.modl: there is no such setting; did you mean `model`?",
        f"{file}: log.workflows: there is no such setting; `workflows` belongs at the top, above all [tables]",
        f"{file}: expectations: there is no such setting; did you mean `limits.expectations`?",
        "TENEX_LIMITS__HOLD_FOR: limits.hold_for: 'soon' is text; it must be a number",
        "TENEX_LOG__COLOUR: log.colour: there is no such setting; allowed here: level, format",
        'TENEX_PEOPLE__MEMBERS: must be JSON, such as ["a", "b"] for a list; the value cannot be read',
    ]
    assert sorted(line for line in found if not line.startswith("TENEX_SPEED")) == sorted(expected)
    assert [line for line in found if line.startswith("TENEX_SPEED: there is no such setting;")]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"[relays]\nurls = [\n", "this is not valid TOML: line 2, the last one: invalid value"),
        (b'a = "x"\nb = = 3\n', "this is not valid TOML: line 2, column 5: invalid value"),
        (b"[project]\nname = '\xff'\n", "line 2 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_with_the_place(tmp_path: Path, text: bytes, fault: str) -> None:
    (tmp_path / "tenex.toml").write_bytes(text)
    (found,) = faults(tmp_path)
    assert found.startswith(f"{tmp_path / 'tenex.toml'}: {fault}")


def test_a_file_with_a_byte_order_mark_and_dotted_keys_is_read(tmp_path: Path) -> None:
    write(tmp_path, "\ufefflimits.expectations.plan.warn_after = 3\n")
    assert list(load(None, tmp_path, env={}).origins) == ["limits.expectations.plan.warn_after"]


@pytest.mark.parametrize("form", ["\ufeff{}", "{}\n\n", "\ufeff{}\r\n"])
def test_a_file_is_read_with_the_marks_and_line_ends_of_any_editor(tmp_path: Path, form: str) -> None:
    text = "[project]\nname = '\ufeffThe 👩‍💻 team\xa0'\n[models]\ndefault = 'openai:gpt\u200b-5\xa0'\n"
    text += "[relays]\nurls = ['wss://relay.example\u200b']\n[models.providers.a]\nbase_url = 'http://127.0.0.1:1\u2060/v1'\n"
    (tmp_path / "tenex.toml").write_bytes(form.format(text.replace("\n", "\r\n") if "\r" in form else text).encode())
    settings = load(None, tmp_path, env={"TENEX_PROJECT__ABOUT": "half \udc80 a character"})
    assert settings.project.name == "The 👩‍💻 team"
    assert settings.project.about == "half \ufffd a character"
    assert settings.models.default == "openai:gpt-5"
    assert settings.relays.urls == ["wss://relay.example"]
    assert settings.models.providers["a"].base_url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("[project]\n".encode("utf-16"), " is UTF-16; save the file as UTF-8"),
        ("[project]\n".encode("utf-16-le"), " holds a NUL in line 1; save the file as UTF-8 text"),
        (
            "[project]\nname = '\xa0'\n\xa0about = 'x'\n".encode(),
            "statement; the file holds U+00A0 NO-BREAK SPACE, remove it",
        ),
        ("[project]\n\u200babout = 'x'\n".encode(), "statement; the file holds U+200B ZERO WIDTH SPACE, remove it"),
        ("[project]\nname = “x”\n".encode(), "line 2, column 8: invalid value"),
    ],
)
def test_what_no_editor_shows_is_named_where_the_file_cannot_be_read(tmp_path: Path, data: bytes, fault: str) -> None:
    (tmp_path / "tenex.toml").write_bytes(data)
    (found,) = faults(tmp_path)
    assert found.endswith(fault)
    assert found.startswith(str(tmp_path / "tenex.toml"))


def test_a_secret_key_in_the_place_of_a_public_one_is_refused_without_repeating_it(tmp_path: Path) -> None:
    secret = SecretKey.generate().nsec
    found = faults(tmp_path, f"[people]\nowners = ['{secret}']\nmembers = '{secret}'\n")
    assert (len(found), secret in "\n".join(found)) == (2, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_env_file = 'x'\n", ["_env_file: there is no such setting"]),
        (
            "limits = 3\n[project.name]\nx = 1\n",
            ["project.name: the value is a table; it must be text", "limits: 3 is a whole number; it must be a table"],
        ),
    ],
)
def test_tables_values_and_options_of_the_library_are_not_mixed_up(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    found = faults(tmp_path, text)
    assert len(found) == len(expected)
    assert not [part for part, line in zip(expected, found, strict=True) if part not in line]


def test_an_explicit_file_must_exist_and_two_in_one_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load(tmp_path / "gone.toml", tmp_path, env={})
    write(tmp_path, "")
    (tmp_path / "config").mkdir()
    write(tmp_path / "config", "")
    assert "both exist" in faults(tmp_path)[0]
