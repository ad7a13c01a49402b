"""Keys: there, readable, each its own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tenex.configuration.agents import OWNER, PROJECT, read_library
from tenex.core.config import Kind
from tenex.core.errors import ConfigurationError
from tenex.nostr.keys import KeyRing, SecretKey, parse_public_key
from tenex.settings import ProjectPaths

from .findings import Case, Finding, fault, ok, warning

API_SUFFIX: Final = ".api-key"
SUFFIX: Final = ".nsec"
BACK: Final = "put it back from a copy; `tenex init` makes a new one only where none was"


def keys(case: Case) -> Iterator[Finding]:
    """Every key that is needed, and every file that is no key."""
    where = case.places
    if where is None or not where.keys.is_dir():
        return
    ring = KeyRing(where.keys)
    names = ring.names()
    known: dict[str, SecretKey] = {}
    count = 0
    for name in names:
        if not (where.keys / f"{name}{SUFFIX}").is_file():
            continue  # a pipe would be waited for; `_strange` says so
        try:
            known[name] = ring.get(name)
        except ConfigurationError as error:
            path = where.keys / f"{name}{SUFFIX}"
            if "others may read" in str(error):
                continue  # `permissions` says so
            count += 1
            yield fault(_after(str(error), path), path, BACK)
    for finding in (
        *_missing(where, names),
        *_doubled(where.keys, known),
        *_owners(case, known),
        *_strange(where.keys, names),
    ):
        count += 1
        yield finding
    if not count:
        yield ok(f"{len(known)} keys can be read, and no two are the same", where.keys)
    if PROJECT in known:
        yield ok(f"the project's address is {known[PROJECT].npub}", where.keys / f"{PROJECT}{SUFFIX}")


def _missing(where: ProjectPaths, names: tuple[str, ...]) -> Iterator[Finding]:
    folder = where.keys
    if PROJECT not in names:
        yield fault(
            "the project's key is missing, and with it the address people write to",
            folder / f"{PROJECT}{SUFFIX}",
            "put it back from a copy; where there never was one, run `tenex init`",
        )
    for slug in _slugs(where):
        if slug not in names:
            yield warning(
                "this agent has no key; the daemon will make one when it starts",
                folder / f"{slug}{SUFFIX}",
                "if it had one before, put that back first: with a new key it is somebody else to people",
            )


def _slugs(where: ProjectPaths) -> list[str]:
    try:
        library = read_library(where.agents, code_refusal=where.code_refusal)
    except ConfigurationError:
        return []  # `agents` says so
    return [str(slug) for slug, agent in library.definitions.items() if agent.kind is not Kind.ORCHESTRATOR]


def _doubled(folder: Path, known: dict[str, SecretKey]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    # the address people write to and the owner's key are never called the copy: whoever moves one away has lost it
    for name, key in sorted(known.items(), key=lambda item: item[0] not in (PROJECT, OWNER)):
        if key.public in seen:
            yield fault(
                f"this is the same key as {seen[key.public]}{SUFFIX}: nobody could tell the two apart",
                folder / f"{name}{SUFFIX}",
                "move away the copy, and put back the right one or run `tenex init`",
            )
        seen.setdefault(key.public, name)


def _owners(case: Case, known: dict[str, SecretKey]) -> Iterator[Finding]:
    """Whoever writes with a key of ours is taken for us, and not heard."""
    if case.settings is None:
        return
    voices = {key.public: name for name, key in known.items() if name != OWNER}
    for group in ("owners", "members"):
        for index, text in enumerate(getattr(case.settings.people, group)):
            try:
                name = voices.get(parse_public_key(text))
            except ValueError:
                continue  # `settings` says so
            if name is not None:
                yield fault(
                    f"this is the key of {name}, whose words are taken for our own and never answered",
                    f"people.{group}[{index}]",
                    "list the person's own npub",
                )


def _strange(folder: Path, names: tuple[str, ...]) -> Iterator[Finding]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.name.removesuffix(SUFFIX) in names and entry.name.endswith(SUFFIX):
            if not path.is_file():
                yield fault("this is no file", path, BACK)
        elif entry.name.startswith(".") and SUFFIX in entry.name:
            yield warning(
                "this was left by a start that was cut short, and may hold a key",
                path,
                "remove it once you have seen that the key of that name can be read",
            )
        elif entry.name.endswith(API_SUFFIX):
            yield from _api_key(path)
        elif entry.name.endswith(SUFFIX):
            yield warning(
                "this is no name of a key, so the file is not used",
                path,
                "use letters, digits, '-', '_' and '.', beginning with a letter or a digit",
            )


def _api_key(path: Path) -> Iterator[Finding]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            text = os.read(descriptor, 4_000).decode("ascii").strip()
        finally:
            os.close(descriptor)
    except OSError as error:
        yield fault(f"cannot be read ({error.strerror})", path, "give it to the user who runs tenex")
        return
    except UnicodeDecodeError:
        text = ""
    if not text or any(char.isspace() for char in text):
        yield fault(
            "this holds no key: it must be one line, the key and nothing else", path, "put the key there once more"
        )


def _after(sentence: str, path: Path) -> str:
    """What stands after the path, up to the advice."""
    return sentence.removeprefix(f"{path}: ").partition("; ")[0]
