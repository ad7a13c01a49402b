"""The lessons on the page of agents, with forms that have the daemon change them."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenex.core.errors import UsageError
from tenex.operations.lessons import lessons_of
from tenex.service.client import ask, unanswered
from tenex.web.site import PagePart, Site
from tenex.web.source import PATIENCE


async def _values(site: Site) -> Mapping[str, Any]:
    lessons = await lessons_of(site.source.folder)
    return {"lessons": lessons.all_lessons()}


def _routes(site: Site) -> Sequence[BaseRoute]:
    async def change(request: Request, do: str, *names: str) -> Response:
        number = int(request.path_params["number"])
        fields = await site.posted(request, f"{do} {number}")
        words = {name: fields.get(name, "") for name in names}
        socket = site.source.places.socket
        try:
            await ask(socket, do, patience=PATIENCE, number=number, **words)
        except OSError as fault:
            raise UsageError(
                f"{unanswered(socket, fault, PATIENCE, 'at the lessons')} Only a running daemon changes lessons here; "
                "without one use `tenex agents lessons`."
            ) from fault
        return site.to("/agents#lessons")

    async def remove(request: Request) -> Response:
        return await change(request, "remove_lesson")

    async def edit(request: Request) -> Response:
        return await change(request, "edit_lesson", "title", "text")

    return [
        Route("/agents/lessons/{number:int}/remove", remove, methods=["POST"]),
        Route("/agents/lessons/{number:int}/edit", edit, methods=["POST"]),
    ]


LESSONS = PagePart(page="agents", template="features/lessons/agents.html", values=_values, routes=_routes)
