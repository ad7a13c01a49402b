"""What an operator can set: every setting with its default, the sources of values, and the paths.

Start at `sections` for the settings, `loading` for reading them, `paths` for the folders,
`trust` for folders that were not named.
"""

from tenex.core.errors import UntrustedFolder

from .loading import PREFIX, RESERVED, load, reload_settings
from .paths import (
    CONFIG_NAMES,
    KEY_SUFFIX,
    NO_CURRENT,
    ProjectPaths,
    check_paths,
    code_paths,
    example_config,
    example_folder,
    find_config,
    find_data,
    places_outside,
    required_trust,
    resolve_paths,
    workspace_data,
)
from .sections import EMBEDDED_RELAY_PORT, Commits, Settings
from .trust import OUTSIDE, Trust, contents_of, read_trusted, trust_file, write_trusted
from .validation_errors import suggestion

__all__ = [
    "CONFIG_NAMES",
    "EMBEDDED_RELAY_PORT",
    "KEY_SUFFIX",
    "NO_CURRENT",
    "OUTSIDE",
    "PREFIX",
    "RESERVED",
    "Commits",
    "ProjectPaths",
    "Settings",
    "Trust",
    "UntrustedFolder",
    "check_paths",
    "code_paths",
    "contents_of",
    "example_config",
    "example_folder",
    "find_config",
    "find_data",
    "load",
    "places_outside",
    "read_trusted",
    "reload_settings",
    "required_trust",
    "resolve_paths",
    "suggestion",
    "trust_file",
    "workspace_data",
    "write_trusted",
]
