"""The model of an agent is chosen on the page of agents, as a client of TENEX does it."""

from pathlib import Path

from tenex.app import open_application
from tenex.cli.init import prepare
from tenex.core.phases import Phase
from tenex.feature import extensions_of
from tenex.llm.scripted import OfflineModel
from tenex.main import FEATURES
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import parse_public_key
from tenex.settings import load
from tests.service.person import until
from tests.web.kit import served

MODELS = 'default = "test:small"\nagents.executor.phases.chores = "test:big"\n'


async def test_a_model_is_chosen_among_those_that_the_settings_name(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with embedded_relay() as relay:
        file = prepare(data, None, [relay]).config
        file.write_text(f"{file.read_text()}{MODELS}")
        settings = load(file, data, env={}, parse_key=parse_public_key)
        daemon = open_application(settings, model=OfflineModel(), extensions=extensions_of(FEATURES))
        async with daemon as app, app.serving(), served(data) as pages:
            await app.pool.listening("addressed", 10)

            def model_of_planner() -> str:
                return app.current.now.settings.models.for_agent("planner", Phase.EXECUTE)[0]

            assert model_of_planner() == "test:small"
            page = await pages.get("/agents")
            offered = {option.text for option in page.all("option")}
            assert {"Planner", "test:small", "test:big"} <= offered
            fields = await pages.form("/agents", "/agents/model")
            unknown = await pages.post("/agents/model", {**fields, "agent": "planner", "model": "test:other"})
            assert (unknown.status_code, "no such model" in unknown.text) == (400, True)
            fields = await pages.form("/agents", "/agents/model")
            sent = await pages.post("/agents/model", {**fields, "agent": "planner", "model": "test:big"})
            assert sent.status_code == 303
            await until(lambda: model_of_planner() == "test:big")
            assert "Plannertest:big" in [row.text for row in (await pages.get("/agents")).all("tr")]


async def test_without_a_daemon_no_model_is_offered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    prepare(data, None, ["ws://127.0.0.1:1"])
    async with served(data) as pages:
        assert not (await pages.get("/agents")).all("form", action=f"{pages.site.base}/agents/model")
