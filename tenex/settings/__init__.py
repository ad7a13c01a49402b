"""What an operator can set: every setting with its default, the sources of values, and the paths.

Start at `sections` for the settings, `loading` for reading them, `paths` for the folders.
"""

from .loading import PREFIX, RESERVED, load, reload_settings
from .paths import (
    CONFIG_NAMES,
    ProjectPaths,
    check_paths,
    example_config,
    example_folder,
    find_config,
    find_data,
    refuse_code,
    resolve_paths,
)
from .sections import EMBEDDED_RELAY_PORT, Settings
from .validation_errors import suggestion

__all__ = [
    "CONFIG_NAMES",
    "EMBEDDED_RELAY_PORT",
    "PREFIX",
    "RESERVED",
    "ProjectPaths",
    "Settings",
    "check_paths",
    "example_config",
    "example_folder",
    "find_config",
    "find_data",
    "load",
    "refuse_code",
    "reload_settings",
    "resolve_paths",
    "suggestion",
]
