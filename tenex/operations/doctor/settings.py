"""Settings, folders that overlap, people, agents: everything the operator wrote.

Where the settings hold a fault, the sections without one are used for the rest of the examination.
"""

import os
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tenex.configuration.agents import load_agents
from tenex.configuration.workflows import load_workflows
from tenex.core.config import Kind
from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import parse_public_key
from tenex.prompting import PromptLibrary
from tenex.settings import CONFIG_NAMES, ProjectPaths, Settings, check_paths, find_config, load, resolve_paths

from .config_consistency import doubts
from .findings import Case, Finding, fault, ok, warning

_NO_FOLDER = "it must be a folder"
"""How `check_paths` says what `folders` says with more."""


def settings(case: Case) -> Iterator[Finding]:
    """All faults at once; what can be used is put into the case."""
    for name in CONFIG_NAMES:
        path = case.data / name
        if case.config is None and not path.is_file() and (path.exists() or path.is_symlink()):
            yield fault("this is no file, and so not read", path, "move it away")
    try:
        case.settings = load(
            case.config, case.data, env=case.env, parse_key=parse_public_key, code_refusal=case.code_refusal
        )
    except ConfigurationError as error:
        yield from _faults(error.faults, "`tenex config check` tells the same; the example explains every setting")
        case.settings, case.doubtful = _salvaged(case)
    case.places = resolve_paths(case.settings)
    if case.doubtful:
        named = ", ".join(sorted(case.doubtful))
        yield warning(
            f"the rest is examined as if {named} were not set", case.settings.file or case.data, "mend the faults above"
        )
        return
    file = case.settings.file
    if file is None:
        names = " or ".join(CONFIG_NAMES)
        yield warning(
            "there is no configuration, so the defaults apply and no one may talk here",
            case.data,
            f"run `tenex init`, which writes {names}; or name another folder with --data",
        )
    else:
        yield ok("every setting is readable and within its bounds", file)


def paths_and_people(case: Case) -> Iterator[Finding]:
    """Folders that overlap, and people who may talk."""
    chosen = case.settings
    if chosen is None:
        return
    count = 0
    checks: list[tuple[str, Callable[[], object], str]] = [
        ("paths", lambda: check_paths(chosen), "give every folder a place of its own under [paths]"),
        ("people", lambda: chosen.peer_group(parse_public_key), "list your npub under people.owners"),
    ]
    for section, check, mend in checks:
        if section in case.doubtful:
            continue
        try:
            check()
        except ConfigurationError as error:
            count += 1
            yield from _faults(tuple(text for text in error.faults if not text.endswith(_NO_FOLDER)), mend)
        except (OSError, RuntimeError) as error:  # a link that leads to itself
            count += 1
            yield fault(str(error), section, mend)
    if not count and not case.doubtful:
        yield ok("the folders lie apart, and somebody may talk here")
    yield from doubts(chosen, case.doubtful)


def agents(case: Case) -> Iterator[Finding]:
    """Prompts and agents, built in and the operator's own."""
    where = case.places
    if where is None:
        return
    try:
        library = load_agents(where)
    except ConfigurationError as error:
        yield from _faults(error.faults, "mend the file, or move it out of the agents folder")
        return
    slugs = [str(slug) for slug in library.definitions]
    yield ok(f"{len(slugs)} agents: {', '.join(slugs)}", where.agents)
    if case.settings is not None:
        yield from _workflows(case.settings, where, library)
    known = set(slugs)
    for slug in case.settings.models.agents if case.settings else ():
        if slug not in known:
            yield warning(
                f"there is no agent {slug!r}, so these settings do nothing",
                f"models.agents.{slug}",
                f"name one of: {', '.join(slugs)}",
            )


def _workflows(settings: Settings, where: ProjectPaths, library: PromptLibrary) -> Iterator[Finding]:
    workers = [slug for slug, known in library.definitions.items() if known.kind is not Kind.ORCHESTRATOR]
    read = load_workflows(settings, where, workers)
    if where.workflows.exists() and not os.access(where.workflows, os.R_OK | os.X_OK):
        yield fault("the workflows cannot be read", where.workflows, f"chmod u+rx {where.workflows}")
    for one in read.disabled:
        said = (sentence.removeprefix(f"{one.source}: ") for sentence in one.faults)
        what = tuple(f"{one.source}: the workflow {one.slug} is disabled: {sentence}" for sentence in said)
        yield from _faults(what, "correct the file (`tenex graph check`), or move it out of the workflows folder")
    for usable in read.found:
        for doubt in usable.doubts:
            yield warning(doubt, usable.source, "`tenex graph check` repeats this after a change")
    if read.found:
        yield ok(f"workflows: {', '.join(one.slug for one in read.found)}", where.workflows)


def _faults(sentences: tuple[str, ...], mend: str) -> Iterator[Finding]:
    """Sentences of ours say where before the first colon and a space, and often what to do."""
    for sentence in sentences:
        where, colon, what = sentence.partition(": ")
        yield fault(what, where, mend) if colon else fault(sentence, "", mend)


def _salvaged(case: Case) -> tuple[Settings, frozenset[str]]:
    """The settings from the sections of the file that can be used, and the names of the others."""
    try:
        file = find_config(case.config, case.data)
        raw = tomllib.loads(file.read_text(encoding="utf-8-sig")) if file else {}
    except (OSError, ValueError, ConfigurationError):
        file, raw = None, dict.fromkeys(Settings.model_fields)
    good: dict[str, Any] = {}
    bad = {name for name in raw if name not in Settings.model_fields}
    for name in raw.keys() - bad:
        try:
            _load_alone({name: raw[name]})
        except ConfigurationError:
            bad.add(name)
        else:
            good[name] = raw[name]
    chosen = _load_alone(good)
    chosen._code_refusal = case.code_refusal
    chosen._data, chosen._file = case.data, file  # as `load` would, had the file been whole
    return chosen, frozenset(bad) or frozenset({"the environment"})


def _load_alone(values: dict[str, Any]) -> Settings:
    return load(None, Path(os.devnull), env={}, overrides=values, parse_key=parse_public_key)
