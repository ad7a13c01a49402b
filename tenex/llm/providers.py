"""Makes the models of pydantic-ai from configuration, without a network call.

OpenAI's kind is the chat completions protocol: it keeps nothing on the server, and it is the one every compatible
server speaks, so what is tried against one holds for all. `openai-responses` is there for OpenAI's own models, with
storing turned off.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings

from tenex.core.errors import ConfigurationError
from tenex.core.installation import pip_install

from .answer_limits import limit_provider
from .config import KEY_VARIABLES, LOCAL_OLLAMA, ProviderConfig
from .network import fault_of

OWN_EXTRAS: Final = ("anthropic", "google")
"""Extras of tenex; other kinds need one of pydantic-ai's."""

_ADDRESSES: Final = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": LOCAL_OLLAMA,
}
"""Given explicitly, because the vendors' clients would take another one from the environment."""

_GOOGLE: Final = "https://generativelanguage.googleapis.com"
"""Google's client takes none from the environment."""

Vendor = Literal["openai", "anthropic", "google"]
"""Whose protocols a provider's server speaks."""

_VENDORS: Final[Mapping[str, Vendor]] = {
    "openai": "openai",
    "openai-responses": "openai",
    "ollama": "openai",
    "anthropic": "anthropic",
    "google": "google",
}

_VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]{3,})`")


def make_provider(config: ProviderConfig) -> Provider[Any]:
    """The provider: one HTTP client, shared by all its models. It is closed by leaving it as a context.

    Raises:
        ConfigurationError: an unknown kind, a missing package or key, a setting the kind does not take, or a variable
            of the environment that makes every request impossible.
    """
    kind = config.protocol
    where = f"models.providers.{config.name}"
    fault = fault_of()
    if fault is not None:
        raise ConfigurationError([f"{where}: the environment variable {fault}"])
    try:
        if kind == "openai" and config.base_url:
            from pydantic_ai.profiles.openai import OpenAIModelProfile
            from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

            profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)  # older ones: `max_tokens`
            made: Provider[Any] = OpenAICompatibleProvider(
                config.name, base_url=config.base_url, api_key=config.api_key, profile=profile
            )
        else:
            provider = infer_provider_class(kind)
            made = provider(**_arguments(provider, config))
    except ValueError as error:
        hint = ' For a server that speaks the OpenAI protocol set kind = "openai".'
        raise ConfigurationError([f'{where}: "{kind}" is no provider that is known.{hint}']) from error
    except ImportError as error:
        raise ConfigurationError([_missing_package(where, kind, error)]) from error
    except UserError as error:
        raise ConfigurationError([_missing_key(config, str(error))]) from error
    if hasattr(made.client, "max_retries"):
        made.client.max_retries = 0
    limit_provider(made)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where requests that are ready made in a vendor's protocol go, and the headers with the key."""

    vendor: Vendor
    address: str
    """Without a slash at its end; of OpenAI's protocols with `/v1`."""
    headers: Mapping[str, str] = field(repr=False)


def destination_of(config: ProviderConfig) -> Destination:
    """Where a provider takes requests that others have made.

    Raises:
        ConfigurationError: as `make_provider`, or the provider's server has a protocol or a login of its own.
    """
    vendor = _VENDORS.get(config.protocol)
    if vendor is None:
        return _destination_by_library(config)
    where = f"models.providers.{config.name}"
    fault = fault_of()
    if fault is not None:
        raise ConfigurationError([f"{where}: the environment variable {fault}"])
    if not config.api_key and not config.base_url and config.protocol in _KEY_NEEDED:
        raise ConfigurationError([_missing_key(config, "")])
    address = (config.base_url or _ADDRESSES.get(config.protocol, _GOOGLE)).rstrip("/")
    if config.protocol == "ollama":
        address = _with_path(address)
    key = config.api_key or NO_KEY
    headers = {
        "openai": {"authorization": f"Bearer {key}"},
        "anthropic": {"x-api-key": key},
        "google": {"x-goog-api-key": key},
    }
    return Destination(vendor=vendor, address=address, headers=headers[vendor])


def _destination_by_library(config: ProviderConfig) -> Destination:
    """Of a provider that pydantic-ai knows, where its library is that of OpenAI."""
    client = make_provider(config).client
    kind = type(client)
    if (kind.__module__.partition(".")[0], kind.__name__) != ("openai", "AsyncOpenAI"):  # Azure has other paths
        raise ConfigurationError(
            [f'models.providers.{config.name}: kind "{config.protocol}" serves no ACP agent; set kind and base_url.']
        )
    return Destination(vendor="openai", address=str(client.base_url).rstrip("/"), headers=dict(client.auth_headers))


def make_model(config: ProviderConfig, provider: Provider[Any], model: str) -> Model[Any]:
    """A model of a provider.

    Raises:
        ConfigurationError: the provider has no such kind of model, or a package is missing.
    """
    where = f"models.providers.{config.name}"
    try:
        if config.protocol == "openai":
            from .compatible import CompatibleChatModel

            return CompatibleChatModel(model, provider=provider)
        made = infer_model(f"{config.protocol}:{model}", provider_factory=lambda _name: provider)
        if not any(kind.__name__ == "OpenAIChatModel" for kind in type(made).__mro__):
            return made
        from .compatible import compatible

        kind: Any = compatible(cast("Any", type(made)))
        return cast("Model[Any]", kind(model, provider=provider))
    except ImportError as error:
        raise ConfigurationError([_missing_package(where, config.protocol, error)]) from error
    except UserError as error:
        raise ConfigurationError([f'{where}: "{config.protocol}" has no model to talk to named "{model}".']) from error


def base_settings(config: ProviderConfig, model: Model[Any]) -> ModelSettings:
    """Settings every call of a model has."""
    if config.protocol == "openai-responses":
        return cast("ModelSettings", {"openai_store": False})
    has_own = hasattr(getattr(model, "client", None), "max_retries")  # then `make_provider` has turned them off
    return ModelSettings() if has_own or "max_retries" in model.unsupported_settings else ModelSettings(max_retries=0)


def cache_settings(config: ProviderConfig, cache_key: str, *, grows: bool) -> ModelSettings:
    """Settings by which a provider caches the beginning of a prompt: its tools and system prompt, and what `grows`.

    OpenAI sends prompts of one `cache_key` to the same machine. Other servers may refuse the key, and Anthropic's own
    automatic breakpoint: behind another address the last block of the messages is marked.
    """
    settings: dict[str, Any] = {"cache": {"messages": grows}}
    if config.protocol == "anthropic" and not _is_vendor(config):
        settings = {
            "anthropic_cache_tool_definitions": True,
            "anthropic_cache_instructions": True,
            "anthropic_cache_messages": grows,
        }
    elif cache_key and config.protocol in ("openai", "openai-responses") and _is_vendor(config):
        settings["openai_prompt_cache_key"] = cache_key
    return cast("ModelSettings", settings)


def _is_vendor(config: ProviderConfig) -> bool:
    """Whether the address is that of the vendor whose protocol it is."""
    return not config.base_url or urlsplit(config.base_url).hostname == urlsplit(_ADDRESSES[config.protocol]).hostname


def _arguments(provider: type[Provider[Any]], config: ProviderConfig) -> dict[str, Any]:
    """The arguments of a provider, as far as it takes them."""
    taken = inspect.signature(provider).parameters
    address = config.base_url or _ADDRESSES.get(config.protocol)
    if config.protocol == "ollama" and address:
        address = _with_path(address)
    given = {"base_url": address, "api_key": config.api_key}
    wrong = [name for name in ("base_url", "api_key") if getattr(config, name) and name not in taken]
    if wrong:
        raise ConfigurationError(
            [f'models.providers.{config.name}: the kind "{config.protocol}" takes no {name}.' for name in wrong]
        )
    if config.protocol in _KEY_NEEDED and not config.api_key:
        if not config.base_url:  # the client would take a key from the environment
            raise UserError(f"`{KEY_VARIABLES[config.protocol][0]}`")
        given["api_key"] = NO_KEY
    return {name: value for name, value in given.items() if value is not None}


def _with_path(address: str) -> str:
    """An address of Ollama with the path of OpenAI's protocol; users give the bare address."""
    return f"{address.rstrip('/')}/v1" if urlsplit(address).path in ("", "/") else address


NO_KEY: Final = "none"
"""The key sent to a configured address if none is set: most such servers ask for none."""

_KEY_NEEDED: Final = ("openai", "openai-responses", "anthropic", "google")


def _missing_key(config: ProviderConfig, message: str) -> str:
    variables = KEY_VARIABLES.get(config.protocol) or _VARIABLE.findall(message)
    where = f"models.providers.{config.name}"
    looked = f" Looked at: {config.key_sources}." if config.key_sources else ""
    default = f", or set the variable {' or '.join(variables)}" if variables else ""
    return f"{where}: no key.{looked} Give it by {where}.api_key_env or {where}.api_key_file{default}."


def _missing_package(where: str, kind: str, error: ImportError) -> str:
    vendor = f"pydantic-ai-slim[{kind.removesuffix('-responses')}]"
    command = pip_install(extra=kind) if kind in OWN_EXTRAS else pip_install(requirement=vendor)
    cause = error.__cause__
    missing = cause.name if isinstance(cause, ImportError) and cause.name else error.name or kind
    return f"{where}: the package {missing} is missing. Install it: {command}"
