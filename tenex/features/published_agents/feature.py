"""What published agents offer."""

from typing import Final

from tenex.feature import Command, Feature

PUBLISHED_AGENTS: Final = Feature(
    name="published_agents",
    commands=[Command("agents add", "tenex.features.published_agents.cli:add_published", is_variant=True)],
)
