"""The workflows of a configuration: read, checked against the agents there are, given a key each."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from tenex.core.ids import Slug
from tenex.log import get_logger
from tenex.plugins.packages import workflow_references
from tenex.settings import ProjectPaths, Settings
from tenex.workflows.definitions import LoadedWorkflow, LoadedWorkflows, find_workflows, is_slug
from tenex.workflows.speakers.config import PERSON

from .agents import OWNER, PROJECT

TAKES_PART: Final = "takes part, and is disabled"

log = get_logger(__name__)


def load_workflows(
    settings: Settings, where: ProjectPaths, agents: Collection[Slug], disabled: Collection[Slug] = ()
) -> LoadedWorkflows:
    """Read every workflow; one with a fault, or in which somebody takes part who is no agent here, is disabled.

    Args:
        settings: those that name modules.
        where: the operator's folder.
        agents: the slugs that can take part.
        disabled: those of agents with faults.
    """
    return find_workflows(where.workflows, references(settings), where.code_refusal).without(
        lambda one: faults_here(one, agents, disabled)
    )


def references(settings: Settings) -> list[str]:
    """The workflows that the settings name, and those of allowed packages."""
    return [*settings.workflows, *workflow_references(settings.plugins.allow)]


def log_findings(read: LoadedWorkflows) -> None:
    """Log the disabled workflows and the warnings."""
    for one in read.disabled:
        log.error("workflow.disabled", workflow=one.slug, faults=list(one.faults))
    for usable in read.found:
        for warning in usable.warnings:
            log.warning("workflow.warning", workflow=usable.slug, warning=warning)


def faults_here(one: LoadedWorkflow, agents: Collection[str], disabled: Collection[str] = ()) -> list[str]:
    """Why a workflow cannot be held among these agents, each reason as a sentence."""
    known = ", ".join(sorted(agents))
    is_taken = _is_taken(one.slug, [*agents, *disabled])
    faults = [f"{one.source}: {one.slug} is the name of somebody else here. Rename the file."] if is_taken else []
    return faults + [
        f"{one.source}: {name} {TAKES_PART}. Fix that agent first."
        if name in disabled
        else f"{one.source}: {name} takes part, and is no agent here. There are: {known}; and {PERSON}."
        for name in one.workflow.everybody
        if name != PERSON and name not in agents
    ]


def _is_taken(slug: str, agents: Collection[str]) -> bool:
    return slug in agents or slug in (PROJECT, OWNER)


def disabled(read: LoadedWorkflows, agents: Collection[str]) -> dict[Slug, tuple[str, ...]]:
    """The faults of each workflow that is disabled and that people may call by its name."""
    usable = {one.slug for one in read.found}
    faults: dict[Slug, tuple[str, ...]] = {}
    for one in read.disabled:
        if is_slug(one.slug) and one.slug not in usable and not _is_taken(one.slug, agents):
            # people read this: they need the file's name, and not where on this machine it is
            named = (fault.replace(one.source, Path(one.source).name) for fault in one.faults)
            faults[one.slug] = (*faults.get(one.slug, ()), *named)
    return faults
