"""Servers as they are configured, in the form of `mcpServers` that people have; one with a fault is named and left out.

A value may hold `${NAME}` or `${NAME:-default}`, which is replaced by a variable of the daemon. A sentence about a
fault names the place of the value and never the value, which may be a secret.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tenex.core.errors import ConfigurationError
from tenex.core.file_guard import guarded

from .hidden import ORDINARY, Hidden, hidden_values

LARGEST: Final = 1024**2
"""Bytes of a file with servers."""
PREFIX: Final = 32
"""Characters of a server's name that are in the names of its tools, which have 64."""
HTTP: Final = ("http", "streamable-http", "streamable_http", "streamablehttp")
"""What people write for streamable HTTP, in lower case."""

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9-]+")

ReplayWord = Literal["once", "idempotent", "read"]


class ServerFault(ValueError):
    """Why a server cannot be used: what is wrong, where, and what to do."""


INSTALLERS: Final = frozenset({"bunx", "npx", "pipx", "pnpx", "uvx"})
"""Programs that install what they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """A server, its values expanded."""

    name: str
    prefix: str
    """What the names of its tools begin with."""
    place: str
    """Where it is configured, for sentences."""
    command: str = ""
    """The program of a server that speaks over its input and output; "" for one that has an address."""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: bool = False
    """Whether its annotations count."""
    sandbox: bool = True
    network: bool = False
    folders: tuple[str, ...] = ()
    """Folders that it sees in the sandbox, read-only."""
    tools: frozenset[str] = frozenset()
    """Its tools that may be used; empty is all of them."""
    replay: Mapping[str, ReplayWord] = field(default_factory=dict)
    """By its tool, what becomes of a call whose result was lost."""
    timeout: float = 60
    """Seconds a call may take."""
    hidden: Hidden = field(default_factory=Hidden)
    """Takes what it was given as secrets out of a text: what it says is printed, logged and kept."""

    @property
    def is_program(self) -> bool:
        """Whether it is started here, and not reached by an address."""
        return bool(self.command)

    @property
    def cannot_install(self) -> bool:
        """Whether its program is one that installs a server from the network, and has none."""
        return self.sandbox and not self.network and PurePath(self.command).name in INSTALLERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The servers that can be used, by name, and why the others cannot."""

    servers: tuple[ServerConfig, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)


def _text(value: Any) -> Any:
    """Numbers and truth values are texts in the variables and arguments of many files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


_Text = Annotated[str, BeforeValidator(_text)]


class _Entry(BaseModel):
    """A server as it is written; keys of other programs are ignored."""

    model_config = ConfigDict(extra="ignore")

    command: str = ""
    args: tuple[_Text, ...] = ()
    env: dict[str, _Text] = {}
    cwd: str = ""
    type: str = ""
    url: str = ""
    headers: dict[str, _Text] = {}
    disabled: bool = False
    trust: bool = False
    sandbox: bool = True
    network: bool = False
    folders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    replay: dict[str, ReplayWord] = {}
    timeout: float = Field(default=60, gt=0, le=3600)


def read_servers(
    file: Path | None, tables: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str], settings: str
) -> Configured:
    """The servers of a file of `mcpServers` and those of the settings, which win.

    Args:
        file: the file; None for none.
        tables: `[mcp.servers]`, by name.
        environment: the daemon's variables.
        settings: what the settings are called in sentences.
    """
    faults: dict[str, str] = {}
    written: dict[str, tuple[str, Any]] = {}
    if file is not None:
        try:
            written = {name: (f"{file}: mcpServers.{name}", entry) for name, entry in _read(file).items()}
        except ConfigurationError as error:
            faults[str(file)] = str(error)
    written |= {name: (f"{settings}: mcp.servers.{name}", dict(entry)) for name, entry in tables.items()}
    servers: dict[str, ServerConfig] = {}
    for name in sorted(written):
        place, entry = written[name]
        try:
            server = _server(name, place, entry, environment)
        except ServerFault as fault:
            faults[name] = str(fault)
            continue
        if server is None:
            continue
        twin = next((other.name for other in servers.values() if other.prefix == server.prefix), None)
        if twin is None:
            servers[name] = server
        else:
            faults[name] = f"{place}: its tools would be called like those of {twin}. Rename one of them."
    return Configured(servers=tuple(servers.values()), faults=faults)


def prefix_of(name: str) -> str:
    """What the names of a server's tools begin with: without `__`, which separates the two."""
    return _FOREIGN.sub("_", name).strip("_")[:PREFIX].rstrip("_")


def _read(file: Path) -> Mapping[str, Any]:
    """The table `mcpServers` of a JSON file.

    Raises:
        ConfigurationError: the file cannot be read, or is none, or is not what the user has trusted.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(
            [f"{file}: cannot be read ({error.strerror}). Correct mcp.servers_file, or make the file."]
        ) from error
    if len(data) > LARGEST:
        raise ConfigurationError([f"{file}: is larger than 1 MiB. Keep only `mcpServers` in it."])
    try:
        content = json.loads(guarded(file, data))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([f"{file}: is not valid JSON ({error}). Correct it."]) from error
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise ConfigurationError([f'{file}: has no table "mcpServers". Put the servers into one.'])
    return servers


def _server(name: str, place: str, written: Any, environment: Mapping[str, str]) -> ServerConfig | None:
    """A server; None where it is disabled.

    Raises:
        ServerFault: it cannot be used.
    """
    try:
        entry = _Entry.model_validate(written)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ServerFault(f"{place}{f'.{where}' if where else ''}: {first['msg']}. Correct it.") from None
    if entry.disabled:
        return None
    prefix = prefix_of(name)
    if not prefix:
        raise ServerFault(f"{place}: its name has no letter and no digit, and its tools need one. Rename it.")
    _check_type(entry, place)
    expand = _Expansion(environment, place)
    url = expand("url", entry.url)
    if url:
        _check_url(url, place)
    env = {key: expand(f"env.{key}", text) for key, text in entry.env.items()}
    headers = {key: expand(f"headers.{key}", text) for key, text in entry.headers.items()}
    return ServerConfig(
        name=name,
        prefix=prefix,
        place=place,
        command=expand("command", entry.command),
        args=tuple(expand(f"args[{index}]", text) for index, text in enumerate(entry.args)),
        env=env,
        cwd=expand("cwd", entry.cwd),
        url=url,
        headers=headers,
        trust=entry.trust,
        sandbox=entry.sandbox,
        network=entry.network,
        folders=tuple(expand(f"folders[{index}]", text) for index, text in enumerate(entry.folders)),
        tools=frozenset(entry.tools),
        replay=entry.replay,
        timeout=entry.timeout,
        hidden=hidden_values(expand.used, env, headers, url),  # the last, once all was expanded
    )


def _check_type(entry: _Entry, place: str) -> None:
    kind = entry.type.strip().lower()
    if kind == "sse":
        raise ServerFault(
            f'{place}: type "sse" is not supported, MCP has dropped it. Give its address for streamable HTTP, with '
            'type "http".'
        )
    if kind not in ("", "stdio", *HTTP):
        raise ServerFault(f'{place}: the type {entry.type!r} is not known. Use "stdio" or "http".')
    if bool(entry.command) == bool(entry.url):
        raise ServerFault(f"{place}: it needs either `command` or `url`. Give one of them.")
    if entry.command and kind in HTTP:
        raise ServerFault(f'{place}: type "http" needs `url`, not `command`. Correct it, or leave `type` out.')
    if entry.url and kind == "stdio":
        raise ServerFault(f'{place}: type "stdio" needs `command`, not `url`. Correct it, or leave `type` out.')


def _check_url(url: str, place: str) -> None:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise ServerFault(f"{place}.url: is no address such as https://example.com/mcp. Correct it.")


class _Expansion:
    """Replaces variables in the values of a server."""

    def __init__(self, environment: Mapping[str, str], place: str) -> None:
        self._environment = environment
        self._place = place
        self.used: list[str] = []
        """The values of variables that were put in, but those that hold no secret."""

    def __call__(self, key: str, text: str) -> str:
        """The text with its variables.

        Raises:
            ServerFault: one is not set and has no default; or the text cannot be an argument or a variable.
        """

        def value(match: re.Match[str]) -> str:
            name = match[1]
            default = match[2]
            set_to = self._environment.get(name)
            if set_to or (set_to is not None and default is None):
                if name not in ORDINARY:
                    self.used.append(set_to)
                return set_to
            if default is None:
                raise ServerFault(
                    f"{self._place}.{key}: the variable {name} is not set. Set it for the daemon, or write "
                    f"${{{name}:-default}}."
                )
            return default

        expanded = _VARIABLE.sub(value, text)
        if "\0" in expanded:
            raise ServerFault(f"{self._place}.{key}: holds a NUL character. Remove it.")
        return expanded
