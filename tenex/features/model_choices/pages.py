"""The choice of an agent's model on the page of agents: the event that clients send."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenex.core.errors import UsageError
from tenex.web.guard import session_of
from tenex.web.outcome import Outcome
from tenex.web.site import PagePart, Site

ASKED = Outcome(tone="plain", text="The daemon was asked for it. The page shows the model that is in use.")


async def _offers(site: Site) -> Mapping[str, Any]:
    """The agents and models that the daemon offers; none where no daemon runs."""
    configuration = (await site.source.status()).get("configuration", {})
    offers: Mapping[str, Any] = configuration.get("offers", {})
    return {"agents": {}, "models": [], "modelsInUse": {}, **offers}


async def _values(site: Site) -> Mapping[str, Any]:
    return {"offers": await _offers(site), "why_not_model": site.writer.why_not()}


def _routes(site: Site) -> Sequence[BaseRoute]:
    async def choose(request: Request) -> Response:
        fields = await site.posted(request, "model")
        offers = await _offers(site)
        agent, model = fields.get("agent", ""), fields.get("model", "")
        if agent not in offers["agents"] or model not in offers["models"]:
            raise UsageError("The daemon has no such agent, or no such model. Nothing was sent.")
        await site.writer.choose_model(agent, model)
        return site.to(f"/agents?sent={session_of(request).note(ASKED)}#models")

    return [Route("/agents/model", choose, methods=["POST"])]


MODELS = PagePart(page="agents", template="features/model_choices/agents.html", values=_values, routes=_routes)
