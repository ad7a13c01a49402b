"""The models of a configuration: which may be asked, with whose keys, at what price.

A key is looked for in this order: `api_key_file` of the provider, `<keys>/<provider>.api-key`, systemd's credentials,
the variable `api_key_env`, the vendor's usual variable.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from tenex.core.errors import ConfigurationError
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.ports import Model
from tenex.core.text.foreign import decode
from tenex.llm.client import ModelClient
from tenex.llm.config import (
    KEY_VARIABLES,
    OFFLINE,
    Choice,
    ModelClientConfig,
    Price,
    ProviderConfig,
    read_key,
    split_name,
)
from tenex.llm.scripted import OfflineModel, Pace
from tenex.nostr.keys import how_to_close
from tenex.output_states import OutputModel
from tenex.output_states.model import OnProgress
from tenex.prompting import PromptLibrary
from tenex.settings import KEY_SUFFIX, ProjectPaths, Settings, find_data, load, required_trust, resolve_paths
from tenex.settings.paths import path_of
from tenex.settings.sections import Provider
from tenex.store.pictures import PICTURES, PictureFolder

from .output_states import outputs_of

WITHOUT_GRAMMAR: Final = ("anthropic", "bedrock", "google", "openai-responses")
"""Kinds whose protocols have no place for one."""
LONGEST_KEY: Final = 16 * 1024
"""Bytes read of a file: keys have some hundred, tokens of a cloud some thousand."""


def build_model_client(
    settings: Settings,
    places: ProjectPaths,
    library: PromptLibrary,
    pace: Pace | None = None,
    on_progress: OnProgress = lambda _: None,
) -> ModelClient:
    """A client for the models of the settings and of the agents' files; `on_progress` gets what agents write by states.

    The models that only agents' files name are not checked: see `unusable_models`.

    Raises:
        ConfigurationError: a model cannot be used as it is configured; with all faults.
    """
    config, faults = client_config(settings, places)
    own = {definition.slug: definition.model or None for definition in library.definitions.values()}
    outputs = outputs_of(library, places)

    def by_states(model: Model, provider: ProviderConfig) -> Model:
        if not outputs:
            return model
        from tenex.llm.errors import rejects_form  # the library is loaded by now

        return OutputModel(model, outputs, provider.grammar, rejects=rejects_form, on_progress=on_progress)

    client = ModelClient(config, choice(settings, own), OfflineModel(pace), wrap=by_states)
    for setting, chain in settings.models.named().items():
        try:
            client.check(chain)
        except ConfigurationError as error:
            faults += [f"{setting}: {fault.removeprefix('models: ')}" for fault in error.faults]
    if faults:
        raise ConfigurationError(faults)
    return client


def unusable_models(model: Model, library: PromptLibrary) -> dict[Slug, list[str]]:
    """The faults of agents whose own files name a model that cannot be used."""
    if not isinstance(model, ModelClient):
        return {}
    found: dict[Slug, list[str]] = {}
    for slug, agent in library.definitions.items():
        try:
            model.check([agent.model] if agent.model else [])
        except ConfigurationError as error:
            found[slug] = [f"{agent.source}: model: {fault.removeprefix('models: ')}" for fault in error.faults]
    return found


def get_model(name: str, *, data: Path | str | None = None) -> ModelClient:
    """The model of that name, such as `openai:gpt-5-mini`, as the `model` of a `BaseAgent`.

    Keys, addresses, prices and time limits are those of the settings; without settings a key is read from the
    vendor's usual variable, such as `OPENAI_API_KEY`. Close it after use: `await model.close()`.

    Args:
        name: `<provider>:<model>`, or `offline`.
        data: the data folder whose settings are read; None finds it as the commands do.

    Raises:
        ConfigurationError: the name is not a model's, its key is missing, or the settings are wrong; with all faults.
    """
    try:
        cwd = Path.cwd()
    except OSError:  # it was deleted
        cwd = None
    given = None if data is None else path_of(data, "`data` of get_model")
    folder = find_data(given, os.environ, cwd)
    trust = required_trust(given, os.environ, cwd)
    settings = load(None, folder, overrides={"models": {"default": [name]}}, trust=trust)
    config, faults = client_config(settings, resolve_paths(settings))
    model = ModelClient(config, lambda *_: (name,), OfflineModel())
    try:
        model.check([name])
    except ConfigurationError as error:
        faults += error.faults
    if faults:
        raise ConfigurationError(faults)
    return model


def models_in_use(settings: Settings, library: PromptLibrary) -> dict[str, tuple[str, ...]]:
    """Every model that may be asked, by the setting or the file that names it."""
    agents = {f"{agent.source}: model": (agent.model,) for agent in library.definitions.values() if agent.model}
    return {**settings.models.named(), **agents}


def choice(settings: Settings, own: Mapping[Slug, str | None]) -> Choice:
    """Which models a request goes to; `own` is what the agents' files name."""

    def choose(purpose: Literal["route", "work"], agent: Slug, phase: str) -> tuple[str, ...]:
        if purpose == "route":
            return settings.models.for_router()
        return settings.models.for_agent(agent, Phase(phase), own.get(agent))

    return choose


def sees_pictures(settings: Settings, library: PromptLibrary) -> bool:
    """Whether a model that may be asked is set to see."""
    return any(name in settings.models.vision for chain in models_in_use(settings, library).values() for name in chain)


def client_config(settings: Settings, places: ProjectPaths) -> tuple[ModelClientConfig, list[str]]:
    """The configuration of the client; with a fault for each file of a key that is named and cannot be read."""
    models = settings.models
    named = {parts[0] for chain in models.named().values() for name in chain if (parts := split_name(name))}
    if isinstance(models.transcription, str) and (parts := split_name(models.transcription)):
        named.add(parts[0])
    faults: list[str] = []
    providers: dict[str, ProviderConfig] = {}

    def with_key(provider: ProviderConfig, faults: list[str]) -> ProviderConfig:
        given = models.providers.get(provider.name) or Provider()
        looked = list[str]()
        for source, found in _keys(provider.name, provider.kind, given, places, faults):
            looked.append(source)
            if found is not None:
                return replace(provider, api_key=found, key_source=source, key_sources=", ".join(looked))
        return replace(provider, api_key=None, key_source="", key_sources=", ".join(looked))

    for name in sorted(named | set(models.providers)):
        given = models.providers.get(name) or Provider()
        kind = given.kind or name
        reached = given.model_dump(exclude={"kind", "api_key_env", "api_key_file"})
        providers[name] = with_key(ProviderConfig(name=name, kind=kind, **reached), faults)
        if given.grammar != "none" and kind in WITHOUT_GRAMMAR:
            faults.append(f"models.providers.{name}.grammar: the kind {kind} takes none; remove it")
    pictures = PictureFolder(places.data / PICTURES)
    config = ModelClientConfig(
        providers=providers,
        prices={name: Price(**price.model_dump()) for name, price in models.prices.items()},
        timeout=models.timeout,
        stream=models.stream,
        max_output_tokens=models.max_output_tokens,
        sees=frozenset(models.vision),
        picture=pictures.read,
        has_picture=pictures.has,
        read_again=lambda provider: with_key(provider, []),
    )
    return config, faults


def _keys(
    name: str, kind: str, given: Provider, places: ProjectPaths, faults: list[str]
) -> Iterator[tuple[str, str | None]]:
    """The places where a key may be, each with what is there, in order."""
    if given.api_key_file is not None:
        path = places.data / Path(given.api_key_file).expanduser()
        known = len(faults)
        key = _read(path, f"models.providers.{name}.api_key_file", faults)
        if key is None and len(faults) == known:
            faults.append(f"models.providers.{name}.api_key_file: {path} is missing or empty; put the key into it")
        yield str(path), key
    for folder in places.key_folders:
        path = folder / f"{name}{KEY_SUFFIX}"
        key = _read(path, f"models.providers.{name}", faults, is_private=folder == places.keys)
        yield str(path), key
    # a vendor's key is not sent to an address of the operator's own
    usual = KEY_VARIABLES.get(kind, ()) if given.base_url is None else ()
    for variable in dict.fromkeys(variable for variable in (given.api_key_env, *usual) if variable):
        yield f"${variable}", _key(os.environ.get(variable, ""), f"models.providers.{name}: ${variable}", faults)


def _read(path: Path, setting: str, faults: list[str], *, is_private: bool = False) -> str | None:
    """A key out of a file; in the folder of keys no other user may be able to read it."""
    try:
        # a pipe that took the file's place must not be waited for
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            kind = os.fstat(file.fileno()).st_mode
            if is_private and kind & 0o077:
                mode = stat.S_IMODE(kind)
                faults.append(f"{setting}: others may read {path} (mode {mode:04o}); {how_to_close(path)}")
            return _key(decode(file.read(LONGEST_KEY)), f"{setting}: {path}", faults)
    except FileNotFoundError:
        return None
    except OSError as error:
        faults.append(f"{setting}: {path} cannot be read ({error.strerror}); it must hold the key and nothing else")
    except UnicodeDecodeError:  # its message quotes a byte of the key
        faults.append(f"{setting}: {path} is not UTF-8; save the file as UTF-8, the key and nothing else")
    except ValueError as error:
        faults.append(f"{setting}: {path} {error}, the key and nothing else")
    return None


def _key(text: str, where: str, faults: list[str]) -> str | None:
    """The key in a text; None, with a fault, where it can be no key."""
    try:
        return read_key(text) or None
    except ValueError as error:
        faults.append(f"{where} cannot be used: {error}; copy the key again, and nothing else")
        return None


def is_offline(settings: Settings, library: PromptLibrary) -> bool:
    """Whether no model but the offline one may ever be asked."""
    return all(name == OFFLINE for chain in models_in_use(settings, library).values() for name in chain)
