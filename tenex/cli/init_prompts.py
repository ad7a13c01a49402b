"""The questions of `tenex init` in a terminal: which provider, its key, which of its models."""

import http.client
import json
import sys
from getpass import getpass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import typer

from tenex.core.errors import TenexError

from . import output
from .provider import (
    BY_NAME,
    CUSTOM,
    NAME,
    OFFLINE,
    VENDORS,
    Chosen,
    Vendor,
    check,
    clean,
    is_address,
    is_key,
    known_key_of,
)

LIST_TIMEOUT: Final = 3.0
"""Seconds: a list of names is at hand, or nobody listens."""
_MOST_BYTES: Final = 1_000_000


def ask(keys: Path) -> Chosen | None:
    """Ask the person until there is a model that works or that they want all the same; None for the offline one."""
    output.say("Which model shall the agents think with?")
    for number, vendor in enumerate(VENDORS, 1):
        output.say(f"  {number}  {vendor.title:<12}{vendor.note}".rstrip())
    default = "1"
    while True:
        answer = _prompt("Choose", default).strip()
        if not answer.isdecimal() or not 1 <= int(answer) <= len(VENDORS):
            output.say(f"Type a number from 1 to {len(VENDORS)}.")
            continue
        vendor, default = VENDORS[int(answer) - 1], answer
        if vendor.name == OFFLINE:
            return None
        chosen = _asked(vendor, keys)
        if chosen is None:
            continue
        try:
            check(chosen)
        except TenexError as fault:
            output.say(f"That did not work. {fault}")
            match _prompt("(t)ry again, (s)tore it anyway, or go on (o)ffline", "t")[:1].lower():
                case "s":
                    return chosen
                case "o":
                    return None
        else:
            return chosen


def models_of(base_url: str, key: str | None = None, timeout: float = LIST_TIMEOUT) -> list[str] | None:
    """The models a server of the OpenAI protocol lists; None where it does not answer."""
    parts = urlsplit(base_url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        try:
            head = {"Accept": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
            connection.request("GET", f"{parts.path.rstrip('/')}/models", headers=head)
            answer = json.loads(connection.getresponse().read(_MOST_BYTES))
        finally:
            connection.close()
        listed = answer["data"]
        names = [model["id"] for model in listed if isinstance(model["id"], str)]
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return None
    return sorted(name for name in names if name.isprintable())


def _asked(vendor: Vendor, keys: Path) -> Chosen | None:
    provider, base_url, kind = vendor.name, vendor.base_url, None
    if vendor.name == CUSTOM:
        base_url = _prompt("Its address, up to and with /v1", "http://127.0.0.1:8080/v1").strip()
        if not is_address(base_url):
            output.say(f"{base_url} is no address: it begins with http:// or https://.")
            return None
        provider, kind = _prompt("A name for it", CUSTOM).strip().lower(), "openai"
        if not NAME.fullmatch(provider) or (provider in BY_NAME and provider != CUSTOM):
            output.say("Use lower-case letters, digits, '-' and '_', and a name that is not taken above.")
            return None
    key, known = (None, None) if vendor.name == "ollama" else _key_asked(provider, keys, needed=vendor.needs_key)
    if vendor.needs_key and not key and not known:
        output.say(f"{vendor.title} needs a key.")
        return None
    model = _model_asked(vendor, base_url, key or known)
    if not model:
        return None
    return Chosen(provider=provider, model=model, kind=kind, base_url=base_url, key=key, known_key=known)


def _key_asked(provider: str, keys: Path, *, needed: bool) -> tuple[str | None, str | None]:
    """A key that was typed, and one that is there already."""
    where, known = known_key_of(provider, keys)
    hint = f"; Enter takes the one in {where}" if known else "" if needed else "; Enter for none"
    while True:
        typed = clean(getpass(f"Its key (not shown{hint}): ", stream=sys.stderr))
        if not typed or is_key(typed):
            break
        output.say("That is no key: it has no spaces, and no letters beyond ASCII.")
    return (typed or None), (None if typed else known)


def _model_asked(vendor: Vendor, base_url: str | None, key: str | None) -> str:
    listed = models_of(base_url, key) if base_url is not None else None
    if base_url is not None and listed is None:
        output.say(f"Nobody lists models at {base_url}" + ("; is Ollama running?" if vendor.name == "ollama" else "."))
    if listed:
        output.say(f"It has: {', '.join(listed[:30])}{' ...' if len(listed) > 30 else ''}")
    model = _prompt("Its model", vendor.model or (listed[0] if listed else "")).strip()
    if not model:
        output.say("A model needs a name.")
    return model.removeprefix(f"{vendor.name}:")


def _prompt(question: str, default: str) -> str:
    return str(typer.prompt(question, default=default, err=True, show_default=bool(default)))
