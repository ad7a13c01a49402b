"""A journal as copies in text mode and editors leave it."""

from collections.abc import Callable

FORMS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "CRLF twice": lambda data: data.replace(b"\n", b"\r\r\n"),
    "CR": lambda data: data.replace(b"\n", b"\r"),
    "mark": lambda data: b"\xef\xbb\xbf" + data,
    "mark and CRLF": lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
    "blank line": lambda data: data + b"\n",
    "blank first line": lambda data: b"\n" + data,
    "blank lines": lambda data: b"\n" + data.replace(b"\n", b"\n\n") + b"\r\n\n",
    "UTF-16": lambda data: data.decode().replace("\n", "\r\n").encode("utf-16"),
}
"""What copies in text mode and editors do to a file."""
