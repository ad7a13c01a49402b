"""The pages of the whole daemon: its state, what was spent, its agents, and what the doctor finds."""

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenex.configuration.agents import load_agents
from tenex.core.errors import ConfigurationError
from tenex.operations.doctor.runner import Report
from tenex.store.stats import as_json

from .charts import tables_of
from .site import Page, Site


@dataclass
class DaemonPages:
    """The pages, with what they share."""

    site: Site
    _report: Report | None = None
    """What the doctor found when it was last asked here."""
    _examining: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[BaseRoute]:
        """The addresses below that of the site."""
        return [
            Page(
                "/daemon",
                self.daemon,
                title="Daemon",
                shows="relays, models, remote signers, MCP servers, commands in the background, limits and spending of "
                "the day, what cannot go on; the doctor, when you ask it",
                commands=["status", "doctor"],
            ),
            Route("/daemon/doctor", self.examine, methods=["POST"]),
            Page(
                "/usage",
                self.usage,
                title="Usage",
                shows="time, tokens, cached share and cost of all conversations, by phase, model and agent",
                commands=["conversations stats"],
            ),
            Page(
                "/agents",
                self.agents,
                title="Agents",
                shows="prompts, tools, phases; lessons, to edit and remove while a daemon runs",
                commands=["agents list"],
            ),
        ]

    async def daemon(self, request: Request) -> Response:
        """Relays, models, limits and conversations, as `tenex status` has them; what the doctor found last."""
        values = {"here": "daemon", "report": await self.site.source.status(), "doctor": self._report}
        return await self.site.show(request, "daemon.html", values)

    async def examine(self, request: Request) -> Response:
        """Ask the doctor, which takes some seconds and repairs nothing."""
        await self.site.posted(request, "doctor")
        async with self._examining:
            self._report = await self.site.examine()
        return self.site.to("/daemon#doctor")

    async def usage(self, request: Request) -> Response:
        """What all conversations have taken together."""
        stats, unread = await self.site.source.all_stats()
        figures = as_json(stats)
        values = {"here": "usage", "title": "", "taken": figures, "tables": tables_of(figures), "unread": unread}
        return await self.site.show(request, "usage.html", values)

    async def agents(self, request: Request) -> Response:
        """The agents, with their prompts and tools."""
        places = self.site.source.places
        library = None
        fault = ""
        try:
            library = await asyncio.to_thread(load_agents, places)
        except ConfigurationError as error:
            fault = str(error)
        values = {"here": "agents", "library": library, "fault": fault}
        return await self.site.show(request, "agents.html", values)
