"""The pages of the whole daemon: its state, what was spent, its agents and lessons, and what the doctor finds."""

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenex.configuration.agents import load_agents
from tenex.core.errors import ConfigurationError, UsageError
from tenex.operations.doctor.runner import Report, run_doctor
from tenex.operations.lessons import lessons_of
from tenex.service.client import ask, unanswered
from tenex.store.stats import as_json

from .charts import tables_of
from .site import Site
from .source import PATIENCE


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
            Route("/daemon", self.daemon),
            Route("/daemon/doctor", self.examine, methods=["POST"]),
            Route("/usage", self.usage),
            Route("/agents", self.agents),
            Route("/agents/lessons/{number:int}/remove", self.remove_lesson, methods=["POST"]),
            Route("/agents/lessons/{number:int}/edit", self.edit_lesson, methods=["POST"]),
        ]

    async def daemon(self, request: Request) -> Response:
        """Relays, models, limits and conversations, as `tenex status` has them; what the doctor found last."""
        values = {"here": "daemon", "report": await self.site.source.status(), "doctor": self._report}
        return await self.site.show(request, "daemon.html", values)

    async def examine(self, request: Request) -> Response:
        """Ask the doctor, which takes some seconds and repairs nothing."""
        await self.site.posted(request, "doctor")
        async with self._examining:
            self._report = await run_doctor(self.site.case())
        return self.site.to("/daemon#doctor")

    async def usage(self, request: Request) -> Response:
        """What all conversations have taken together."""
        stats, unread = await self.site.source.all_stats()
        figures = as_json(stats)
        values = {"here": "usage", "title": "", "taken": figures, "tables": tables_of(figures), "unread": unread}
        return await self.site.show(request, "usage.html", values)

    async def agents(self, request: Request) -> Response:
        """The agents, with their prompts and tools, and what they have learned."""
        places = self.site.source.places
        library = None
        fault = ""
        try:
            library = await asyncio.to_thread(load_agents, places)
        except ConfigurationError as error:
            fault = str(error)
        lessons = await lessons_of(self.site.source.folder)
        values = {"here": "agents", "library": library, "fault": fault, "lessons": lessons.all_lessons()}
        return await self.site.show(request, "agents.html", values)

    async def remove_lesson(self, request: Request) -> Response:
        """Have the daemon remove a lesson."""
        return await self._change(request, "remove_lesson")

    async def edit_lesson(self, request: Request) -> Response:
        """Have the daemon change the words of a lesson."""
        return await self._change(request, "edit_lesson", "title", "text")

    async def _change(self, request: Request, do: str, *names: str) -> Response:
        number = int(request.path_params["number"])
        fields = await self.site.posted(request, f"{do} {number}")
        words = {name: fields.get(name, "") for name in names}
        socket = self.site.source.places.socket
        try:
            await ask(socket, do, patience=PATIENCE, number=number, **words)
        except OSError as fault:
            raise UsageError(
                f"{unanswered(socket, fault, PATIENCE, 'at the lessons')} Only a running daemon changes lessons here; "
                "without one use `tenex agents lessons`."
            ) from fault
        return self.site.to("/agents#lessons")
