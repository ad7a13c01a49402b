"""Signing with keys that remote signers hold: each signature is waited for, and how that goes is known."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from tenex.core.backoff import Backoff
from tenex.core.ids import Millis, PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.log import get_logger
from tenex.nostr.events import Event, event_id, sign
from tenex.nostr.keys import Key, RemoteKey, SecretKey
from tenex.nostr.signers import SignerClient, SignerRefused, SignerSilent, SignerTimeouts, checked_answer, request_text
from tenex.nostr.timeouts import RelayTimeouts
from tenex.store.view_json import iso

log = get_logger(__name__)

KEPT: Final = 64
"""Signed events that are kept for the other relays that get them."""


class RemoteSigner:
    """Signs with a key that a remote signer holds, and knows how that goes."""

    def __init__(
        self,
        key: RemoteKey,
        name: Callable[[], str],
        timeouts: SignerTimeouts | None = None,
        relay_timeouts: RelayTimeouts | None = None,
    ) -> None:
        self.key = key
        self.replaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the key is reached in another way: what waits here is asked for there."""
        self._name = name
        self._client = SignerClient(
            key.signer,
            key.relays,
            key.client,
            timeouts=timeouts,
            relay_timeouts=relay_timeouts,
            on_allow=self._note_allow,
            on_heard=self._note_heard,
        )
        self._timeouts = self._client.timeouts
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._signed: OrderedDict[str, Event] = OrderedDict()
        self._doubt = asyncio.Event()
        """Set until it is heard of, and while it is silent."""
        self._doubt.set()
        self._silent = ""
        self._silent_since: float | None = None
        self._allow_at: str | None = None
        """Where a person is to allow a request; empty if it did not say so in a way that can be shown."""
        self._refusals: dict[str, str] = {}
        """Why signatures were refused, by event."""
        self._late: dict[str, str] = {}
        """Why signatures are late, by event."""
        self._waiting: list[tuple[float, str]] = []
        """The signatures that are waited for, each with since when, the oldest first; one for each relay's copy."""

    async def run(self) -> None:
        """Stay connected until cancelled, and ask a silent signer whether it is there."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._client.run(), name=f"relays of the signer of {self.key.npub}")
            while True:
                await self._doubt.wait()
                try:
                    await self._client.ask("ping", patience=self._timeouts.ping)
                except SignerRefused:  # it is there
                    pass
                except SignerSilent as fault:
                    self._note_silent(str(fault))
                    await asyncio.sleep(self._timeouts.ping / 5)  # a relay may refuse at once

    async def sign(self, event: UnsignedEvent) -> Event:
        """Sign an event; waits until the signer does.

        Raises:
            ValueError: the event is not this key's, has another id than its content, or is too long.
        """
        if event.pubkey != self.key.public:
            raise ValueError(f"event {event.id} is by {event.pubkey}; the signer's key is {self.key.public}")
        if event_id(event.pubkey, event.created_at, event.kind, event.tags, event.content) != event.id:
            raise ValueError(f"event {event.id} does not have the id of its content")
        lock = self._locks.setdefault(event.id, asyncio.Lock())
        waiting = (time.time(), event.id)
        self._waiting.append(waiting)
        try:
            async with lock:  # each relay's copy wants the same signature
                signed = self._signed.get(event.id)
                if signed is None:
                    signed = self._signed[event.id] = await self._signature(event)
                    if len(self._signed) > KEPT:
                        self._signed.popitem(last=False)
                return signed
        finally:
            self._waiting.remove(waiting)

    async def _signature(self, event: UnsignedEvent) -> Event:
        text = request_text(event)
        pauses = Backoff(self._timeouts.refused_first, self._timeouts.refused_most)
        try:
            while True:
                try:
                    answer = await self._client.insist("sign_event", text, on_late=partial(self._note_late, event))
                    self._allow_at = None
                    return checked_answer(event, answer)
                except SignerRefused as fault:
                    self._allow_at = None
                    self._note_refusal(event, str(fault))
                await asyncio.sleep(pauses.next())
        finally:
            self._refusals.pop(event.id, None)
            self._late.pop(event.id, None)

    # ---- how it goes ----

    def _note_late(self, event: UnsignedEvent, why: str) -> None:
        if not self._late:
            log.info("signer.late", key=self._name(), kind=event.kind, reason=why)
        self._late[event.id] = why
        self._doubt.set()

    def _note_silent(self, why: str) -> None:
        if self._silent_since is None:
            self._silent_since = time.time()
            log.warning("signer.silent", key=self._name(), npub=self.key.npub, reason=why)
        self._silent = why
        self._doubt.set()

    def _note_allow(self, address: str) -> None:
        self._note_heard()
        if self._allow_at is None:
            log.warning("signer.asks_person", key=self._name(), npub=self.key.npub, open=address)
        self._allow_at = address

    def _note_heard(self) -> None:
        if self._silent_since is not None:
            log.info("signer.answers", key=self._name(), silent_for=round(time.time() - self._silent_since))
            self._client.send_again()
        self._silent_since = None
        self._silent = ""
        self._doubt.clear()

    def _note_refusal(self, event: UnsignedEvent, why: str) -> None:
        if why not in self._refusals.values():
            log.warning("signer.refused", key=self._name(), npub=self.key.npub, kind=event.kind, reason=why)
        self._refusals[event.id] = why
        self._late.pop(event.id, None)

    def status(self) -> dict[str, Any]:
        """Its state for people: ready, starting, silent, asks (a person is to allow something), refused or late."""
        if self._allow_at is not None and self._waiting:
            state = "asks"
            why = self._allow_at
        elif self._silent_since is not None:
            state = "silent"
            why = self._silent
        elif self._refusals:
            state = "refused"
            why = next(reversed(self._refusals.values()))
        elif self._late:
            state = "late"
            why = "it is there, and has not signed yet: see whether it asks you"
        else:
            state = "starting" if self._doubt.is_set() else "ready"
            why = ""
        return {
            "name": self._name(),
            "npub": self.key.npub,
            "relays": list(self.key.relays),
            "state": state,
            "why": why,
            "silentSince": _at(self._silent_since),
            "waiting": len({event for _, event in self._waiting}),
            "waitingSince": _at(self._waiting[0][0]) if self._waiting else None,
        }


def _at(seconds: float | None) -> str | None:
    return None if seconds is None else iso(Millis(int(seconds * 1000)))


class Signers:
    """Signs with our keys: at once with those that are here, and by asking for those that are not."""

    def __init__(
        self,
        keys: Mapping[PublicKey, Key],
        name_of: Callable[[PublicKey], str],
        timeouts: SignerTimeouts | None = None,
        relay_timeouts: RelayTimeouts | None = None,
    ) -> None:
        """Prepare.

        Args:
            keys: ours; `changed` is called after a change.
            name_of: the name of a key.
            timeouts: the durations.
            relay_timeouts: those of the signers' relays.
        """
        self._keys = keys
        self._name_of = name_of
        self._timeouts = timeouts
        self._relay_timeouts = relay_timeouts
        self._remote: dict[PublicKey, RemoteSigner] = {}
        self._has_changed = asyncio.Event()

    async def run(self) -> None:
        """Keep the remote signers connected until cancelled."""
        running: dict[RemoteSigner, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                self._has_changed.clear()
                for signer in [signer for signer in running if signer.replaced.done()]:
                    running.pop(signer).cancel()
                for signer in [self._signer(key) for key in self._keys.values() if isinstance(key, RemoteKey)]:
                    if signer not in running:
                        name = f"signer of {self._name_of(signer.key.public)}"
                        running[signer] = group.create_task(signer.run(), name=name)
                await self._has_changed.wait()

    def changed(self) -> None:
        """Connect to the signers of keys that are new, and ask for what waits where a key is reached now."""
        for public, signer in list(self._remote.items()):
            if self._keys.get(public) != signer.key:
                del self._remote[public]
                signer.replaced.set_result(None)
        self._has_changed.set()

    async def sign(self, event: UnsignedEvent, key: Key) -> Event:
        """Sign an event; with a remote signer this may take as long as it does.

        Raises:
            ValueError: the key is not the author's, the id is not the event's, or it is too long for a remote signer.
        """
        while True:
            current = self._keys.get(key.public, key)  # it may be reached in another way since
            if isinstance(current, SecretKey):
                return sign(event, current)
            signer = self._signer(current)
            signing = asyncio.create_task(signer.sign(event), name=f"signature of {event.id}")
            try:
                waits: list[asyncio.Future[Any]] = [signing, signer.replaced]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if signing.done():
                    return signing.result()
            finally:
                signing.cancel()

    def is_remote(self, pubkey: PublicKey) -> bool:
        """Whether signatures of a key may take long."""
        return isinstance(self._keys.get(pubkey), RemoteKey)

    def status(self) -> list[dict[str, Any]]:
        """The state of each remote signer."""
        return [self._signer(key).status() for key in self._keys.values() if isinstance(key, RemoteKey)]

    def _signer(self, key: RemoteKey) -> RemoteSigner:
        signer = self._remote.get(key.public)
        if signer is None:
            name = partial(self._name_of, key.public)
            signer = RemoteSigner(key, name, self._timeouts, self._relay_timeouts)
            self._remote[key.public] = signer
        return signer
