"""What the agent for editors offers."""

from typing import Final

from tenex.feature import Command, Feature

ACP_SERVE: Final = Feature(
    name="acp_serve",
    commands=[
        Command("acp", "tenex.features.acp_serve.cli:acp", "Be an agent of an editor that speaks ACP.", has_json=False)
    ],
)
