"""`tenex config`: the settings, their origins, and whether they are valid."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tenex.core.errors import ConfigurationError
from tenex.core.work.tool_names import SERVER_MARK
from tenex.nostr.keys import KeyRing
from tenex.settings import example_config, resolve_paths

from .shared import output
from .shared.options import Globals
from .shared.register import group, register

config = group("Show and check the settings.")


@register(config)
def check(given: Globals) -> None:
    """Check settings, keys, folders, agents, workflows and models, and list every fault.

    No model is called. The exit code is 3 where there is a fault. A setting without effect is only a remark.
    """
    from tenex.configuration.agents import PROJECT
    from tenex.operations.configuration_check import check_configuration, faults_of
    from tenex.operations.listed_tools import NOTHING_LISTED, listed_tools

    file: Path | None = None
    remarks: list[str] = []
    try:
        settings = given.settings()
        ring = KeyRing(*resolve_paths(settings).key_folders)
        is_about_servers = any(SERVER_MARK in rule.tool for rule in settings.approve)
        listed = asyncio.run(listed_tools(resolve_paths(settings))) if is_about_servers else NOTHING_LISTED
        faults, remarks = check_configuration(settings, listed)
        # `run` makes every key but the project's
        faults += faults_of(*(partial(ring.read, name) for name in sorted({PROJECT, *ring.names()})))
        file = settings.file
    except ConfigurationError as error:
        faults = [*error.faults]
    if faults:
        given.show({"ok": False, "file": None, "faults": faults, "remarks": remarks}, "", *remarks)
        raise ConfigurationError(faults)
    found = {"ok": True, "file": file and str(file), "faults": [], "remarks": remarks}
    given.show(found, f"ok: {file or 'no tenex.toml, the defaults'}", *remarks)


@register(config)
def show(given: Globals) -> None:
    """Print every setting as TOML, and where its value comes from.

    A value without an origin is the default.
    """
    settings = given.settings()
    values = _without_passwords(settings.model_dump())
    text = "\n".join(_toml(values, settings.origins)).lstrip("\n")
    given.show({"settings": values, "origins": dict(settings.origins)}, text)


@register(config)
def path(given: Globals) -> None:
    """Print the path of tenex.toml.

    It is printed even if the file does not exist; --json adds the folders.
    """
    settings = given.settings()
    here = {name: str(value) if value else None for name, value in asdict(resolve_paths(settings)).items()}
    file = settings.file or settings.data / "tenex.toml"
    note = "" if settings.file else "This file does not exist yet; `tenex init` writes it."
    given.show({**here, "example": str(example_config())}, str(file), note)


def _without_passwords(values: dict[str, Any]) -> dict[str, Any]:
    """Hide passwords and keys of addresses, and what MCP servers are given but names of variables."""
    urls = [re.sub(r"\?.*", "?...", url) for url in values["relays"]["urls"]]
    servers = {name: _without_keys(server) for name, server in values["mcp"]["servers"].items()}
    store = re.sub(r"(?<=://)([^:@]*):.*@", r"\1:...@", values["store"])
    store = re.sub(r"(?<=password=)[^&]*", "...", store)
    return {
        **values,
        "store": store,
        "relays": {**values["relays"], "urls": urls},
        "mcp": {**values["mcp"], "servers": servers},
    }


def _without_keys(server: Mapping[str, Any]) -> dict[str, Any]:
    def shown(value: str) -> str:
        return value if "${" in value and ":-" not in value else "..."

    hidden = {name: {key: shown(value) for key, value in server[name].items()} for name in ("env", "headers")}
    url = server["url"] and re.sub(r"\?.*", "?...", server["url"])
    return {**server, **hidden, "url": url}


def _toml(values: Mapping[str, Any], origins: Mapping[str, str], at: str = "") -> Iterator[str]:
    """TOML lines: a table's own values first, then the tables below it; unset ones as comments."""
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    plain = {name: value for name, value in values.items() if name not in tables}
    if at and plain:
        yield from ("", f"[{at}]")
    for name, value in plain.items():
        dotted = f"{at}.{name}" if at else name
        comment = f"  # from {origins[dotted]}" if dotted in origins else ""
        yield f"# {_key(name)} is not set" if value is None else f"{_key(name)} = {_value(value)}{comment}"
    for name, value in tables.items():
        yield from _toml(value, origins, f"{at}.{_key(name)}" if at else _key(name))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(part)}' for name, part in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return output.escape_json(json.dumps(value, ensure_ascii=False))  # the same in TOML
