"""What evaluation offers."""

from typing import Final

from tenex.feature import Command, Feature

EVALUATION: Final = Feature(
    name="evaluation",
    commands=[
        Command(
            "eval",
            "tenex.features.evaluation.cli:evaluate",
            "Run scenarios, and show what failed and what models took.",
        )
    ],
)
