"""Configuration of the model client: providers, prices and limits, and which models a request may go to.

A model's name is `<provider>:<model>`, as in `openai:gpt-5` or `local:qwen3`. The provider is an entry here, or a name
pydantic-ai knows. `offline` is the scripted model and has no provider.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, Literal
from urllib.parse import urlsplit

from tenex.core.ids import Slug
from tenex.core.messages import Picture
from tenex.core.text.foreign import INVISIBLE, character, trimmed

OFFLINE: Final = "offline"

Grammar = Literal["none", "structural_tag", "json_schema"]
"""How a server takes a grammar that restricts its model to an agent's states."""

Choice = Callable[[Literal["route", "work"], Slug, str], tuple[str, ...]]
"""Purpose, agent and phase of a request; gives names of models, the first to be tried first."""

KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "openai": ("OPENAI_API_KEY",),
        "openai-responses": ("OPENAI_API_KEY",),
        "anthropic": ("ANTHROPIC_API_KEY",),
        "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "ollama": ("OLLAMA_API_KEY",),
    }
)
"""Where a vendor's own programs look for a key, by kind; `app` looks there where nothing else is set."""

LOCAL_OLLAMA: Final = "http://127.0.0.1:11434/v1"
"""Where `ollama serve` listens."""


_QUOTES: Final = "\"'“”‘’„«»`"


def read_key(text: str) -> str:
    """The key in a text, without white space, quotes and invisible characters; empty if there is none.

    Raises:
        ValueError: it holds a character that no header can hold; the message names it, and nothing else of the key.
    """
    key = INVISIBLE.sub("", trimmed(trimmed(text).strip(_QUOTES)))
    odd = next((char for char in key if not (char.isascii() and char.isprintable())), None)
    if odd is not None:
        raise ValueError(f"it holds {character(odd)}, which is in no key")
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """How the models of one provider are reached, and its rate limits.

    `kind` is `openai` (the chat completions protocol, which every compatible server speaks), `anthropic`, `google`,
    `ollama`, or another name pydantic-ai knows; empty means the name itself. `key_sources` names the
    places searched for a key, for the error about a missing one, `key_source` the one it was found in. A limit that is
    None does not limit.
    """

    name: str
    kind: str = ""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    key_sources: str = ""
    key_source: str = ""
    concurrency: int | None = 8
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    grammar: Grammar = "none"

    @property
    def is_near(self) -> bool:
        """Whether its server is on this machine or in its network, by its address, or a `grammar` is set for it.

        Such servers (llama.cpp, vLLM, Ollama, LM Studio) compile a schema into a grammar, and have no part of it in the
        prompt. Those of vendors read it first: where it changes, nothing after it is in their prompt cache.
        """
        address = self.base_url or (LOCAL_OLLAMA if self.protocol == "ollama" else "")
        host = urlsplit(address).hostname or ""
        try:
            return self.grammar != "none" or ip_address(host).is_private
        except ValueError:
            return bool(host) and ("." not in host or host.endswith(".local"))

    @property
    def protocol(self) -> str:
        """The kind, or the name where no kind is set."""
        return self.kind or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens.

    `cached_input` is for tokens that the provider's prompt cache held, `cache_write` for those it stored; None means:
    as much as any other input.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelClientConfig:
    """Everything the client needs; rebuilt at each reload of the settings.

    `prices` are by full name of the model and go before the price list of the library. `timeout` bounds a call once
    it has its turn; `idle_timeout` bounds the silence within a stream that has begun. All in seconds.
    """

    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    timeout: float = 300.0
    idle_timeout: float = 90.0
    stream: bool = True
    max_output_tokens: int | None = None
    sees: frozenset[str] = frozenset()
    """The full names of models that are shown pictures."""
    picture: Callable[[str], Picture | None] = lambda _: None
    """Gives the picture of an address in a user's text, if it was loaded; blocks."""
    has_picture: Callable[[str], bool] = lambda _: False
    """Whether it was loaded; blocks."""
    read_again: Callable[[ProviderConfig], ProviderConfig] = lambda provider: provider
    """Gives a provider with its key as it is now, after its server has refused the one it had."""

    def provider(self, name: str) -> ProviderConfig:
        """The provider of that name, with defaults where nothing is set for it."""
        return self.providers.get(name) or ProviderConfig(name=name)


def split_name(name: str) -> tuple[str, str] | None:
    """Provider and model of a name; None where it is not `<provider>:<model>`."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon and provider.strip() and model.strip() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """The load of a provider. `paused` is in seconds, 0 unless it has asked for a pause."""

    name: str
    active: int
    waiting: int
    paused: float
