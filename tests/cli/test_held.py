"""A conversation that waits for a model is shown as held in every list, and before all else."""

import json
from pathlib import Path

import pytest

from tenex.cli.init import prepare
from tests.kits.commands import Tenex
from tests.kits.retries import broken, fire
from tests.web.kit import served

from .journals import ONE, TWO, renamed, worked, write_conversations


@pytest.fixture(params=["retry", "route"])
def data(request: pytest.FixtureRequest, data: Path) -> Path:
    """One conversation whose agent, or router, has no model, and one that has ended."""
    scenario = fire(broken(request.param, times=6), request.param, times=5)
    prepare(data, None, [])
    write_conversations(data, {ONE: renamed(ONE, scenario.journal), TWO: worked(TWO)})
    return data


def test_lists_show_it_as_held(data: Path, tenex: Tenex) -> None:
    rows = {row["id"]: row["status"] for row in json.loads(tenex("conversations list --json").out)}
    assert rows == {ONE: "held", TWO: "ended"}
    assert [row["id"] for row in json.loads(tenex("conversations list --status held --json").out)] == [ONE]
    assert json.loads(tenex("conversations list --status active --json").out) == []
    assert "held in " in "".join(tenex(f"conversations show {ONE}"))
    assert tenex("status", code=None).out.splitlines()[0].startswith("HELD           1 conversation")


async def test_pages_show_it_first(data: Path) -> None:
    async with served(data) as pages:
        waiting = await pages.get("/")
        (head,) = waiting.all("h2", id="stuck")
        assert "1 conversation cannot go on" in head.text
        assert ONE in " ".join(link.attributes["href"] for link in waiting.all("a", class_="title"))
        listed = await pages.get("/conversations?status=held")
        assert [chip.text for chip in listed.of_class("is-held")] == ["held"]
