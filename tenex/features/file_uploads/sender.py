"""Chooses the servers of a file, encrypts it where its conversation is encrypted, and uploads it (ADR 93, ADR 104)."""

import asyncio
import hmac
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Protocol

from tenex.core.config import Role
from tenex.core.errors import FileNotSent
from tenex.core.ids import PublicKey
from tenex.core.port_values import AttachedFile, FileDestination, UnsignedEvent
from tenex.core.ports import Clock, OutgoingMessage
from tenex.nostr.blossom import SERVER_LIST, FileServer, NoFileServer, servers_in, store_of, upload
from tenex.nostr.encrypted_file import EncryptedFile, encrypt_with
from tenex.nostr.events import Event, Sign
from tenex.nostr.keys import Key, SecretKey
from tenex.nostr.threading import scheme_of
from tenex.nostr.threading.direct import DIRECT, LEGACY

LOOK_UP: Final = 3.0
"""Seconds for the servers of a person."""

NONE_SET: Final = "no file server is set (`files.servers`)"
_ENCRYPTED: Final = "application/octet-stream"
"""What a server is told of an encrypted file."""
_PURPOSE: Final = b"tenex: key and nonce of a file\0"


class Relays(Protocol):
    """Where lists of servers are looked up."""

    async def fetch(self, filters: Sequence[dict[str, object]], seconds: float) -> list[Event]:
        """Return the events that relays have."""


class BlossomSender:
    """`FileSender` to Blossom servers: those of the settings, else those that the person has published.

    In a room (NIP-29) the store of its relay comes first, whose members can read it. Whether the relay has one is seen
    by its answer, and remembered for as long as the process runs.
    """

    def __init__(
        self,
        *,
        servers: Callable[[], Sequence[str]],
        pool: Relays,
        keys: Mapping[PublicKey, Key],
        project: Callable[[], Key],
        sign: Sign,
        clock: Clock,
    ) -> None:
        """Prepare.

        Args:
            servers: those of the settings, as they are now.
            pool: the relays, which know the servers of people.
            keys: ours.
            project: the key that signs authorizations: a server that asks who uploads has to permit one key.
            sign: signs with it.
            clock: for the date of authorizations.
        """
        self._servers = servers
        self._pool = pool
        self._keys = keys
        self._project = project
        self._sign = sign
        self._clock = clock
        self._without_store: set[str] = set()
        """Relays that have answered as those without a store."""

    async def send(
        self, data: bytes, *, name: str, media_type: str, unique: str, destination: FileDestination
    ) -> AttachedFile:
        """Upload a file; as the port has it."""
        if not destination.address:
            raise FileNotSent("nothing is published from here")
        project = self._project()
        scheme = scheme_of(_draft(destination, project.public))
        if scheme is LEGACY:
            raise FileNotSent("direct messages of kind 4 (NIP-04) carry no files")
        if scheme is DIRECT:
            servers = await self._servers_for(destination)
            if not servers:
                raise FileNotSent(NONE_SET)
            encrypted = await asyncio.to_thread(self._encrypted, data, unique, destination)
            url = await self._upload(servers, encrypted.data, _ENCRYPTED, project)
            return AttachedFile(
                name=name,
                media_type=media_type,
                size=len(encrypted.data),
                url=url,
                x=encrypted.x,
                key=encrypted.key,
                nonce=encrypted.nonce,
                ox=encrypted.ox,
            )
        url = await self._uploaded(data, media_type, destination)
        return AttachedFile(name=name, media_type=media_type, size=len(data), url=url, x=sha256(data).hexdigest())

    async def _uploaded(self, data: bytes, media_type: str, destination: FileDestination) -> str:
        """The address of a file that readers of its conversation can load: in a room first in the relay's store.

        Raises:
            FileNotSent: no server has it.
        """
        project = self._project()
        why_not: list[str] = []
        relay = next(iter(destination.address.get("relays", ())), "") if destination.address.get("group") else ""
        if relay and relay not in self._without_store:
            speaker = self._keys.get(destination.speaker) if destination.speaker is not None else None
            try:
                return await self._upload([store_of(relay)], data, media_type, speaker or project)
            except NoFileServer:
                self._without_store.add(relay)
            except FileNotSent as fault:
                why_not.append(str(fault))

        servers = await self._servers_for(destination)
        if not servers:
            raise FileNotSent("; ".join(why_not) or NONE_SET)
        try:
            return await self._upload(servers, data, media_type, project)
        except FileNotSent as fault:
            raise FileNotSent("; ".join((*why_not, str(fault)))) from fault

    async def _upload(self, servers: Sequence[FileServer], data: bytes, media_type: str, project: Key) -> str:
        async def sign(event: UnsignedEvent) -> Event:
            return await self._sign(event, project)

        return await upload(servers, data, media_type, project.public, sign, self._clock.now() // 1000)

    async def _servers_for(self, destination: FileDestination) -> Sequence[FileServer]:
        """The servers of the settings; without any those of the person, unless that is a guest."""
        own = [FileServer(url, is_trusted=True) for url in self._servers()]
        if own or destination.person is None or destination.role not in (Role.OWNER, Role.MEMBER):
            return own
        wanted: dict[str, object] = {"kinds": [SERVER_LIST], "authors": [destination.person]}
        events = await self._pool.fetch([wanted], LOOK_UP)
        theirs = [event for event in events if event.kind == SERVER_LIST and event.pubkey == destination.person]
        newest = max(theirs, key=lambda event: event.created_at, default=None)
        return servers_in(newest) if newest is not None else ()

    def _encrypted(self, data: bytes, unique: str, destination: FileDestination) -> EncryptedFile:
        """The file, encrypted by a key that follows from ours, what sends it and the file: a repetition is the same.

        Who has our secret key could read the messages anyway.
        """
        key = self._keys.get(PublicKey(str(destination.address.get("key", ""))))
        if not isinstance(key, SecretKey):
            raise FileNotSent("the key of this conversation is not here")
        source = _PURPOSE + unique.encode() + b"\0" + sha256(data).digest()
        octets = hmac.digest(key.shared_secret(key.public), source, "sha512")
        return encrypt_with(data, octets[:32], octets[32:44])


def _draft(destination: FileDestination, speaker: PublicKey) -> OutgoingMessage:
    """The message that the file goes with, as far as its form is asked."""
    return OutgoingMessage(
        speaker=speaker, text="", created_at=0, address=destination.address, reply_to=destination.reply_to
    )
