"""Which model `tenex demo` uses: the named or configured one; in a terminal one that is available; else offline."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tenex.core.errors import ConfigurationError
from tenex.llm.config import OFFLINE

from .provider import (
    BY_NAME,
    VENDORS,
    Chosen,
    Options,
    build,
    from_options,
    known_key_of,
    models_of,
    request_cost,
)

if TYPE_CHECKING:
    from tenex.settings import Settings

OLLAMA_TIMEOUT: Final = 0.3
"""Seconds to wait for Ollama: a server on this machine accepts at once."""
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def demo_model(
    settings: "Settings", keys: Path, name: str | None, *, in_terminal: bool
) -> tuple[dict[str, Any] | None, str]:
    """The model named by `--model`, configured, or available: a vendor's key, or Ollama on its loopback port.

    Returns the table `models` that selects it, None where the settings do, and the sentence that announces it. Without
    a terminal no one sees what an available one costs, and the offline one is used.

    Raises:
        UsageError: the named model cannot be used.
    """
    other = "Choose another with --model, such as --model offline, which is free."
    models = settings.models
    if name is not None and name.partition(":")[0] in models.providers:
        return {"default": name}, f"Model: {name}, as configured. {other}"
    if name is None and models.model_fields_set & {"default", "router", "phases", "agents"}:
        names = ", ".join(dict.fromkeys(one for chain in models.named().values() for one in chain))
        return None, f"Model: {names}, as configured.{'' if names == OFFLINE else f' {other}'}"
    if name is None and not in_terminal:
        why = "because this is no terminal. For a real one use --model."
        return {"default": OFFLINE}, f"Model: offline, fixed rules, free, {why}"
    chosen, source = (from_options(Options(model=name), keys), "--model") if name else _available(keys)
    if chosen is None:
        unused = "" if name else source
        how = unused or "For a real one set a vendor's key, such as OPENAI_API_KEY, start Ollama, or use --model."
        return {"default": OFFLINE}, f"Model: offline, fixed rules, free. {how}"
    return chosen.settings(), f"Model: {chosen.name} ({source}); {request_cost(chosen)}. {other}"


def _available(keys: Path) -> tuple[Chosen | None, str]:
    """A vendor's model with a known key and an installed package, else one of Ollama; and where it was found.

    If there is none: why a key was not used.
    """
    unused = ""
    for vendor in VENDORS:
        if not vendor.needs_key or vendor.name == OFFLINE:
            continue
        source, key = known_key_of(vendor.name, keys)
        chosen = Chosen(provider=vendor.name, model=vendor.model, known_key=key)
        if key:
            try:
                build(chosen)
            except ConfigurationError as fault:  # its package is missing
                unused = unused or f"The key in {source} is not used. {fault.faults[0]}"
                continue
            return chosen, f"key in {source}"
    host = os.environ.get("OLLAMA_HOST", "")  # Ollama's own variable: HOST, HOST:PORT or an address
    url = f"http://{host.rpartition('//')[2].rstrip('/')}/v1" if host else BY_NAME["ollama"].base_url or ""
    if urlsplit(url).hostname not in _LOOPBACK:
        return None, unused
    names = [name for name in models_of(url, timeout=OLLAMA_TIMEOUT) or () if "embed" not in name]
    return (Chosen(provider="ollama", model=names[0], base_url=url), f"Ollama at {url}") if names else (None, unused)
