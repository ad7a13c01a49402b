"""Every surface shows what every feature offers, and a daemon runs without any of them."""

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jinja2 import ChoiceLoader, DictLoader

from tenex.app import open_application
from tenex.cli.init import prepare
from tenex.cli.main import run
from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.feature import Feature, checks_of, extensions_of, tools_of
from tenex.main import FEATURES
from tenex.nostr.keys import RemoteKey, SecretKey
from tenex.operations.doctor.runner import CHECKS, FIRST, Report
from tenex.service.client import ask
from tenex.settings import load
from tenex.settings.sections import FEATURES_OF, Settings
from tenex.tools.standard import TOOL_NAMES
from tenex.web import rendering
from tenex.web.site import PagePart
from tests.kits.commands import Tenex
from tests.kits.example_feature import EXAMPLE, SECTION, TEMPLATE
from tests.kits.pages import MENU
from tests.web.kit import served

BY_NAME = {feature.name: feature for feature in FEATURES}
ORDERS = {
    "approvals": ["approvals", "approve"],
    "lessons": ["edit_lesson", "remove_lesson"],
    "rooms": ["rooms", "join_room", "leave_room", "invite_to_room"],
}
"""The requests of the control socket that features answer."""


def without(name: str) -> list[Feature]:
    return [feature for feature in FEATURES if feature.name != name]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return prepare(tmp_path / "data", None, ["ws://127.0.0.1:1"]).data


# ---- a feature that offers something to every surface


def test_the_help_the_man_page_and_completion_show_it(
    tenex: Tenex, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["--help"], [EXAMPLE]) == 0
    assert re.search(r"^  example +Print a word\.$", capsys.readouterr().out, re.MULTILINE)
    assert run(["example"], [EXAMPLE]) == 0
    assert capsys.readouterr().out == "of the command\n"
    assert run(["completion", "man", "--print"], [EXAMPLE]) == 0
    assert 'SH "TENEX EXAMPLE"' in capsys.readouterr().out
    monkeypatch.setenv("_TENEX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tenex exam")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setattr("sys.argv", ["tenex"])
    run(None, [EXAMPLE])
    assert "example" in capsys.readouterr().out


def test_the_daemon_the_status_and_the_doctor_show_it(
    tenex: Tenex, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*words: str) -> str:
        capsys.readouterr()
        run(["--data", str(data), *words], [EXAMPLE])
        return capsys.readouterr().out

    async def look() -> tuple[dict[str, Any], str, str, str]:
        settings = load(None, data, env={})
        async with open_application(settings, extensions=extensions_of([EXAMPLE])) as app, app.serving():
            answer = await ask(app.places.socket, "example", word="here")
            commands = (["status"], ["status", "--json"], ["doctor"])
            shown = [await asyncio.to_thread(printed, *words) for words in commands]
            return answer, shown[0], shown[1], shown[2]

    answer, status, as_json, doctor = asyncio.run(look())
    assert answer == {"asked": "here"}
    assert "\nexample        in the report\n" in status
    report, _ = json.JSONDecoder().raw_decode(as_json, as_json.index("{\n"))  # the daemon's lines are there too
    assert report["example"] == "in the report"
    assert "the example was examined" in doctor
    assert "the report: example: in the report" in doctor


async def test_the_metrics_have_it(data: Path) -> None:
    features = [EXAMPLE, BY_NAME["metrics"]]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = load(None, data, env={}, overrides={"metrics": {"port": port}})
    async with open_application(settings, extensions=extensions_of(features)), httpx2.AsyncClient() as client:
        shown = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert "\ntenex_example 7.0\n" in shown.text


async def test_the_pages_and_their_doctor_show_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as `tenex web` puts them together."""
    loader = ChoiceLoader([rendering.environment().loader or DictLoader({}), DictLoader({TEMPLATE: SECTION})])
    monkeypatch.setattr(rendering.environment(), "loader", loader)
    async with served(data, features=[EXAMPLE]) as pages:
        assert "in a section" in [element.text for element in (await pages.get("/agents")).all("p")]
        assert "in a section" not in [element.text for element in (await pages.get("/daemon")).all("p")]

    given: list[tuple[Callable[[], Awaitable[Report]], Sequence[PagePart]]] = []

    async def serve(_: Any, __: Any, examine: Any, parts: Any, **_more: Any) -> None:
        given.append((examine, parts))

    monkeypatch.setattr("tenex.web.server.serve", serve)
    assert await asyncio.to_thread(run, ["--data", str(data), "web"], [EXAMPLE]) == 0
    ((examine, parts),) = given
    assert [part.template for part in parts] == [TEMPLATE]
    assert "the example was examined" in [finding.message for finding in (await examine()).findings]


async def test_agents_have_its_tool_where_they_name_it(data: Path) -> None:
    executor = Slug("executor")

    async def names(overrides: Mapping[str, Any], features: Sequence[Feature]) -> tuple[set[str], list[str]]:
        settings = load(None, data, env={}, overrides=overrides, features=tools_of(features))
        async with open_application(settings, extensions=extensions_of(features)) as app:
            now = app.current.now
            specs = now.tools.specs(Phase.EXECUTE, executor)
            return {spec.name for spec in specs}, list(now.own_tools.left_out())

    added = {"tools": {"add": ["example"]}}
    offered, faults = await names(added, [EXAMPLE])
    assert ("example" in offered, faults) == (True, [])
    offered, faults = await names({}, [EXAMPLE])
    assert ("example" in offered, faults) == (False, [])
    offered, faults = await names({**added, "project": {"name": "nameless"}}, [EXAMPLE])
    assert ("example" in offered, faults) == (False, ["example: it needs a name of the project"])
    offered, (fault,) = await names(added, [])
    assert "example" not in offered
    assert fault.startswith("tools.add: there is no tool 'example'")


def test_the_configuration_check_knows_its_tool(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data / "tenex.toml"
    before = file.read_text()
    words = ["--data", str(data), "config", "check"]
    file.write_text(f'{before}\n[tools]\nadd = ["example"]\n')
    assert run(words, [EXAMPLE]) == 0
    assert run(words, []) == 3
    assert "there is no tool 'example'" in "".join(capsys.readouterr())
    file.write_text(f'{before}\n[tools]\nadd = ["example"]\n[project]\nname = "nameless"\n')
    assert run(words, [EXAMPLE]) == 3
    assert "example: it needs a name of the project" in "".join(capsys.readouterr())
    file.write_text(f'{before}\n[tools.commands.example]\nrun = ["true"]\ndescription = "x"\naccess = "run"\n')
    assert run(words, [EXAMPLE]) == 3
    assert "this is the name of a tool of the daemon's" in "".join(capsys.readouterr())


# ---- those of the program


def test_what_features_offer_has_names_of_its_own_and_is_there() -> None:
    checks = [check.name for check in (*FIRST, *CHECKS, *checks_of(FEATURES))]
    assert len(set(checks)) == len(checks)
    parts = [part.name for feature in FEATURES for part in feature.status()]
    assert len(set(parts)) == len(parts)
    for part in (part for feature in FEATURES for part in feature.pages()):
        assert part.page in [page.name for page in MENU]
        rendering.environment().get_template(part.template)
    tools = [name for feature in FEATURES for name in feature.tools]
    assert len({*tools, *TOOL_NAMES}) == len(tools) + len(TOOL_NAMES)
    for place in (place for feature in FEATURES for place in feature.tools.values()):
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))
    assert {section: feature.name for feature in FEATURES for section in feature.settings} == FEATURES_OF
    assert FEATURES_OF.keys() <= Settings.model_fields.keys()


async def test_a_daemon_reports_every_part_that_features_show(data: Path) -> None:
    extensions = extensions_of(FEATURES)
    async with open_application(load(None, data, env={}), extensions=extensions) as app, app.serving():
        report = await ask(app.places.socket, "status")
    made = app.extensions
    for names in (
        [name for extension in made for name in extension.status],
        [kind for extension in made for kind in extension.events],
        [order for extension in made for order in extension.orders],
        [name for extension in made for name in extension.services],
    ):
        assert len(set(names)) == len(names)
    assert {part.name for feature in FEATURES for part in feature.status()} <= report.keys()
    assert {order for extension in made for order in extension.orders} == {
        order for named in ORDERS.values() for order in named
    }


@pytest.mark.parametrize("name", BY_NAME)
async def test_without_a_feature_the_daemon_starts_and_nothing_of_it_is_there(name: str, data: Path) -> None:
    absent = BY_NAME[name]
    features = without(name)
    settings = load(None, data, env={}, features=tools_of(features))
    async with open_application(settings, extensions=extensions_of(features)) as app, app.serving():
        report = await ask(app.places.socket, "status")
        assert report["state"] == "running"
        assert not report.keys() & {part.name for part in absent.status()}
        for order in ORDERS.get(name, ()):
            with pytest.raises(TenexError, match="which is one of: ") as refused:
                await ask(app.places.socket, order)
            answered = str(refused.value).partition("one of: ")[2].split(", ")
            assert "watch" in answered
            assert order not in answered
    async with served(data, features=features) as pages:
        for part in absent.pages():
            path = next(page.path for page in MENU if page.name == part.page)
            assert part.template not in [one.template for one in pages.site.parts]
            assert (await pages.get(path)).all("h1")


@pytest.mark.parametrize(("section", "setting"), [("metrics", "port = 9"), ("traces", 'endpoint = "http://127.0.0.1"')])
def test_the_settings_of_a_feature_that_is_not_there_are_refused_by_its_name(
    section: str, setting: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data / "tenex.toml"
    file.write_text(f"{file.read_text()}\n[{section}]\n{setting}\n")
    words = ["--data", str(data)]
    assert run([*words, "config", "check"], FEATURES) == 0
    for command in (["config", "check"], ["run"], ["doctor"]):
        capsys.readouterr()
        assert run([*words, *command], without(FEATURES_OF[section])) == 3
        assert f"this program is without the feature `{FEATURES_OF[section]}`" in "".join(capsys.readouterr())


async def test_a_key_at_a_remote_signer_is_refused_without_the_feature(data: Path) -> None:
    """It is named before anything is sent, and no other key is used in its place."""
    key = SecretKey.generate()
    remote = RemoteKey(public=key.public, signer=key.public, relays=("ws://127.0.0.1:1",), client=SecretKey.generate())
    project = data / "keys" / "project.nsec"
    project.unlink()
    place = data / "keys" / "project.bunker"
    place.touch(mode=0o600)
    place.write_text(remote.to_file())
    with pytest.raises(ConfigurationError, match=r"project.*without the feature `signers`"):
        async with open_application(load(None, data, env={}), extensions=extensions_of(without("signers"))):
            pass
    async with open_application(load(None, data, env={}), extensions=extensions_of(FEATURES)) as app:
        assert app.project.npub == remote.npub
