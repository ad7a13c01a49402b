"""The composition of the program: its features in order, and its entry point. Nothing else names a feature."""

import sys
from collections.abc import Sequence
from typing import Final

from tenex.cli.main import run
from tenex.feature import Feature
from tenex.features.acp_agents.feature import ACP_AGENTS
from tenex.features.acp_serve.feature import ACP_SERVE
from tenex.features.approvals.feature import APPROVALS
from tenex.features.evaluation.feature import EVALUATION
from tenex.features.file_uploads.feature import FILE_UPLOADS
from tenex.features.lessons.feature import LESSONS
from tenex.features.mcp_serve.feature import MCP_SERVE
from tenex.features.metrics.feature import METRICS
from tenex.features.model_choices.feature import MODEL_CHOICES
from tenex.features.published_agents.feature import PUBLISHED_AGENTS
from tenex.features.quotations.feature import QUOTATIONS
from tenex.features.received_files.feature import RECEIVED_FILES
from tenex.features.rooms.feature import ROOMS
from tenex.features.signers.feature import SIGNERS
from tenex.features.traces.feature import TRACES
from tenex.features.web_access.feature import WEB_ACCESS

FEATURES: Final[Sequence[Feature]] = (
    SIGNERS,
    QUOTATIONS,
    RECEIVED_FILES,
    FILE_UPLOADS,
    MODEL_CHOICES,
    LESSONS,
    APPROVALS,
    PUBLISHED_AGENTS,
    ROOMS,
    MCP_SERVE,
    ACP_SERVE,
    ACP_AGENTS,
    METRICS,
    TRACES,
    WEB_ACCESS,
    EVALUATION,
)
"""In the order in which surfaces show what they offer, after what surfaces have of their own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with all features and return its exit code."""
    return run(arguments, FEATURES)


if __name__ == "__main__":
    sys.exit(main())
