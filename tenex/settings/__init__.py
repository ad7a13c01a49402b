"""What an operator can set: every setting with its default, where the values come from, where things lie.

Start at `sections` for the settings, `load` for reading them, `places` for the folders.
"""

from .loading import PREFIX, RESERVED, load, load_again
from .paths import (
    CONFIG_NAMES,
    ProjectPaths,
    check_paths,
    example_config,
    example_folder,
    find_config,
    find_data,
    places,
    refuse_code,
)
from .sections import EMBEDDED_RELAY_PORT, Settings
from .validation_errors import suggestion
from .values import circle, gate_rules, limits, model_for, named_models, router_model

__all__ = [
    "CONFIG_NAMES",
    "EMBEDDED_RELAY_PORT",
    "PREFIX",
    "RESERVED",
    "ProjectPaths",
    "Settings",
    "check_paths",
    "circle",
    "example_config",
    "example_folder",
    "find_config",
    "find_data",
    "gate_rules",
    "limits",
    "load",
    "load_again",
    "model_for",
    "named_models",
    "places",
    "refuse_code",
    "router_model",
    "suggestion",
]
