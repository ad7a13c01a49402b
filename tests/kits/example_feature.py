"""A feature that offers something to every surface."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from tenex.app import Application
from tenex.app.extension import Extension
from tenex.cli.shared.options import Globals
from tenex.core.config import Replay
from tenex.core.errors import ConfigurationError
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.feature import Command, Feature, StatusPart
from tenex.operations.doctor.findings import Case, Finding, ok, warning
from tenex.operations.doctor.runner import Check
from tenex.settings import Settings
from tenex.tools.tool import Tool, object_schema
from tenex.web.site import PagePart, Site

TEMPLATE = "features/example/agents.html"
SECTION = "<p>{{ example }}</p>"


def command(given: Globals) -> None:
    """Print a word."""
    given.show({"example": "of the command"}, "of the command")


def example_tool(settings: Settings) -> Tool:
    """A tool that says the name of the project; there is none where the project is called so."""
    if settings.project.name == "nameless":
        raise ConfigurationError(["example: it needs a name of the project"])

    async def body(_: Mapping[str, Any], __: ExecutionContext) -> ToolResult:
        return ToolResult(ok=True, content=settings.project.name)

    return Tool(
        name="example",
        description="Says a name.",
        parameters=object_schema({}),
        access=Access.READ,
        replay=Replay.READ,
        body=body,
    )


def _extend(_: Application) -> Extension:
    async def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"asked": asked.get("word")}

    return Extension(status={"example": lambda: "in the report"}, orders={"example": answer}, gauges=_gauges)


def _gauges() -> Iterator[Metric]:
    yield GaugeMetricFamily("tenex_example", "A number.", value=7)


def _lines(value: Any, _: datetime) -> Iterator[str]:
    yield f"example        {value}"


def _problems(value: Any) -> Iterator[Finding]:
    yield warning(f"example: {value}", "the report", "do nothing")


def _examine(_: Case) -> Iterator[Finding]:
    yield ok("the example was examined")


async def _values(_: Site) -> Mapping[str, Any]:
    return {"example": "in a section"}


EXAMPLE = Feature(
    name="example",
    commands=[Command("example", "tests.kits.example_feature:command", "Print a word.")],
    extend=_extend,
    checks=lambda: [Check("example", _examine, 5)],
    status=lambda: [StatusPart(name="example", lines=_lines, problems=_problems)],
    pages=lambda: [PagePart(page="agents", template=TEMPLATE, values=_values)],
    tools={"example": "tests.kits.example_feature:example_tool"},
)
