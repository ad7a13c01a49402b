"""A remote signer (NIP-46) with faults, which encrypts with another library than ours."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import nostr_sdk as sdk
from websockets.asyncio.client import ClientConnection, connect

from tenex.core.ids import PublicKey
from tenex.nostr.events import sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey

SIGNER = 24133
Reply = dict[str, Any]


@dataclass(kw_only=True, eq=False)
class Bunker:
    """A signer at work; `answer` may be replaced at any time."""

    url: str
    user: SecretKey
    signer: SecretKey
    secret: str = "xyzzy"
    answer: "Callable[[Bunker, str, Sequence[str]], Reply | None]" = field(default_factory=lambda: good)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """As they came."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def address(self) -> str:
        return f"bunker://{self.signer.public}?relay={self.url}&secret={self.secret}"

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [request for request in self.requests if request["method"] == method]

    async def until_asked(self, method: str, times: int = 1) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.asked(method)) >= times)

    async def send(self, reply: Reply, client: str) -> None:
        assert self._socket is not None
        content = sdk.nip44_encrypt(*self._pair(client), json.dumps(reply), sdk.Nip44Version.V2)
        draft = unsigned_event(self.signer.public, 1_700_000_000 + len(content), SIGNER, [("p", client)], content)
        await self._socket.send(json.dumps(["EVENT", to_wire(sign(draft, self.signer))]))

    async def serve(self) -> None:
        async with connect(self.url, max_size=None, proxy=None) as socket:
            self._socket: ClientConnection | None = socket
            await socket.send(json.dumps(["REQ", "all", {"kinds": [SIGNER], "#p": [self.signer.public]}]))
            async for text in socket:
                frame = json.loads(text)
                if frame[0] == "EOSE":
                    self.listens.set()
                if frame[0] != "EVENT":
                    continue
                client = frame[2]["pubkey"]
                request = json.loads(sdk.nip44_decrypt(*self._pair(client), frame[2]["content"]))
                self.requests.append({**request, "client": client})
                reply = self.answer(self, request["method"], request["params"])
                if reply is not None:
                    await self.send({"id": request["id"], **reply}, client)
                async with self.changed:
                    self.changed.notify_all()

    def __post_init__(self) -> None:
        self._socket = None
        self.listens = asyncio.Event()

    def _pair(self, client: str) -> tuple[sdk.SecretKey, sdk.PublicKey]:
        return sdk.SecretKey.parse(self.signer.nsec), sdk.PublicKey.parse(client)


def good(bunker: Bunker, method: str, params: Sequence[str]) -> Reply | None:
    match method:
        case "connect":
            is_meant = params[0] == bunker.signer.public and params[1] == bunker.secret
            return {"result": "ack"} if is_meant else {"result": "", "error": "unknown secret"}
        case "get_public_key":
            return {"result": bunker.user.public}
        case "ping":
            return {"result": "pong"}
        case "sign_event":
            return {"result": json.dumps(signed(json.loads(params[0]), bunker.user))}
    return {"result": "", "error": f"unknown method {method}"}


def signed(template: dict[str, Any], user: SecretKey, **changes: Any) -> dict[str, Any]:
    fields = {**template, **changes}
    draft = unsigned_event(
        PublicKey(user.public), fields["created_at"], fields["kind"], fields["tags"], fields["content"]
    )
    return to_wire(sign(draft, user))


def silent(_bunker: Bunker, _method: str, _params: Sequence[str]) -> Reply | None:
    return None


def on_signing(reply: Callable[[Bunker, dict[str, Any]], Reply | None]) -> Callable[..., Reply | None]:
    """A signer that is good at all but signatures."""

    def answer(bunker: Bunker, method: str, params: Sequence[str]) -> Reply | None:
        return reply(bunker, json.loads(params[0])) if method == "sign_event" else good(bunker, method, params)

    return answer


@asynccontextmanager
async def bunker(url: str, user: SecretKey, **fields: Any) -> AsyncIterator[Bunker]:
    """A signer for as long as the block lasts, once it listens."""
    opened = Bunker(url=url, user=user, **{"signer": SecretKey.generate(), **fields})
    serving = asyncio.create_task(opened.serve())
    try:
        async with asyncio.timeout(60):
            await opened.listens.wait()
        yield opened
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
