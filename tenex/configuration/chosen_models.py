"""Models that owners have chosen from their clients, in place of what the settings and the agents' files name."""

from collections.abc import Mapping
from typing import Final

from tenex.core.config import AgentKind
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.prompting import PromptLibrary
from tenex.settings import Settings
from tenex.settings.sections import AgentModels
from tenex.store.daemon_journal import ModelChosen

from .models import models_in_use

MOST_IN_CHAIN: Final = 10
"""As in the settings."""


def configured_models(settings: Settings, library: PromptLibrary, agent: Slug) -> tuple[str, ...]:
    """Every model that the settings and its file name for an agent, each once."""
    if agent == library.orchestrator.slug:
        return settings.models.for_router()
    own = library.definitions[agent].model or None
    chains = (settings.models.for_agent(agent, phase, own) for phase in Phase)
    return tuple(dict.fromkeys(name for chain in chains for name in chain))


def choices(settings: Settings, library: PromptLibrary) -> tuple[str, ...]:
    """The models that an owner may choose: those that the settings, or the files of agents, name for something."""
    return tuple(dict.fromkeys(name for chain in models_in_use(settings, library).values() for name in chain))


def with_chosen(settings: Settings, library: PromptLibrary, chosen: Mapping[Slug, ModelChosen]) -> Settings:
    """The settings with the models that owners have chosen, as far as these choices still stand.

    One is over once the settings name other models for that agent, or no longer name the chosen model at all. What they
    name for the agent is asked where the chosen one cannot answer.
    """
    may_be_chosen = choices(settings, library)
    agents = dict(settings.models.agents)
    router = settings.models.router
    for slug, choice in chosen.items():
        if slug not in library.definitions or choice.model not in may_be_chosen:
            continue
        if configured_models(settings, library, slug) != choice.instead_of:
            continue
        chain = list(dict.fromkeys([choice.model, *choice.instead_of]))[:MOST_IN_CHAIN]
        if library.definitions[slug].kind is AgentKind.ORCHESTRATOR:
            router = chain
        else:
            agents[str(slug)] = AgentModels(model=chain)
    models = settings.models.model_copy(update={"agents": agents, "router": router})
    return settings.model_copy(update={"models": models})
