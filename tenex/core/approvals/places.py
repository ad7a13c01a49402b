"""Addresses and paths in the arguments of a call, as rules about hosts and paths see them.

A tool may take an address or a path under any name, and read it in its own way. So an allow rule holds only if every
value that could be one fits; what counts is the name of an argument and the look of its value, whichever says so. An
address fits if it is one plain absolute `http(s)` address and nothing else, since programs read others differently. A
refuse or an ask rule matches if anything in a value could be what it names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from unicodedata import normalize
from urllib.parse import unquote

from .shell_text import words_of

_PATH_NAMES: Final = words_of("""
    cwd dest destination dir directories directory dirs file filename filenames files folder folders from into
    location out output path paths root save source src target targets to uri uris workspace
    """)
"""Words in the name of an argument that say that it holds a path."""
_ADDRESS_NAMES: Final = words_of("""
    address addresses base callback domain domains endpoint endpoints host hostname hosts href link links origin proxy
    server site uri uris url urls webhook website
    """)
_CONTENT: Final = frozenset({("write_file", "content"), ("edit_file", "old"), ("edit_file", "new")})
"""Arguments of our own tools that are text of a file, whatever they look like."""
_IN_NAME: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HOST_FIRST: Final = re.compile(
    r"(?:[\w-]+\.)+[\w-]+\.?(?::\d+)?(?:[/?#]|$)|localhost(?![\w.-])|\[?[0-9a-f]*:[0-9a-f:]+"
)
_ADDRESS_WITHIN: Final = re.compile(r"[a-z][a-z0-9+.-]*:/|//|\\\\|@[\w.-]+:|(?:[\w-]+\.)+[a-z]{2,}[:/]", re.IGNORECASE)
_DRIVE: Final = re.compile(r"[A-Za-z]:(?:$|[\\/])")
_ADDRESS: Final = re.compile(
    r"https?://(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?#][^\s\\]*)?", re.IGNORECASE
)
"""One plain absolute address: with no user, no backslash, and nothing before or behind it."""
_HOST_LIKE: Final = re.compile(r"[\w.-]+|\[[0-9a-f:.]+\]")
_NESTED: Final = 8
"""Levels of an argument that are looked at; what is deeper fits no allow rule."""

Leaf = tuple[str, Any]
"""The name of an argument and its value: no object and no list, but behind `_NESTED` levels."""


def all_within(
    path: str, host: str, tool: str, arguments: Mapping[str, Any], operands: Sequence[str] | None = None
) -> bool:
    """Whether every address and path of a call fits these patterns, and for each pattern there is one.

    `operands` are the words of its command behind those that the rule names: each has to fit.
    """
    named = [(name, value) for name, value in _leaves(arguments) if (tool, name) not in _CONTENT]
    places = [(name, value) for name, value in named if _is_address(name, value) or _is_path(name, value)]
    places += [("", word) for word in operands or ()]
    has_path = False
    has_host = False
    for name, value in places:
        if not isinstance(value, str):
            return False
        if host and _fits_host(host, value) and not (path and _is_path_name(name) and not _is_address_name(name)):
            has_host = True
        elif path and _allows_path(path, value):
            has_path = True
        else:
            return False
    return (has_path or not path) and (has_host or not host)


def any_within(path: str, host: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call may name a path and a host of these patterns; an empty one fits every call."""
    values = [(name, value if isinstance(value, str) else str(value)) for name, value in _leaves(arguments)]
    if path and not any(_may_be_path(path, value) for name, value in values if _is_path(name, value)):
        return False
    return not host or any(_may_name_host(host, value) for _, value in values)


def _leaves(value: Any, name: str = "", depth: int = _NESTED) -> Iterator[Leaf]:
    """All values of arguments; an object or a list that is too deep is one."""
    if isinstance(value, Mapping) and depth:
        for inner, part in value.items():
            yield from _leaves(part, str(inner), depth - 1)
            yield "", str(inner)  # a name may be an address itself
    elif isinstance(value, list | tuple) and depth:
        for part in value:
            yield from _leaves(part, name, depth - 1)
    else:
        yield name, value


# ---- what a value looks like ----


def _words_in(name: str) -> set[str]:
    """The words of an argument's name: `outputPath` and `output_path` have two."""
    return {word.lower() for word in _IN_NAME.findall(name)}


def _is_path_name(name: str) -> bool:
    return not _PATH_NAMES.isdisjoint(_words_in(name)) or name.lower().endswith(("path", "file", "dir", "folder"))


def _is_address_name(name: str) -> bool:
    return not _ADDRESS_NAMES.isdisjoint(_words_in(name)) or name.lower().endswith(
        ("url", "urls", "uri", "uris", "host")
    )


def _is_address(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, Mapping | list | tuple) or (_is_address_name(name) and _says_something(value))
    if _is_address_name(name) and value:
        return True
    bare = value.strip()
    return any(pattern.match(bare) for pattern in (_SCHEME, _HOST_FIRST)) or _ADDRESS_WITHIN.search(value) is not None


def _is_path(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, Mapping | list | tuple) or (_is_path_name(name) and _says_something(value))
    if _is_path_name(name) and value:
        return True
    bare = value.strip()
    return "/" in bare or "\\" in bare or bare.startswith((".", "~")) or _DRIVE.match(bare) is not None


def _says_something(value: Any) -> bool:
    return value is not None and not isinstance(value, bool)


# ---- paths ----


def _normal(path: str) -> str:
    """A path without `.` and `..`, as far as its words say; links are resolved by the tools."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _may_be_path(pattern: str, path: str) -> bool:
    """Whether a path may be one of the pattern; of an absolute one the workspace's folder is not known here.

    Tools take `é` as one character or as two for the same name, so it is the same here.
    """
    pattern = normalize("NFC", pattern)
    path = normalize("NFC", unquote(path).replace("\\", "/").strip())
    path = path.removeprefix("file://")
    normal = _normal(path)
    parts = normal.strip("/").split("/")
    inner = ["/".join(parts[start:]) for start in range(len(parts))] if path.startswith(("/", "~")) else []
    return any(fnmatchcase(each, pattern) for each in (normal, path, *inner))


def _allows_path(pattern: str, path: str) -> bool:
    """Whether a path is plainly one of the pattern: relative, leading nowhere up, and no address."""
    is_elsewhere = path.startswith("~") or path.startswith("/") != pattern.startswith("/")
    is_odd = not path.isprintable() or any(mark in path for mark in "\\:%") or is_elsewhere
    return not is_odd and path == path.strip() and ".." not in path.split("/") and fnmatchcase(_normal(path), pattern)


# ---- hosts ----


def _fits_host(pattern: str, value: str) -> bool:
    """Whether a value is one plain absolute address of a host that fits."""
    address = _ADDRESS.fullmatch(value)
    return address is not None and value.isprintable() and _is_host(pattern, address["host"])


def host_of(value: Any) -> str:
    """The host of one plain absolute address, in lower case; "" where a value is none."""
    address = _ADDRESS.fullmatch(value) if isinstance(value, str) and value.isprintable() else None
    return address["host"].lower() if address is not None else ""


def _may_name_host(pattern: str, value: str) -> bool:
    """Whether a value names a host that fits, as an address or in a text."""
    text = normalize("NFKC", unquote(value))
    return any(_is_host(pattern, word) for word in _HOST_LIKE.findall(text))


def _is_host(pattern: str, host: str) -> bool:
    pattern = pattern.lower()
    host = host.lower().rstrip(".")
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))
