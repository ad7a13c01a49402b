"""The files that commands make: each whole or not there, and none in the place of another."""

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tenex.core.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from .provider import Chosen


def store_key(file: Path, key: str) -> list[str]:
    """Keep a provider's key; one that is there and the same is left, and gives no line to tell."""
    try:
        if file.read_text(encoding="ascii").strip() == key:
            return []
    except FileNotFoundError:
        write_new(file, f"{key}\n")
        return [str(file)]
    except (OSError, ValueError):
        pass
    raise UsageError(f"{file} holds another key; move it away first, or leave the key out to use that one")


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter; one that is there is left as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as fault:
        raise ConfigurationError([f"{folder}: cannot be made ({fault.strerror})"]) from fault


def write_new(file: Path, text: str) -> None:
    """Write beside, then link into place: unlike a rename, a link never replaces what another process has put there."""
    try:
        handle, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # 0600 from the start
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            os.link(beside, file)
        finally:
            with suppress(FileNotFoundError):
                Path(beside).unlink()
    except OSError as fault:
        raise ConfigurationError([f"{file}: cannot be written ({fault.strerror})"]) from fault


_OFFLINE = """\
# "offline" follows fixed rules: it lets you try everything without a key, and is no intelligence.
# default = "offline"\
"""


def config_text(owners: Sequence[str], relays: Sequence[str], chosen: "Chosen | None") -> str:
    """The text of a new `tenex.toml`; no relays leave the default, no model the offline one."""
    from tenex.settings import Settings, example_config

    default = json.dumps(Settings().relays.urls)
    urls = f"urls = {json.dumps(relays)}" if relays else f"# urls = {default}"
    return f"""\
# Only what differs from the defaults has to stand here. Every setting, explained: {example_config()}
# `tenex config check` finds every fault; `tenex config show` says where each value came from.

[people]
# Owners may do everything. Anybody else is ignored, until you list members here or set `open = true`.
owners = {json.dumps(list(owners))}

[relays]
# The relays where the agents listen. Your client has to use one of them too.
{urls}

[models]
{_OFFLINE if chosen is None else chosen.toml()}
"""
