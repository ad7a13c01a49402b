"""Which model `tenex init` sets up: as options say it, checked with one small call, and what it costs to talk.

A key comes from a file or from stdin. It goes to the check, and into a file of its own.
"""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass, field
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tenex.core.errors import UsageError

from . import output
from .logging import quietly

if TYPE_CHECKING:
    from tenex.llm.config import ModelClientConfig

OFFLINE: Final = "offline"
CUSTOM: Final = "local"
"""The name suggested for a server of one's own."""
KEY_SUFFIX: Final = ".api-key"

CALLS: Final = 25
"""Of one request, from chat to its end: five decisions of the router, four turns of five calls."""
READ: Final = 8_000
"""Tokens a call reads: the agent's prompt, the tools and what was said so far."""
WRITTEN: Final = 400
"""Tokens a call writes: some words and a tool call."""

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A provider one can choose by its number."""

    name: str
    title: str
    note: str = ""
    model: str = ""
    """What is suggested; a name of our own choice, because prices and names change faster than programs."""
    needs_key: bool = True
    base_url: str | None = None


VENDORS: Final = (
    Vendor(name=OFFLINE, title="offline", note="fixed rules: no key, no network, no intelligence; to try everything"),
    Vendor(name="openai", title="OpenAI", model="gpt-5-mini"),
    Vendor(name="anthropic", title="Anthropic", model="claude-sonnet-4-5"),
    Vendor(name="google", title="Google", model="gemini-2.5-flash"),
    Vendor(
        name="ollama", title="Ollama", note="on this machine", needs_key=False, base_url="http://127.0.0.1:11434/v1"
    ),
    Vendor(name=CUSTOM, title="another", note="any server that speaks the OpenAI protocol", needs_key=False),
)
BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A model to set up."""

    provider: str
    model: str
    kind: str | None = None
    """The protocol, where the provider's name does not say it."""
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    """To be stored; None where there is none to store."""
    known_key: str | None = field(default=None, repr=False)
    """One that lies where the daemon will look for it anyway."""

    @property
    def name(self) -> str:
        """As settings write it."""
        return f"{self.provider}:{self.model}"

    def settings(self) -> dict[str, Any]:
        """As the table `models` of the settings."""
        table = {"kind": self.kind, "base_url": self.base_url}
        given = {name: value for name, value in table.items() if value is not None}
        return {"default": self.name, "providers": {self.provider: given}}

    def toml(self) -> str:
        """The lines below `[models]`, and the provider's own table."""
        lines = [f"default = {json.dumps(self.name)}", "", f"[models.providers.{self.provider}]"]
        if self.kind is not None:
            lines.append(f"kind = {json.dumps(self.kind)}")
        if self.base_url is not None:
            lines.append(f"base_url = {json.dumps(self.base_url)}")
        if self.key is not None:
            lines.append(f"# Its key lies in the keys folder, in {self.provider}{KEY_SUFFIX}.")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was said on the command line."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_file: Path | None = None

    @property
    def is_given(self) -> bool:
        """Whether anything was."""
        return any(value is not None for value in (self.model, self.provider, self.base_url, self.key_file))


def from_options(options: Options, keys: Path, *, is_new: bool = True) -> Chosen | None:
    """The model the options name; None for the offline one.

    `is_new` says that it is to be set up, and not only told how: then a key must be there.

    Raises:
        UsageError: they contradict each other, or leave out what is needed.
    """
    provider, model = _names(options)
    if provider == OFFLINE:
        if options.base_url or options.key_file:
            raise UsageError("the offline model has no server and no key; name another with --model")
        return None
    if not NAME.fullmatch(provider):
        raise UsageError(f"{provider!r} cannot name a provider: use lower-case letters, digits, '-' and '_'")
    vendor = BY_NAME.get(provider)
    base_url = options.base_url or (vendor.base_url if vendor else None)
    if base_url is not None and not is_address(base_url):
        raise UsageError(f"--base-url {base_url}: must be an address such as http://127.0.0.1:8080/v1")
    if is_new and provider == CUSTOM and base_url is None:
        raise UsageError(f"say with --base-url where the server of {provider} is")
    model = model or (vendor.model if vendor else "")
    if not model:
        raise UsageError(f"say which model of {provider}: --model {provider}:NAME")
    key = _key_from(options.key_file) if options.key_file is not None else None
    known_key = None if key else known_key_of(provider, keys)[1]
    if is_new and vendor is not None and vendor.needs_key and not key and not known_key:
        raise UsageError(
            f"{provider} needs a key: put it into a file and name that with --api-key-file, or `--api-key-file -` to"
            " read it from stdin"
        )
    kind = "openai" if provider == CUSTOM or (vendor is None and base_url) else None
    return Chosen(provider=provider, model=model, kind=kind, base_url=base_url, key=key, known_key=known_key)


def _names(options: Options) -> tuple[str, str]:
    """Provider and model, one of which may be left out."""
    model = (options.model or "").strip()
    provider = (options.provider or "").strip()
    if model == OFFLINE and provider in ("", OFFLINE):
        return OFFLINE, ""
    named, colon, rest = model.partition(":")
    if provider:
        return provider, rest if colon and named == provider else model
    if colon and named and rest:
        return named, rest
    if model:
        raise UsageError(f"{model!r} names no provider: write --model PROVIDER:NAME, or add --provider")
    return (CUSTOM if options.base_url else OFFLINE), ""


def build(chosen: Chosen) -> None:
    """See, without a call, whether the model can be built at all.

    Raises:
        ConfigurationError: it cannot: an unknown provider, a missing package or key.
    """
    from tenex.llm.client import ModelClient
    from tenex.llm.scripted import OfflineModel

    ModelClient(_config(chosen), lambda _purpose, _agent, _phase: (chosen.name,), OfflineModel()).check([chosen.name])


def check(chosen: Chosen) -> None:
    """Make a small call of each kind, and say how long they took and what talking will cost.

    Raises:
        ModelUnavailable: nobody answers, or the key is wrong.
        ConfigurationError: the model cannot even be built.
    """
    from tenex.llm.probe import price_of, probe

    output.say(f"Asking {chosen.name} for a tool call and a decision ...")
    config = _config(chosen)
    with quietly():
        found = asyncio.run(probe(config, chosen.name))
    output.say(f"It answers, in {found.seconds:.1f} s.")
    for doubt in found.doubts:
        output.say(f"Note: {doubt}.")
    price = price_of(config, chosen.name)
    output.say(cost(price.input, price.output) if price is not None else cost())


def cost(read: float | None = None, written: float | None = None) -> str:
    """What it will cost to talk; prices in US dollars per million tokens, None where they are not known."""
    if read is None or written is None:
        return "What it costs is not known here: ask its provider, and set models.prices to have it counted."
    if not read and not written:
        return "It costs nothing per token."
    whole = CALLS * (READ * read + WRITTEN * written) / 1e6
    return (
        f"It costs ${read:.2f} for a million tokens read and ${written:.2f} for a million written.\n"
        f"One request from chat to its end, taken as {CALLS} calls that read {READ:,} tokens each and write\n"
        f"{WRITTEN}, is then about ${whole:.2f}; long work costs more. At limits.cost_per_cycle_usd it stops and asks."
    )


def request_cost(chosen: Chosen) -> str:
    """What one request from chat to its end costs, as a clause."""
    from tenex.llm.pricing import price_of

    price = price_of(_config(chosen), chosen.name)
    if price is None:
        return "it may COST MONEY, no price is known here"
    whole = CALLS * (READ * price.input + WRITTEN * price.output) / 1e6
    return f"it COSTS MONEY, about ${whole:.2f} a request" if whole else "it is free"


def how_to(chosen: Chosen, file: Path, keys: Path) -> str:
    """How to change a configuration that is there by hand."""
    lines = "\n".join(f"    {line}".rstrip() for line in f"[models]\n{chosen.toml()}".splitlines())
    said = f"{file} is there and stays as it is. To use {chosen.name}, change it so that it holds:\n\n{lines}\n"
    if not chosen.known_key and (chosen.key or (chosen.provider in BY_NAME and BY_NAME[chosen.provider].needs_key)):
        path = keys / f"{chosen.provider}{KEY_SUFFIX}"
        said += f"\nThe key goes into {path}, one line, with `chmod 600`."
    return said


def known_key_of(provider: str, keys: Path) -> tuple[str, str | None]:
    """Where the daemon will find a key by itself, and the key."""
    from tenex.llm.config import KEY_VARIABLES

    path = keys / f"{provider}{KEY_SUFFIX}"
    try:
        stored = clean(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        stored = ""
    if stored:
        return str(path), stored
    variables = KEY_VARIABLES.get(provider, ())
    found = next(((f"${name}", key) for name in variables if (key := os.environ.get(name, "").strip())), None)
    return found or (" or ".join(f"${name}" for name in variables), None)


def _key_from(source: Path) -> str:
    try:
        if str(source) != "-":
            text = source.read_text(encoding="utf-8")
        elif sys.stdin.isatty():
            text = getpass("The key (not shown): ", stream=sys.stderr)
        else:
            text = sys.stdin.read(10_000)
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "it is no text"
        raise UsageError(f"--api-key-file {source}: cannot be read ({reason})") from None
    key = clean(text)
    if not is_key(key):
        raise UsageError(f"--api-key-file {source}: it must hold one line, the key and nothing else")
    return key


def clean(text: str) -> str:
    """A key as it was pasted, without what came along."""
    return text.strip().strip("\"'")


def is_key(text: str) -> bool:
    """Whether this can be a key: printable ASCII without a space, as it has to stand in a header."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def is_address(url: str) -> bool:
    """Whether this is the address of a server."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return False


def _config(chosen: Chosen) -> "ModelClientConfig":
    from tenex.llm.config import ModelClientConfig, ProviderConfig
    from tenex.settings.sections import Models

    work = Models()
    provider = ProviderConfig(
        name=chosen.provider,
        kind=chosen.kind or chosen.provider,
        base_url=chosen.base_url,
        api_key=chosen.key or chosen.known_key,
        key_sources="what was given here",
    )
    return ModelClientConfig(
        providers={chosen.provider: provider}, stream=work.stream, max_output_tokens=work.max_output_tokens
    )
