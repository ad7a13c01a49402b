"""Reads settings from their sources: defaults, the file, the environment, the command line; later ones win."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource
from pydantic_settings.exceptions import SettingsError

from tenex.core.errors import ConfigurationError
from tenex.core.file_guard import guard
from tenex.core.ids import PublicKey
from tenex.core.text.foreign import INVISIBLE, character, decode, plain, well_formed_value

from .paths import CONFIG_NAMES, code_paths, find_config, places_outside, resolve_paths
from .sections import FEATURES_OF, Settings, parse_people
from .trust import OUTSIDE, Trust, contents_of, guard_code
from .validation_errors import known_below, sentences, suggestion

PREFIX: Final = "TENEX_"
RESERVED: Final = frozenset({"TENEX_DATA", "TENEX_PLUGINS", "TENEX_KEY_PASSWORD", "TENEX_OWNER_NSEC"})
"""Variables with that prefix that are not settings."""

_STRINGS: Final = re.compile(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_ODD_SPACE: Final = re.compile(r"[^\S \t\n]")

ParseKey = Callable[[str], PublicKey]
"""Parses a public key as users write it; raises ValueError with a sentence."""


def load(
    config: Path | None,
    data: Path,
    *,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    parse_key: ParseKey | None = None,
    trust: Trust | None = None,
    features: Mapping[str, Mapping[str, str]] | None = None,
) -> Settings:
    """Read the settings of a data folder.

    Args:
        config: the file to read; None looks in the data folder, and takes the defaults where there is none.
        data: the data folder, for finding the file and resolving relative paths.
        env: the environment; None means the process's own.
        overrides: values from the command line, nested like the file; they win.
        parse_key: if given, the keys of owners and members are checked too.
        trust: what the data folder must be trusted with (`paths.required_trust`); None where it is used as it is.
        features: those that the program has, by name, with their tools (`feature.tools_of`); None: all that have a
            section, and no tools.

    Raises:
        UntrustedFolder: it is not trusted, or not as it is now; nothing of it was used.
        ConfigurationError: one sentence per error: source, dotted setting, what is wrong, what is allowed.
    """
    file = find_config(config, data)
    is_own = file in [data.absolute() / name for name in CONFIG_NAMES]
    trusted = trust.contents() if trust is not None else {}
    origins: dict[str, str] = {}
    faults: list[str] = []
    merged: dict[str, Any] = {}
    if file is not None:
        content = _read(file)
        if trust is not None and is_own:
            trust.check(file, content, trusted)
        _merge(merged, _parse(file, content), str(file), origins)
    for variable, values in _from_environment(os.environ if env is None else env, faults):
        _merge(merged, values, variable, origins)
    _merge(merged, dict(overrides or {}), "command line", origins)

    def where(name: str) -> str:
        return _origin(name, origins) or (str(file) if file else "defaults")

    # pydantic-settings takes keywords that begin with an underscore for options of its own
    for odd in [name for name in merged if name.startswith("_")]:
        faults.append(f"{where(odd)}: {odd}: there is no such setting; {suggestion(odd, known_below(()))}")
        del merged[odd]
    for section, feature in FEATURES_OF.items():
        if features is not None and feature not in features and merged.get(section):
            fix = "remove it, or use a program with the feature"
            faults.append(f"{where(section)}: {section}: this program is without the feature `{feature}`; {fix}")
    settings = None
    try:
        settings = Settings(**merged)
    except ValidationError as fault:
        faults += sentences(fault, where)
    people = merged.get("people")
    if parse_key is not None and isinstance(people, Mapping):
        faults += [f"{where(name)}: {name}: {fault}" for name, fault in parse_people(people, parse_key)[1].items()]
    if faults or settings is None:
        raise ConfigurationError(faults)
    settings._data = data.absolute()
    settings._file = file
    settings._origins = origins
    settings._overrides = dict(overrides or {})
    settings._trust = trust
    settings._features = features
    if trust is None:
        guard(str(settings.data), None)  # of an earlier command in this process
    else:
        here = resolve_paths(settings)
        code = code_paths(settings, here)
        known = {name for name in trusted if name not in CONFIG_NAMES and not name.startswith(OUTSIDE)}
        trust.check_all(contents_of(settings.data, code), {name: trusted[name] for name in known})
        trust.check_places(places_outside(settings, here), trusted)
        guard_code(trust, trusted, code)
    return settings


def reload_settings(
    known: Settings, *, keep: Sequence[str] = (), parse_key: ParseKey | None = None
) -> tuple[Settings, tuple[str, ...]]:
    """Read settings again from their sources; sections to `keep` stay as they are.

    Returns the settings, and the names of the sections that were kept although they have changed.

    Raises:
        ConfigurationError: one sentence per error.
    """
    fresh = load(
        known.file,
        known.data,
        overrides=known._overrides,
        parse_key=parse_key,
        trust=known.trust,
        features=known._features,
    )
    kept = {name: getattr(known, name) for name in keep if getattr(known, name) != getattr(fresh, name)}
    return fresh.model_copy(update=kept), tuple(kept)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as fault:
        raise ConfigurationError([f"{file}: cannot be read ({fault.strerror}); check its permissions"]) from fault


def _parse(file: Path, content: bytes) -> dict[str, Any]:
    try:
        text = decode(content)
        values: dict[str, Any] = _named(tomllib.loads(text))
    except tomllib.TOMLDecodeError as fault:
        raise ConfigurationError([f"{file}: this is not valid TOML: {_place(str(fault), text)}{_odd(text)}"]) from fault
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        raise ConfigurationError([f"{file}: line {line} is not UTF-8; save the file as UTF-8"]) from fault
    except ValueError as fault:
        raise ConfigurationError([f"{file} {fault}"]) from fault
    except RecursionError as fault:
        raise ConfigurationError([f"{file}: the values are nested too deeply; no setting needs that"]) from fault
    return values


def _named(values: Any) -> Any:
    """The values, the names of tables and settings in their plain form; texts are as they were written."""
    match values:
        case Mapping():
            return {plain(name).strip(): _named(value) for name, value in values.items()}
        case list():
            return [_named(value) for value in values]
    return values


def _odd(text: str) -> str:
    """Which character beyond strings TOML does not permit, where a reader would not see it; else empty."""
    bare = _STRINGS.sub("", text)
    found = INVISIBLE.search(bare) or _ODD_SPACE.search(bare)
    return f"; the file holds {character(found[0])}, remove it" if found else ""


def _place(message: str, text: str) -> str:
    """`Invalid value (at line 3, column 5)` becomes `line 3, column 5: invalid value`; the end is its last line."""
    what, found, place = message.rpartition(" (at ")
    if not found:
        return message
    where = place.removesuffix(")")
    if where == "end of document":
        last = max(1, len(text.splitlines()))
        where = f"line {last}, the last one"
    return f"{where}: {what[:1].lower()}{what[1:]}"


def _from_environment(env: Mapping[str, str], faults: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each TENEX_ variable with the values it sets; read one by one, to know which variable set what."""
    source = EnvSettingsSource(Settings)
    for variable in sorted(env):
        if not variable.upper().startswith(PREFIX) or variable in RESERVED or not env[variable]:
            continue
        source.env_vars = {variable.lower(): env[variable]}
        try:
            values = source()
        except SettingsError:
            faults.append(f'{variable}: must be JSON, such as ["a", "b"] for a list; the value cannot be read')
            continue
        if values:
            yield variable, _named(well_formed_value(values))
        else:
            sections = ", ".join(known_below(()))
            faults.append(
                f"{variable}: there is no such setting; write {PREFIX}SECTION__NAME, the sections are: {sections}"
            )


def _merge(into: dict[str, Any], values: Mapping[str, Any], origin: str, origins: dict[str, str], at: str = "") -> None:
    """Overlay values table by table, and record the origin of each leaf."""
    for name, value in values.items():
        path = f"{at}.{name}" if at else str(name)
        if isinstance(value, Mapping):
            below = into.get(name)
            if not isinstance(below, dict):
                origins.pop(path, None)
                below = into[name] = {}
            _merge(below, value, origin, origins, path)
        else:
            into[name] = value
            for stale in [known for known in origins if known.startswith(f"{path}.")]:
                del origins[stale]
            origins[path] = origin


def _origin(name: str, origins: Mapping[str, str]) -> str | None:
    """The source of a setting, of the list it is in, or of the first value in the table it names."""
    plain = name.split("[", maxsplit=1)[0]
    if plain in origins:
        return origins[plain]
    return next((source for known, source in origins.items() if known.startswith(f"{plain}.")), None)
