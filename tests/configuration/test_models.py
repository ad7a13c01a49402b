"""Which models a configuration asks, and where their keys come from."""

import os
from pathlib import Path
from typing import Any

import pytest

from tenex.configuration.models import (
    build_model_client,
    choice,
    client_config,
    is_offline,
    models_in_use,
    sees_pictures,
)
from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.settings import Settings, load, resolve_paths
from tenex.tools.standard import TOOL_NAMES

USUAL = "OPENAI_API_KEY"


@pytest.fixture(autouse=True)
def _nobodys_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (USUAL, "LOCAL_KEY", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)


def given(data: Path, **models: Any) -> Settings:
    return load(None, data, env={}, overrides={"models": models})


def library(agents: Path | None = None) -> PromptLibrary:
    return PromptLibrary.load(builtin_prompts(), agents, tools=TOOL_NAMES)


def key_of(settings: Settings, provider: str) -> str | None:
    config, _ = client_config(settings, resolve_paths(settings))
    return config.providers[provider].api_key


def test_a_key_is_looked_for_from_the_most_to_the_least_particular(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"local": {"kind": "openai", "api_key_file": "mine.key", "api_key_env": "LOCAL_KEY"}}
    settings = given(tmp_path, default="local:m", providers=table)
    without_file = given(tmp_path, default="local:m", providers={"local": {**table["local"], "api_key_file": None}})
    (tmp_path / "keys").mkdir()
    (tmp_path / "credentials").mkdir()
    assert key_of(without_file, "local") is None
    for variable in (USUAL, "LOCAL_KEY"):
        monkeypatch.setenv(variable, f"of {variable}")
        assert key_of(without_file, "local") == f"of {variable}"
    (tmp_path / "credentials" / "local.api-key").write_text("credential\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    assert key_of(without_file, "local") == "credential"
    (tmp_path / "keys" / "local.api-key").write_text(" stored \n")
    (tmp_path / "keys" / "local.api-key").chmod(0o600)
    assert key_of(without_file, "local") == "stored"
    (tmp_path / "mine.key").write_text("filed")
    assert key_of(settings, "local") == "filed"


@pytest.mark.parametrize("kind", ["missing", "a folder", "no text"])
def test_a_key_file_that_cannot_be_read_is_a_fault_that_names_it(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "mine.key"
    if kind == "a folder":
        file.mkdir()
    elif kind == "no text":
        file.write_bytes(b"\xff\xfe\xff")
    table = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key_file": "mine.key"}
    settings = given(tmp_path, default="local:m", providers={"local": table})
    with pytest.raises(ConfigurationError) as raised:
        build_model_client(settings, resolve_paths(settings), library())
    assert any("models.providers.local.api_key_file" in fault and str(file) in fault for fault in raised.value.faults)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfsk-x",
        b"\xef\xbb\xbfsk-x\r\n",
        *(f"{blank}sk-x{blank}\n".encode() for blank in "\xa0\u3000\u200b\ufeff\u2060\u00ad\t\r\x85\u2028"),
        *("“sk-x”".encode(), b'"sk-x"\r\n', "\ufeff‘sk-x’\xa0".encode(), "sk\u200b-\u00adx".encode()),
    ],
)
def test_a_key_is_read_without_what_editors_and_clipboards_add(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    stored = tmp_path / "keys" / "openai.api-key"
    stored.write_bytes(data)
    stored.chmod(0o600)
    settings = given(tmp_path, default="openai:gpt-5")
    assert key_of(settings, "openai") == "sk-x"
    stored.unlink()
    monkeypatch.setenv(USUAL, data.decode())
    assert key_of(settings, "openai") == "sk-x"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("sk-“x".encode(), "it holds U+201C LEFT DOUBLE QUOTATION MARK, which is in no key"),
        ("sk-\xa0x".encode(), "it holds U+00A0 NO-BREAK SPACE, which is in no key"),
        ("sk–x".encode(), "it holds U+2013 EN DASH, which is in no key"),
        ("ѕk-x".encode(), "it holds U+0455 CYRILLIC SMALL LETTER DZE, which is in no key"),
        (b"sk-x\nsk-y", "it holds U+000A a control character, which is in no key"),
        ("sk-x".encode("utf-16"), "is UTF-16; save the file as UTF-8"),
        (b"s\0k\0-\0x\0", "holds a NUL in line 1; save the file as UTF-8 text"),
        (b"sk-\xe4", "is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_key_that_no_header_can_hold_is_a_fault_that_names_the_character(
    data: bytes, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = tmp_path / "mine.key"
    stored.write_bytes(data)
    table = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key_file": "mine.key"}
    settings = given(tmp_path, default="local:m", providers={"local": table})
    with pytest.raises(ConfigurationError) as raised:
        build_model_client(settings, resolve_paths(settings), library())
    assert f"models.providers.local.api_key_file: {stored} " in raised.value.faults[0]
    assert fault in raised.value.faults[0]
    assert "sk" not in raised.value.faults[0].replace(str(stored), "")
    if "U+" in fault:
        monkeypatch.setenv("MINE", data.decode())
        table = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key_env": "MINE"}
        settings = given(tmp_path, default="local:m", providers={"local": table})
        assert fault in client_config(settings, resolve_paths(settings))[1][0]


def test_a_key_in_our_own_folder_that_others_may_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    stored = tmp_path / "keys" / "openai.api-key"
    stored.write_text("stored")
    stored.chmod(0o644)
    settings = given(tmp_path, default="openai:gpt-5")
    with pytest.raises(ConfigurationError, match="mode 0644"):
        build_model_client(settings, resolve_paths(settings), library())


def test_the_vendors_key_is_not_sent_to_an_address_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USUAL, "the vendor's")
    own = {"local": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1"}}
    assert key_of(given(tmp_path, default="local:m", providers=own), "local") is None


def test_a_pipe_in_the_place_of_a_key_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    os.mkfifo(tmp_path / "keys" / "openai.api-key", 0o600)
    assert key_of(given(tmp_path, default="openai:gpt-5"), "openai") is None


def test_all_faults_of_models_are_reported_at_once(tmp_path: Path) -> None:
    settings = given(tmp_path, default="openai:gpt-5", router="nonsense", phases={"plan": "unknown:model"})
    with pytest.raises(ConfigurationError) as raised:
        build_model_client(settings, resolve_paths(settings), library())
    reported = "\n".join(raised.value.faults)
    looked = f"{tmp_path / 'keys' / 'openai.api-key'}, ${USUAL}"
    for part in ("models.router", "models.phases.plan", "nonsense", "unknown", looked):
        assert part in reported


def test_what_an_agents_own_file_names_counts_where_the_settings_leave_it_out(tmp_path: Path) -> None:
    """Which of several settings wins is tested with the settings."""
    settings = given(tmp_path, default="d:d", router="r:r", agents={"planner": {"model": "a:a"}})
    choose = choice(settings, {Slug("executor"): "o:o", Slug("planner"): "o:o"})
    slugs = ("executor", "planner", "helper")
    assert [choose("work", Slug(slug), "plan") for slug in slugs] == [("o:o",), ("a:a",), ("d:d",)]
    assert choose("route", Slug("orchestrator"), "plan") == ("r:r",)


def test_the_model_in_an_agents_file_is_in_use_and_no_longer_only_rules(tmp_path: Path) -> None:
    (tmp_path / "reviewer.md").write_text(
        "---\nname: R\nrole: reads\nkind: expert\nuse_when: asked\nmodel: openai:gpt-5\n---\nYou read.\n"
    )
    settings, known = given(tmp_path), library(tmp_path)
    assert ("openai:gpt-5",) in models_in_use(settings, known).values()
    assert is_offline(settings, library())
    assert not is_offline(settings, known)


def test_a_grammar_is_for_providers_that_take_one(tmp_path: Path) -> None:
    table = {
        "local": {"kind": "openai", "grammar": "structural_tag"},
        "other": {"kind": "anthropic", "grammar": "structural_tag"},
    }
    settings = given(tmp_path, default="local:m", providers=table)
    config, faults = client_config(settings, resolve_paths(settings))
    assert config.providers["local"].grammar == "structural_tag"
    assert faults == ["models.providers.other.grammar: the kind anthropic takes none; remove it"]


@pytest.mark.parametrize(
    ("vision", "sees"), [([], False), (["local:eyes"], True), ([" local:eyes "], True), (["local:other"], False)]
)
def test_pictures_are_seen_where_a_model_in_use_is_set_to_see(tmp_path: Path, vision: list[str], sees: bool) -> None:
    table = {"local": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1"}}
    settings = given(tmp_path, default=["local:m", "local:eyes"], vision=vision, providers=table)
    assert sees_pictures(settings, library()) is sees
    config, _ = client_config(settings, resolve_paths(settings))
    assert config.sees == {name.strip() for name in vision}
