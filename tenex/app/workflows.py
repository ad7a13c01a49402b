"""The workflows of a configuration: read, checked against the agents there are, given a key each.

Never: hold one; the conversation that runs it does.
"""

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

import structlog

from tenex.core.errors import ConfigurationError
from tenex.core.graph import TransitionGraph as Compiled
from tenex.core.ids import Slug
from tenex.core.workflows import PERSON, Compile, View, Workflow
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.settings import Places, Settings
from tenex.workflow.definitions import Found, find_workflows
from tenex.workflow.graph import TransitionGraph
from tenex.workflow.registry import TransitionRegistry

from .staff import OWNER, PROJECT

KEPT: Final = 64
"""Compiled graphs: of more workflows than a folder holds, each in the versions conversations were opened with."""

log = structlog.get_logger(__name__)


def load_workflows(settings: Settings, where: Places, agents: Collection[Slug]) -> list[Found]:
    """Read every workflow, and see that all who take part in it are agents here.

    Args:
        settings: those that name modules.
        where: the operator's folder.
        agents: the slugs that can take part.

    Raises:
        ConfigurationError: with every fault.
    """
    faults: list[str] = []
    found = find_workflows(where.workflows, settings.workflows, faults)
    for one in found:
        if one.slug in agents or one.slug in (PROJECT, OWNER):
            faults.append(f"{one.source}: {one.slug} is the name of somebody else here. Rename the file.")
        faults += faults_of_participants(one, agents)
    if faults:
        raise ConfigurationError(faults)
    for one in found:
        for doubt in one.workflow.doubts():
            log.warning("workflow.doubtful", workflow=one.slug, doubt=doubt)
    return found


def faults_of_participants(one: Found, agents: Collection[str]) -> list[str]:
    """Who of a workflow is no agent here, each as a sentence."""
    known = ", ".join(sorted(agents))
    return [
        f"{one.source}: {name} takes part, and is no agent here. There are: {known}; and {PERSON}."
        for name in one.workflow.everybody
        if name != PERSON and name not in agents
    ]


def workflow_keys(ring: KeyRing, found: Collection[Found]) -> dict[str, SecretKey]:
    """The key of every workflow; a new one gets one.

    Raises:
        ConfigurationError: one cannot be read or made; with all faults.
    """
    keys: dict[str, SecretKey] = {}
    faults: list[str] = []
    for one in found:
        try:
            keys[one.slug] = ring.get_or_create(one.slug)
        except ConfigurationError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigurationError(faults)
    return keys


def configured(found: Collection[Found], keys: Mapping[str, SecretKey]) -> dict[Slug, Workflow]:
    """The workflows as the core goes by them."""
    return {one.slug: _configured(one, keys[one.slug]) for one in found}


def _configured(one: Found, key: SecretKey) -> Workflow:
    given = one.workflow
    view: View = "full" if given.view == "full" else "summary" if given.view == "summary" else "windowed"
    return Workflow(
        slug=one.slug, name=given.name or one.slug, pubkey=key.public, participants=given.everybody,
        graph_data=given.graph.to_dict(), about=given.about, context_vars=dict(given.context),
        expectations=given.within(), view=view,
    )  # fmt: skip


def compiler() -> Compile:
    """Makes graphs of their dicts, by the conditions and targets that are registered now.

    What is registered later belongs to a later configuration, which may be refused. The function raises
    ConfigurationError where a condition or a target is not registered any more.
    """
    registry = TransitionRegistry.default().copy()

    @lru_cache(maxsize=KEPT)
    def compiled(text: str, participants: tuple[str, ...]) -> Compiled:
        return TransitionGraph.loads(text, registry=registry).compile(participants)

    return lambda data, participants: compiled(json.dumps(data, sort_keys=True), participants)
