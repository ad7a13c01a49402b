"""A model's server on loopback that tries to fill its client's memory: each attack is a name in the path.

    with hostile_server() as url:
        client = AsyncOpenAI(base_url=f"{url}/endless-line/v1", api_key="none")

It sends until the client closes the connection, or `MOST` bytes.
"""

import gzip
import itertools
import json
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST = 2 * 1024**3
"""Bytes of one answer, many times what a client should take."""

Body = Iterable[bytes]
Attack = Callable[[], tuple[int, Mapping[str, str], Body]]

_KB = 1024


def _packed(coding: str, size: int = 512 * _KB * _KB) -> Iterator[bytes]:
    """White space and an empty object, compressed: a valid answer of JSON but for its size."""
    packer = zlib.compressobj(9, wbits={"gzip": 31, "deflate": 15, "raw": -15}[coding])
    block = b" " * _KB * _KB
    for _ in range(size // len(block)):
        yield packer.compress(block)
    yield packer.compress(b"{}") + packer.flush()


def chunk(**delta: Any) -> bytes:
    """An event of OpenAI's protocol."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "test", "choices": [choice]}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


def _call(number: int, name: str = "write_file", arguments: str = "{}") -> bytes:
    function = {"name": name, "arguments": arguments}
    return chunk(tool_calls=[{"index": number, "id": f"call{number}", "type": "function", "function": function}])


def _pieces(piece: bytes) -> Iterator[bytes]:
    """The same without end, in writes of about 64 KB."""
    return itertools.repeat(piece * max(1, 64 * _KB // len(piece)))


def _stream(body: Body) -> tuple[int, Mapping[str, str], Body]:
    return 200, {"content-type": "text/event-stream"}, body


def _whole(body: Body, status: int = 200, *, coding: str = "", **headers: str) -> tuple[int, Mapping[str, str], Body]:
    encoded = {"content-encoding": coding} if coding else {}
    return status, {"content-type": "application/json", **encoded, **headers}, body


def _nested(depth: int) -> str:
    return "[" * depth + "]" * depth


ATTACKS: dict[str, Attack] = {
    "gzip": lambda: _whole(_packed("gzip"), coding="gzip"),
    "deflate": lambda: _whole(_packed("deflate"), coding="deflate"),
    "raw-deflate": lambda: _whole(_packed("raw"), coding="deflate"),
    "gzip-of-gzip": lambda: _whole([gzip.compress(b"".join(_packed("gzip", 256 * _KB * _KB)))], coding="gzip, gzip"),
    "six-gzips": lambda: _whole([b"{}"], coding=", ".join(6 * ["gzip"])),
    "gzip-in-a-stream": lambda: (
        200,
        {"content-type": "text/event-stream", "content-encoding": "gzip"},
        _packed("gzip"),
    ),
    "endless-body": lambda: _whole(_pieces(b" ")),
    "endless-string": lambda: _whole(itertools.chain([b'{"id": "'], _pieces(b"a"))),
    "endless-objects": lambda: _whole(itertools.chain([b'{"choices": ['], _pieces(b"{},"))),
    "endless-lists": lambda: _whole(itertools.chain([b"["], _pieces(b"[],\n\n"))),
    "endless-line": lambda: _stream(itertools.chain([b"data: "], _pieces(b"a"))),
    "endless-data-lines": lambda: _stream(_pieces(b"data: a\n")),
    "endless-objects-in-an-event": lambda: _stream(itertools.chain([b'data: {"choices": ['], _pieces(b"{},"))),
    "endless-comments": lambda: _stream(_pieces(b": keep-alive\n\n")),
    "endless-empty-lines": lambda: _stream(itertools.chain([b":\n"], _pieces(b"\n"))),
    "endless-text": lambda: _stream(_pieces(chunk(content="word " * 1000))),
    "endless-wide-text": lambda: _stream(_pieces(chunk(content="\U0001f600" * 1000))),
    "endless-thoughts": lambda: _stream(_pieces(chunk(reasoning_content="word " * 1000))),
    "endless-arguments": lambda: _stream(
        itertools.chain([_call(0, arguments="")], _pieces(_call(0, arguments="1" * 4000)))
    ),
    "endless-deltas": lambda: _stream(_pieces(chunk(content="a"))),
    "endless-empty-deltas": lambda: _stream(_pieces(b'data: {"choices":[]}\n\n')),
    "endless-calls": lambda: _stream(
        b"".join(map(_call, range(first, first + 200))) for first in itertools.count(0, 200)
    ),
    "endless-call-in-one-event": lambda: _stream(
        itertools.chain([b'data: {"choices":[{"delta":{"tool_calls":['], _pieces(b"{},"))
    ),
    "endless-single-bytes": lambda: _stream(itertools.repeat(b"1\r\na\r\n" * 10_000)),
    "endless-error": lambda: _whole(itertools.chain([b'{"error": {"message": "'], _pieces(b"9")), 400),
    "endless-overload": lambda: _whole(_pieces(b"busy "), 503),
    "gzip-error": lambda: _whole(_packed("gzip"), 500, coding="gzip"),
    "endless-redirect": lambda: _whole(_pieces(b"a"), 302, location="/gzip-error/v1/chat/completions"),
    "digits-error": lambda: _whole(
        [json.dumps({"error": {"message": "maximum context length is " + "9" * 60_000}}).encode()], 400
    ),
    "deep": lambda: _whole([b'{"id": ' + _nested(50_000).encode() + b"}"]),
    "deep-event": lambda: _stream([b'data: {"id": ' + _nested(50_000).encode() + b"}\n\n"]),
    "deep-error": lambda: _whole([b'{"error": ' + _nested(30_000).encode() + b"}"], 400),
    "long-number": lambda: _whole([b'{"created": ' + b"9" * 1_000_000 + b"}"]),
    "long-number-event": lambda: _stream([b'data: {"created": ' + b"9" * 1_000_000 + b"}\n\n"]),
    "ordinary-gzip": lambda: _whole([gzip.compress(b'{"a": "b"}')], coding="gzip"),
    "ordinary-gzip-of-gzip": lambda: _whole([gzip.compress(gzip.compress(b'{"a": "b"}'))], coding="gzip, gzip"),
    "endless-headers": lambda: (200, {f"x-{number}": "a" * 1000 for number in range(2000)}, [b"{}"]),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        attack = self.path.split("/")[1]
        status, headers, body = ATTACKS[attack]()
        with suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.send_header("connection", "close")  # else a client may send its next request into the closed socket
            self.end_headers()
            sent = 0
            for piece in body:
                if attack == "endless-single-bytes":
                    self.wfile.write(piece)
                elif piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                sent += len(piece)
                if sent > MOST:
                    break
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    do_GET = do_POST = _answer  # noqa: N815  the library's names

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hostile_server() -> Iterator[str]:
    """Serve in threads; gives the address, to which the name of an attack is added."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
