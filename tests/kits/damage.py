"""Damage to files on disk, and sums that show whether a file has changed."""

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path


def flip(path: Path) -> bytes:
    """Flip a bit in a file; returns what it holds now."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)
    return bytes(raw)


def sums(data: Path) -> dict[str, str]:
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and path.name not in (".lock", "index.sqlite")  # the holder's number, and a cache
    }


def harm(path: Path, how: int | bytes | str) -> None:
    """Cut the index at a byte, write something else, or have a statement change it."""
    match how:
        case int():
            os.truncate(path, how)
        case bytes():
            path.write_bytes(how)
        case str():
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute(how)
