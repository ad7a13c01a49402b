"""Patterns of paths, as agents and settings write them."""

from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from unicodedata import normalize


def fits(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern such as `*.py` or `src/**/test_*.py`, where `*` crosses folders."""
    wanted = normalize("NFC", pattern)  # `é` may be one character or two, there and in names
    whole = normalize("NFC", path)
    name = PurePosixPath(whole).name
    forms = {wanted, wanted.replace("**/", "")}  # `**/` also matches no folder at all
    return any(fnmatchcase(whole, form) or fnmatchcase(name, form) for form in forms)
