"""The model that `tenex init` sets up: from options or from questions in a terminal, checked by two small calls.

A key is read from a file, from stdin or without echo. It is used for the check and stored in a file of its own.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from getpass import getpass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tenex.core.errors import ConfigurationError, TenexError, UsageError
from tenex.core.text.foreign import decode, is_like_key
from tenex.llm.config import KEY_VARIABLES, OFFLINE, ModelClientConfig, Price, ProviderConfig, read_key
from tenex.settings import KEY_SUFFIX
from tenex.settings.sections import Models

from . import output
from .questions import prompt

CUSTOM: Final = "local"
"""The name suggested for the operator's own server."""

CALLS: Final = 25
"""Of one request, from chat to its end: five decisions of the router, four turns of five calls."""
READ: Final = 8_000
"""Input tokens of a call: the agent's prompt, the tools and the messages so far."""
WRITTEN: Final = 400
"""Output tokens of a call: a few sentences and a tool call."""
LARGEST_LIST: Final = 4 * 1024 * 1024
"""Bytes of a list of models, decompressed; those of services with hundreds of models have 1 MB."""
LIST_TIMEOUT: Final = 3.0
"""Seconds for the list of models: a server has it ready."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A provider of the menu."""

    name: str
    title: str
    note: str = ""
    model: str = ""
    """The suggestion."""
    needs_key: bool = True
    base_url: str | None = None


VENDORS: Final = (
    Vendor(name=OFFLINE, title="offline", note="fixed rules, no key: to try everything"),
    Vendor(name="openai", title="OpenAI", model="gpt-5-mini"),
    Vendor(name="anthropic", title="Anthropic", model="claude-sonnet-4-5"),
    Vendor(name="google", title="Google", model="gemini-2.5-flash"),
    Vendor(
        name="ollama", title="Ollama", note="on this machine", needs_key=False, base_url="http://127.0.0.1:11434/v1"
    ),
    Vendor(name=CUSTOM, title="another", note="any server with the OpenAI protocol", needs_key=False),
)
BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A model to set up."""

    provider: str
    model: str
    kind: str | None = None
    """The protocol, where the provider's name does not imply it."""
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    """To be stored."""
    known_key: str | None = field(default=None, repr=False)
    """One that the daemon finds without our storing it."""

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
        table = self.settings()["providers"][self.provider]
        lines = [f"default = {json.dumps(self.name)}", "", f"[models.providers.{self.provider}]"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in table.items()]
        if self.key is not None:
            lines.append(f"# Its key is in the keys folder, in {self.provider}{KEY_SUFFIX}.")
        return "\n".join(lines)

    def config(self) -> ModelClientConfig:
        """As the settings of the model client."""
        defaults = Models()
        key = self.key or self.known_key
        provider = ProviderConfig(
            name=self.provider, kind=self.kind or self.provider, base_url=self.base_url, api_key=key
        )
        return ModelClientConfig(
            providers={self.provider: provider}, stream=defaults.stream, max_output_tokens=defaults.max_output_tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the command line."""

    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    key_file: Path | None = None


def from_options(options: Options, keys: Path, *, is_new: bool = True) -> Chosen | None:
    """The model the options name; None for the offline one.

    `is_new`: it is to be set up, so a key must be there.

    Raises:
        UsageError: they contradict each other, or leave out what is needed.
    """
    _refuse_keys(options)
    provider, model = _names(options)
    if provider == OFFLINE:
        if options.base_url or options.key_file:
            raise UsageError("The offline model has no server and no key. Name another with --model.")
        return None
    if not _NAME.fullmatch(provider):
        raise UsageError(f"{provider!r} cannot name a provider: use lower-case letters, digits, '-' and '_'.")
    vendor = BY_NAME.get(provider)
    base_url = options.base_url or (vendor.base_url if vendor else None)
    if base_url is not None and not _is_url(base_url):
        example = "http://127.0.0.1:8080/v1, without a user or a password"
        raise UsageError(f"--base-url {base_url}: must be an address such as {example}")
    if is_new and provider == CUSTOM and base_url is None:
        setup = f"`tenex init --model {provider}:{model or 'NAME'} --base-url URL`"
        raise UsageError(f"{provider} needs the address of its server: {setup} stores it.")
    model = model or (vendor.model if vendor else "")
    if not model:
        raise UsageError(f"Name a model of {provider}: --model {provider}:NAME.")
    key = _key_from(options.key_file) if options.key_file is not None else None
    known_key = None if key else known_key_of(provider, keys)[1]
    if is_new and vendor is not None and vendor.needs_key and not key and not known_key:
        setup = f"`tenex init --model {provider}:{model} --api-key-file FILE` (- reads stdin)"
        raise UsageError(f"{provider} needs a key: set {' or '.join(KEY_VARIABLES[provider])}, or store it by {setup}.")
    kind = "openai" if provider == CUSTOM or (vendor is None and base_url) else None
    return Chosen(provider=provider, model=model, kind=kind, base_url=base_url, key=key, known_key=known_key)


def _refuse_keys(options: Options) -> None:
    """Refuse a key where a name is expected; the message does not repeat it.

    Raises:
        UsageError: an option holds one.
    """
    for option, value in (
        ("--model", options.model),
        ("--provider", options.provider),
        ("--base-url", options.base_url),
        ("--api-key-file", options.key_file),
    ):
        if value is not None and is_like_key(str(value)):
            what = "the name of a file" if option == "--api-key-file" else "a name"
            raise UsageError(
                f"{option} takes {what}, and this looks like a key. Put the key into a file: --api-key-file FILE. "
                "Then delete it from the history of your shell."
            )


def _names(options: Options) -> tuple[str, str]:
    """Provider and model, one of which may be left out."""
    model = (options.model or "").strip()
    provider = (options.provider or "").strip()
    if model == OFFLINE and provider in ("", OFFLINE):
        return OFFLINE, ""
    prefix, _, rest = model.partition(":")
    if provider:
        return provider, rest if rest and prefix == provider else model
    if prefix and rest:
        return prefix, rest
    if model:
        raise UsageError(f"{model!r} names no provider: write PROVIDER:NAME, such as openai:gpt-5-mini, or offline.")
    return (CUSTOM if options.base_url else OFFLINE), ""


def build(chosen: Chosen) -> None:
    """Check without a call whether the model can be used.

    Raises:
        ConfigurationError: an unknown provider, a missing package or key.
    """
    from tenex.llm.client import ModelClient
    from tenex.llm.scripted import OfflineModel

    client = ModelClient(chosen.config(), lambda _purpose, _agent, _phase: (chosen.name,), OfflineModel())
    try:
        client.check([chosen.name])
    except ConfigurationError as error:  # it names settings, which are not written yet
        where = f"models.providers.{chosen.provider}"
        faults = [
            fault.replace(f"{where}.api_key_env or {where}.api_key_file", "--api-key-file FILE")
            .replace('set kind = "openai"', "add --base-url URL")
            .replace(where, chosen.provider)
            for fault in error.faults
        ]
        raise ConfigurationError(faults) from error


def check(chosen: Chosen) -> None:
    """Make a small call of each kind, and print how long they took and what the model costs.

    Raises:
        ModelUnavailable: there is no answer, or the key is wrong.
        ConfigurationError: the model cannot be used.
    """
    from tenex.llm.pricing import price_of
    from tenex.llm.probe import probe

    output.message(f"Asking {chosen.name} for a tool call and a decision ...")
    config = chosen.config()
    with output.without_logs():
        found = asyncio.run(probe(config, chosen.name))
    output.message(f"It answers, in {found.seconds:.1f} s.")
    for doubt in found.doubts:
        output.message(f"Note: {doubt}.")
    output.message(cost(price_of(config, chosen.name)))


def cost(price: Price | None) -> str:
    """An estimate of the costs; None where the price is unknown."""
    if price is None:
        return "Its price is not known here: ask the provider, and set models.prices to have costs counted."
    if not (whole := _of_request(price)):
        return "It costs nothing per token."
    return (
        f"It costs ${price.input:.2f} for a million input tokens and ${price.output:.2f} for a million output tokens.\n"
        f"One request from chat to its end, taken as {CALLS} calls that read {READ:,} tokens each and write "
        f"{WRITTEN}, is then about ${whole:.2f}; long work costs more. At limits.cost_per_cycle_usd it stops and asks."
    )


def request_cost(chosen: Chosen) -> str:
    """What one request from chat to its end costs, as a clause."""
    from tenex.llm.pricing import price_of

    price = price_of(chosen.config(), chosen.name)
    if price is None:
        return "it may COST MONEY, no price is known here"
    whole = _of_request(price)
    return f"it COSTS MONEY, about ${whole:.2f} a request" if whole else "it is free"


def has_price(chosen: Chosen) -> bool:
    """Whether its tokens have a price that is known here; without one no cost is counted, and no limit of it acts."""
    from tenex.llm.pricing import price_of

    price = price_of(chosen.config(), chosen.name)
    return price is not None and _of_request(price) > 0


def _of_request(price: Price) -> float:
    return CALLS * (READ * price.input + WRITTEN * price.output) / 1e6


def how_to(chosen: Chosen, file: Path, keys: Path) -> str:
    """How to change an existing configuration by hand."""
    lines = "\n".join(f"    {line}".rstrip() for line in f"[models]\n{chosen.toml()}".splitlines())
    text = f"{file} exists and was not changed. To use {chosen.name}, edit it so that it holds:\n\n{lines}\n"
    if not chosen.known_key and (chosen.key or (chosen.provider in BY_NAME and BY_NAME[chosen.provider].needs_key)):
        text += f"\nThe key goes into {keys / f'{chosen.provider}{KEY_SUFFIX}'}, one line, with `chmod 600`."
    return text


def known_key_of(provider: str, keys: Path) -> tuple[str, str | None]:
    """Where the daemon looks for a key, and the key it finds."""
    path = keys / f"{provider}{KEY_SUFFIX}"
    try:
        stored = read_key(decode(path.read_bytes()))
    except (OSError, ValueError):
        stored = ""
    if stored:
        return str(path), stored
    variables = KEY_VARIABLES.get(provider, ())
    for name in variables:
        with suppress(ValueError):
            if key := read_key(os.environ.get(name, "")):
                return f"${name}", key
    return " or ".join(f"${name}" for name in variables), None


def _key_from(source: Path) -> str:
    try:
        if str(source) != "-":
            text = decode(source.read_bytes())
        elif sys.stdin.isatty():
            text = getpass("The key (not shown): ", stream=sys.stderr)
        else:
            text = sys.stdin.read(10_000)
        key = _one_word(text)
    except OSError as error:
        raise UsageError(f"--api-key-file {source}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        what = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        reason = f"must hold one line, the key and nothing else ({what})"
        raise UsageError(f"--api-key-file {source}: {reason}") from None
    if not key:
        raise UsageError(f"--api-key-file {source}: must hold one line, the key and nothing else")
    return key


def _one_word(text: str) -> str:
    """A pasted key, or nothing; raises ValueError with a sentence where it can be no key."""
    key = read_key(text)
    if " " in key:
        raise ValueError("it holds a space, which is in no key")
    return key


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # an invalid port or IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and parts.username is None


# ---- questions in a terminal ----


def ask(keys: Path) -> Chosen | None:
    """Ask until there is a model that works or that the user wants anyway; None for the offline one."""
    output.message("Which model shall the agents use?")
    for number, vendor in enumerate(VENDORS, 1):
        output.message(f"  {number}  {vendor.title:<12}{vendor.note}".rstrip())
    default = "1"
    while True:
        answer = prompt("Choose", default)
        if not answer.isdecimal() or not 1 <= int(answer) <= len(VENDORS):
            output.message(f"Type a number from 1 to {len(VENDORS)}.")
            continue
        vendor = VENDORS[int(answer) - 1]
        default = answer
        if vendor.name == OFFLINE:
            return None
        chosen = _ask_details(vendor, keys)
        if chosen is None:
            continue
        try:
            check(chosen)
        except TenexError as error:
            output.message(f"That did not work. {error}")
            wish = ""
            while wish not in ("t", "s", "o"):
                wish = prompt("(t)ry again, (s)tore it anyway, or go on (o)ffline", "t")[:1].lower()
            if wish != "t":
                return chosen if wish == "s" else None
        else:
            return chosen


def _ask_details(vendor: Vendor, keys: Path) -> Chosen | None:
    provider = vendor.name
    base_url = vendor.base_url
    kind = None
    if vendor.name == CUSTOM:
        base_url = prompt("Its address, up to and with /v1", "http://127.0.0.1:8080/v1")
        if not _is_url(base_url):
            output.message(f"{base_url} is not an address: it must begin with http:// or https://.")
            return None
        provider = prompt("A name for it", CUSTOM).lower()
        kind = "openai"
        if not _NAME.fullmatch(provider) or (provider in BY_NAME and provider != CUSTOM):
            output.message("Use lower-case letters, digits, '-' and '_', and a name that is not in the list above.")
            return None
    key, known = (None, None) if vendor.name == "ollama" else _ask_key(provider, keys, needed=vendor.needs_key)
    if vendor.needs_key and not key and not known:
        output.message(f"{vendor.title} needs a key.")
        return None
    listed = models_of(base_url, key or known) if base_url is not None else None
    if base_url is not None and listed is None:
        output.message(f"No models listed at {base_url}" + ("; is Ollama running?" if vendor.name == "ollama" else "."))
    if listed:
        output.message(f"It has: {', '.join(listed[:30])}{' ...' if len(listed) > 30 else ''}")
    model = prompt("Its model", vendor.model or (listed[0] if listed else "")).removeprefix(f"{provider}:")
    if not model:
        output.message("A model needs a name.")
        return None
    return Chosen(provider=provider, model=model, kind=kind, base_url=base_url, key=key, known_key=known)


def _ask_key(provider: str, keys: Path, *, needed: bool) -> tuple[str | None, str | None]:
    """A typed key, or one that is known already."""
    where, known = known_key_of(provider, keys)
    if known:
        output.message(f"There is a key in {where}; press Enter to use it.")
    hint = "" if known or needed else "; Enter for none"
    while True:
        try:
            typed = _one_word(getpass(f"Its key (not shown{hint}): ", stream=sys.stderr))
        except ValueError as error:
            output.message(f"That is not a key: {error}. Copy it again.")
            continue
        return (typed or None), (None if typed else known)


def models_of(base_url: str, key: str | None = None, timeout: float = LIST_TIMEOUT) -> list[str] | None:
    """The models that a server of the OpenAI protocol lists; None where it does not answer."""
    import httpx2

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        url = f"{base_url.rstrip('/')}/models"
        with httpx2.stream("GET", url, headers=headers, timeout=timeout, trust_env=False) as answer:
            body = _bounded(answer.raise_for_status().iter_bytes(), time.monotonic() + timeout)
        names = [model["id"] for model in json.loads(body)["data"]]
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return sorted(name for name in names if isinstance(name, str) and name.isprintable())


def _bounded(pieces: Iterable[bytes], deadline: float) -> bytes:
    """The whole of a body.

    Raises:
        ValueError: it is larger than `LARGEST_LIST`, or has not ended in time.
    """
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > LARGEST_LIST:
            raise ValueError("the list is too large")
        if time.monotonic() > deadline:
            raise ValueError("the list has not ended in time")
    return bytes(body)
