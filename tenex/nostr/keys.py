"""Keys: their encodings, their files, and their mentions in text.

Only `SecretKey` holds a secret, and every use of it is a method. A `RemoteKey` is held by a remote signer (NIP-46),
which `signers` asks. bech32 is pynostr's; prefix and length, which it does not check, are checked here.
"""

import errno
import json
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import Final

import coincurve
from pynostr import bech32

from tenex.core.errors import ConfigurationError
from tenex.core.ids import EventId, PublicKey
from tenex.core.text.foreign import decode, plain
from tenex.core.text.names import MENTION
from tenex.core.text.prose import folded, readings

from .urls import normalise_url

_HEX64: Final = re.compile(r"[0-9a-fA-F]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
SUFFIX: Final = ".nsec"
REMOTE_SUFFIX: Final = ".bunker"
_LONGEST_FILE: Final = 8_192
"""Bytes of a key's file that are read: an nsec, or a handful of relays."""

_EVENT_NAME: Final = re.compile(
    r"(?<![a-z0-9])(?:nostr:)?(note1[02-9ac-hj-np-z]{58}|nevent1[02-9ac-hj-np-z]{6,1000})(?![a-z0-9])",
    re.IGNORECASE | re.ASCII,
)
PROJECT_EVENT: Final = 31933
"""A project in TENEX's clients, which its owner signs there."""
_PROJECT_TAG: Final = re.compile(rf"{PROJECT_EVENT}:([0-9a-f]{{64}}):([^\s:]{{1,200}})")
MAX_PROFILES: Final = 5
"""nprofiles of one text that are decoded, a millisecond each at most; users write one or two."""
MAX_ADDRESS: Final = 2_000
"""Characters of an address of an event: an id or a name of 255 bytes, and a few relays."""


class SecretKey:
    """A secret key that signs. Its repr and str show the public key only."""

    __slots__ = ("_key", "public")

    public: PublicKey
    """The x-only public key in lower-case hex."""

    def __init__(self, secret: bytes) -> None:
        """Take 32 bytes.

        Raises:
            ValueError: they are not a key of this curve.
        """
        if len(secret) != 32:
            raise ValueError(f"a secret key has 32 bytes, not {len(secret)}")
        try:
            self._key = coincurve.PrivateKey(secret)
        except ValueError:
            raise ValueError("these 32 bytes are not a secret key of this curve: zero, or too large") from None
        self.public = PublicKey(self._key.public_key_xonly.format().hex())

    @classmethod
    def generate(cls) -> "SecretKey":
        """Make a new key from the system's randomness."""
        return cls(coincurve.PrivateKey().secret)

    @classmethod
    def from_nsec(cls, text: str) -> "SecretKey":
        """Read an nsec1 string.

        Raises:
            ValueError: it is not one; an npub is refused, not taken for a secret.
        """
        return cls(_payload(plain(text).strip(), "nsec", 32))

    @classmethod
    def from_ncryptsec(cls, text: str, password: str) -> "SecretKey":
        """Open an ncryptsec1 string (NIP-49).

        Raises:
            ValueError: it is not one, or the password is wrong.
        """
        from .encrypted_keys import decrypt_secret

        return cls(decrypt_secret(_payload(plain(text).strip(), "ncryptsec", None), password))

    @property
    def npub(self) -> str:
        """The public key as npub1 text."""
        return npub(self.public)

    @property
    def nsec(self) -> str:
        """The secret itself, for a key file or an export that was asked for."""
        return _bech32("nsec", self._key.secret)

    def encrypted(self, password: str) -> str:
        """The secret as ncryptsec1 text, which the password opens (NIP-49)."""
        from .encrypted_keys import encrypt_secret  # its library would slow down commands that need none

        return _bech32("ncryptsec", encrypt_secret(self._key.secret, password))

    def sign_digest(self, digest: bytes) -> str:
        """Sign 32 bytes (BIP-340, no randomness) and give 128 hex digits; the same each time."""
        return str(self._key.sign_schnorr(digest, None).hex())

    def shared_secret(self, other: PublicKey) -> bytes:
        """The x coordinate that both keys have in common (ECDH), for messages between them (NIP-04, NIP-44).

        Raises:
            ValueError: the other is not a point on the curve.
        """
        point = coincurve.PublicKey(b"\x02" + bytes.fromhex(other))
        return bytes(point.multiply(self._key.secret).format()[1:])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKey) and self.public == other.public

    def __hash__(self) -> int:
        return hash(self.public)

    def __repr__(self) -> str:
        return f"SecretKey({self.npub})"

    def __reduce__(self) -> str:
        raise TypeError("a secret key is not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteKey:
    """A key that a remote signer holds: its public key, and how the signer is reached (NIP-46)."""

    public: PublicKey
    signer: PublicKey
    """The key by which the signer answers; some answer with the key they hold."""
    relays: tuple[str, ...]
    client: SecretKey
    """The key by which this program asks; the signer knows it since they were connected."""

    @property
    def npub(self) -> str:
        """The public key as npub1 text."""
        return npub(self.public)

    @classmethod
    def from_file(cls, text: str) -> "RemoteKey":
        """Read what `to_file` has written.

        Raises:
            ValueError: it is something else; the sentence repeats nothing of it.
        """
        try:
            fields = json.loads(text)
            relays = tuple(dict.fromkeys(normalise_url(relay) for relay in [fields["relays"][0], *fields["relays"]]))
            return cls(
                public=parse_public_key(fields["key"]),
                signer=parse_public_key(fields["signer"]),
                relays=relays,
                client=SecretKey.from_nsec(fields["client"]),
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError("this describes no remote signer") from None

    def to_file(self) -> str:
        """What is stored: JSON, with the secret key of the client."""
        fields = {
            "key": self.npub,
            "signer": npub(self.signer),
            "relays": list(self.relays),
            "client": self.client.nsec,
        }
        return json.dumps(fields, indent=2) + "\n"


Key = SecretKey | RemoteKey
"""A key of ours: in a file here, or held by a remote signer."""


def npub(pubkey: PublicKey) -> str:
    """Write a public key as npub1 text (NIP-19)."""
    return _bech32("npub", bytes.fromhex(pubkey))


def nevent(event_id: EventId, relay: str, author: PublicKey, kind: int) -> str:
    """Write an event's id as nevent1 text (NIP-19), with where it was received, who wrote it and its kind."""
    entries = [(0, bytes.fromhex(event_id)), (2, bytes.fromhex(author)), (3, kind.to_bytes(4, "big"))]
    if relay.isascii() and 0 < len(relay) < 256:
        entries.insert(1, (1, relay.encode()))
    return _bech32("nevent", b"".join(bytes([number, len(value)]) + value for number, value in entries))


def nprofile(pubkey: PublicKey, relays: Iterable[str]) -> str:
    """Write a public key, and relays where it is reached, as nprofile1 text (NIP-19)."""
    addresses = [url.encode() for url in relays]
    short = [address for address in addresses if len(address) < 256]  # the length of an entry is one byte
    entries = [(0, bytes.fromhex(pubkey)), *((1, address) for address in short)]
    return _bech32("nprofile", b"".join(bytes([kind, len(value)]) + value for kind, value in entries))


def parse_public_key(text: str) -> PublicKey:
    """Read a public key that a user wrote: hex, npub or nprofile, with or without `nostr:`.

    Raises:
        ValueError: it is none of them; an nsec is refused in a sentence that does not repeat it.
    """
    word = plain(text).strip()
    if word[:6].lower() == "nostr:":
        word = word[6:]
    lowered = word.lower()
    if lowered.startswith("nsec"):
        raise ValueError("this is a secret key (nsec): give the public one (npub), and treat the secret as seen")
    if _HEX64.fullmatch(word):
        return _on_curve(bytes.fromhex(word))
    if lowered.startswith("nprofile1"):
        return _on_curve(_entry(_payload(word, "nprofile", None), "nprofile"))
    if lowered.startswith("npub1"):
        return _on_curve(_payload(word, "npub", 32))
    raise ValueError("a public key is npub1..., nprofile1... or 64 hex digits")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAddress:
    """What an address of an event says (NIP-19): its id, or by which author, kind and name the newest is found."""

    id: EventId | None = None
    author: PublicKey | None = None
    kind: int | None = None
    identifier: str = ""
    """The value of its `d` tag."""
    relays: tuple[str, ...] = ()
    """Where it may be found, by who made the address."""


def parse_event_address(text: str) -> EventAddress:
    """Read the address of an event: note, nevent or naddr, with or without `nostr:`.

    An id in hex is refused, because it looks like a secret key.

    Raises:
        ValueError: it is none of them; the sentence does not repeat it.
    """
    word = plain(text).strip()
    if word[:6].lower() == "nostr:":
        word = word[6:]
    prefix = word[:MAX_ADDRESS].lower().partition("1")[0]
    if len(word) > MAX_ADDRESS or prefix not in ("note", "nevent", "naddr"):
        raise ValueError("the address of an event is note1..., nevent1... or naddr1...")
    if prefix == "note":
        return EventAddress(id=EventId(_payload(word, prefix, 32).hex()))
    payload = _payload(word, prefix, None)
    author = next(_entries(payload, prefix, 2), None)
    kind = next(_entries(payload, prefix, 3), None)
    relays = (relay.decode(errors="replace") for relay in _entries(payload, prefix, 1))
    hinted = EventAddress(
        author=_on_curve(author) if author is not None and len(author) == 32 else None,
        kind=int.from_bytes(kind, "big") if kind is not None else None,
        relays=tuple(dict.fromkeys(relays)),
    )
    if prefix == "nevent":
        return replace(hinted, id=EventId(_entry(payload, prefix).hex()))
    if hinted.author is None or hinted.kind is None:
        raise ValueError("this naddr names no author or no kind")
    name = next(_entries(payload, prefix, 0), b"")
    return replace(hinted, identifier=name.decode(errors="replace"))


def parse_project_address(text: str) -> str:
    """Read the address of a project's event (kind 31933): naddr, or as an `a` tag has it; returns the latter.

    Raises:
        ValueError: it is none; the sentence does not repeat it.
    """
    match = _PROJECT_TAG.fullmatch(text)
    if match is not None:
        return f"{PROJECT_EVENT}:{_on_curve(bytes.fromhex(match[1]))}:{match[2]}"
    address = parse_event_address(text)
    if address.id is not None or address.kind != PROJECT_EVENT:
        raise ValueError(f"this is the address of another event; that of a project is an naddr of kind {PROJECT_EVENT}")
    return f"{PROJECT_EVENT}:{address.author}:{address.identifier}"


def find_mentions(text: str, among: Collection[PublicKey]) -> tuple[PublicKey, ...]:
    """Find which of these keys a text mentions (`nostr:npub1...`, `nostr:nprofile1...`, bare `npub1...`), in order.

    Code, quotations and links mention no one. A text may mention thousands: npubs are compared, not decoded, and only
    the first nprofiles are decoded.
    """
    npubs = _npubs(frozenset(among))
    found: dict[PublicKey, None] = {}
    profiles = 0
    if not _is_named(folded(text), npubs):
        return ()
    for match in (match for reading in readings(text) for match in MENTION.finditer(reading)):
        word = match["key"].lower()
        key = npubs.get(word)
        if key is None and word.startswith("nprofile1") and profiles < MAX_PROFILES:
            profiles += 1
            with suppress(ValueError):  # looks like a key and is not one: ordinary text
                key = parse_public_key(word)
        if key is not None and key in among:
            found[key] = None
    return tuple(found)


def find_events(text: str, without_kinds: Collection[int] = ()) -> tuple[str, ...]:
    """The ids of the events that a text names (`nostr:note1...`, `nostr:nevent1...`), at most `MAX_PROFILES`.

    One whose name says that it is of one of these kinds is left out.
    """
    found: dict[str, None] = {}
    for match in islice(_EVENT_NAME.finditer(text), MAX_PROFILES):
        word = match[1].lower()
        with suppress(ValueError):
            if word.startswith("note1"):
                found[_payload(word, "note", 32).hex()] = None
                continue
            payload = _payload(word, "nevent", None)
            kinds = {int.from_bytes(value, "big") for value in _entries(payload, "nevent", 3)} if without_kinds else ()
            if not any(kind in without_kinds for kind in kinds):
                found[_entry(payload, "nevent").hex()] = None
    return tuple(found)


def _is_named(text: str, npubs: Collection[str]) -> bool:
    """Whether a text in lower case holds one of these npubs, or an nprofile, which may be of any of them."""
    return "nprofile1" in text or ("npub1" in text and any(known in text for known in npubs))


@lru_cache(maxsize=8)  # keys change a few times in a daemon's life
def _npubs(keys: frozenset[PublicKey]) -> dict[str, PublicKey]:
    return {npub(key): key for key in keys}


class KeyRing:
    """The keys: for each a file `<name>.nsec`, or `<name>.bunker` where a remote signer holds it.

    They are looked for in a folder of our own, 0700, where files are 0600 and written whole or not at all, and then in
    folders that are only read, such as that of systemd's credentials. Two files of one name have to hold the same key:
    which of two is used would decide who this is.
    """

    def __init__(self, folder: Path, *read_only: Path) -> None:
        self.folder = folder
        self._read_only = read_only

    def names(self) -> tuple[str, ...]:
        """The names that have a key, here or at a remote signer, sorted."""
        folders = [folder for folder in (self.folder, *self._read_only) if folder.is_dir()]
        suffixes = (SUFFIX, REMOTE_SUFFIX)
        stems = {
            path.name.removesuffix(suffix)
            for folder in folders
            for suffix in suffixes
            for path in folder.glob(f"*{suffix}")
        }
        return tuple(sorted(stem for stem in stems if _NAME.fullmatch(stem)))

    def file(self, name: str) -> Path:
        """The file of a key; that of a secret key in our folder where there is none.

        Raises:
            ConfigurationError: nothing can have this name.
        """
        return next(self._files(name), self._path(name))

    def given_file(self, name: str) -> Path | None:
        """The file of a key in a folder that is only read.

        Raises:
            ConfigurationError: nothing can have this name.
        """
        return next((path for path in self._files(name) if path.parent != self.folder), None)

    def read(self, name: str) -> Key:
        """Read a key, or how the remote signer that holds it is reached.

        Raises:
            ConfigurationError: there is none, there are two that differ, or a file cannot be read, may be read by
                others, or holds no key.
        """
        path, *others = [*self._files(name)] or [self._path(name)]
        for other in others:
            if other.suffix != path.suffix or self._read_file(name, other) != self._read_file(name, path):
                fix = "move away the one that is not to be used"
                raise ConfigurationError([f"{path}: there is another key of {name} in {other} too; {fix}"])
        return self._read_file(name, path)

    def _read_file(self, name: str, path: Path) -> Key:
        content = _content(path, name, is_private=path.parent == self.folder)
        is_secret = path.suffix == SUFFIX
        try:
            return SecretKey.from_nsec(decode(content)) if is_secret else RemoteKey.from_file(decode(content))
        except ValueError:
            what = "holds no nsec1 key" if is_secret else "describes no remote signer"
            again = f"connect again: `tenex keys connect {name} --replace`"
            fix = "put the key back from a copy, or move the file away for a new one" if is_secret else again
            raise ConfigurationError([f"{path}: {what}; {fix}"]) from None

    def get(self, name: str) -> SecretKey:
        """Read a secret key.

        Raises:
            ConfigurationError: as for `read`, or a remote signer holds it.
        """
        key = self.read(name)
        if isinstance(key, SecretKey):
            return key
        raise ConfigurationError(
            [f"{self.file(name)}: a remote signer holds the key of {name}, and this needs the key itself"]
        )

    def get_or_create(self, name: str) -> SecretKey:
        """Read a secret key, or create and store it durably; two processes at once get the same one.

        Raises:
            ConfigurationError: as for `get`.
        """
        path = self.file(name)
        if not path.exists():
            self._create(path, SecretKey.generate())
        return self.get(name)

    def read_or_create(self, name: str) -> Key:
        """Read a key as `read` does; where there is none create a secret key.

        Raises:
            ConfigurationError: as for `read`.
        """
        return self.read(name) if self.file(name).exists() else self.get_or_create(name)

    def add(self, name: str, key: SecretKey) -> None:
        """Store a key that was created elsewhere.

        Raises:
            ConfigurationError: the name already has another one, which is left as it is.
        """
        path = self.file(name)
        if not path.exists():
            self._create(path, key)
        if self.read(name) != key:
            raise ConfigurationError([f"{path}: there is another key of that name; move it away first"])

    def replace(self, name: str, key: Key) -> Path | None:
        """Store a key in place of another, whose file is kept; returns where, None if there was no file.

        Raises:
            ConfigurationError: it cannot be written, or the other one is in a folder that is only read; it is still
                in place then.
        """
        self.check_replaceable(name)
        path = self._path(name, SUFFIX if isinstance(key, SecretKey) else REMOTE_SUFFIX)
        kept = None
        with self._written(path, key) as beside:
            old = self.file(name)
            if old.exists():
                kept = _kept(old)
            beside.replace(path)
            if old != path:
                old.unlink(missing_ok=True)  # a second name of it is kept
        return kept

    def check_replaceable(self, name: str) -> None:
        """See that a key is not in a folder that is only read.

        Raises:
            ConfigurationError: it is.
        """
        given = self.given_file(name)
        if given is not None:
            raise ConfigurationError([f"{given}: the key of {name} comes from there; change it where that is made"])

    def _files(self, name: str) -> Iterator[Path]:
        """The files that hold a key, in the order in which they are looked for."""
        files = [self._path(name, suffix).name for suffix in (REMOTE_SUFFIX, SUFFIX)]
        for path in (folder / file for folder in (self.folder, *self._read_only) for file in files):
            try:
                path.stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as fault:  # not the same as missing: a new key would be another identity
                raise ConfigurationError([f"{path}: cannot be read ({fault.strerror}); {_FOREIGN}"]) from fault
            yield path

    def _path(self, name: str, suffix: str = SUFFIX) -> Path:
        if not _NAME.fullmatch(name) or name.endswith((SUFFIX, REMOTE_SUFFIX)):
            raise ConfigurationError([f"{name!r} cannot name a key: use letters, digits, '-', '_' and '.'"])
        return self.folder / f"{name}{suffix}"

    def _create(self, path: Path, key: SecretKey) -> None:
        """Write beside, fsync, link into place: `link` fails where a rename would replace another process's key."""
        with self._written(path, key) as beside, suppress(FileExistsError):
            take_free_name(beside, path)

    @contextmanager
    def _written(self, path: Path, key: Key) -> Iterator[Path]:
        """A durable file beside `path` that holds a key, until it has been put into place."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=f".{path.name}.")  # mkstemp makes it 0600
            beside = Path(name)
            try:
                if os.fstat(handle).st_mode & 0o077:
                    os.close(handle)
                    raise ConfigurationError([f"{path}: {NO_PERMISSIONS}; {MOUNT}"])
                with os.fdopen(handle, "w", encoding="ascii") as file:
                    file.write(f"{key.nsec}\n" if isinstance(key, SecretKey) else key.to_file())
                    file.flush()
                    os.fsync(file.fileno())
                yield beside
            finally:
                beside.unlink(missing_ok=True)
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            except OSError as fault:
                if fault.errno not in _NO_FLUSH:
                    raise
            finally:
                os.close(folder)
        except OSError as fault:
            fix = f"make room, or give {self.folder} to the user who runs tenex"
            raise ConfigurationError([f"{path}: cannot be written ({fault.strerror}); {fix}"]) from fault


_NO_FLUSH: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a file system that cannot flush a folder, such as exFAT and SMB."""
_NO_LINK: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of a file system without hard links."""
NO_PERMISSIONS: Final = "this disk keeps no permissions, so others could read the key"
MOUNT: Final = "move the data folder to another disk, or mount this one with `umask=077`"
"""What to do on a file system without permissions, such as exFAT, where `chmod` changes nothing."""
_FOREIGN: Final = "give it to the user who runs tenex"


def _content(path: Path, name: str, *, is_private: bool) -> bytes:
    """What a key's file holds.

    Raises:
        ConfigurationError: it is missing, cannot be read, or is to be private and may be read by others.
    """
    try:
        # a pipe that took the file's place must not be waited for
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            kind = os.fstat(file.fileno()).st_mode
            raw = file.read(_LONGEST_FILE) if stat.S_ISREG(kind) else b""
    except FileNotFoundError:
        raise ConfigurationError([f"{path}: there is no key for {name}; `tenex init` makes one"]) from None
    except OSError as fault:
        raise ConfigurationError([f"{path}: cannot be read ({fault.strerror}); {_FOREIGN}"]) from fault
    mode = stat.S_IMODE(kind)
    if is_private and stat.S_ISREG(kind) and mode & 0o077:
        raise ConfigurationError([f"{path}: others may read this key (mode {mode:04o}); {how_to_close(path)}"])
    return raw


def how_to_close(path: Path) -> str:
    """What to do about a private file that others may read."""
    return f"run `chmod 600 {path}`" if keeps_permissions(path.parent) else MOUNT


def keeps_permissions(folder: Path) -> bool:
    """Whether a file can be made in a folder that only its owner may read; True where that cannot be tried."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return not os.fstat(file.fileno()).st_mode & 0o077
    except OSError:
        return True


def take_free_name(beside: Path, path: Path) -> None:
    """Give a file a name that no other file has; the old name may stay.

    Raises:
        FileExistsError: another file has it.
        OSError: the disk does not permit it.
    """
    try:  # unlike a rename, a link never replaces another process's file
        os.link(beside, path)
    except OSError as fault:
        if fault.errno not in _NO_LINK:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from fault
        beside.rename(path)  # a file system without hard links, such as exFAT


def _kept(path: Path) -> Path:
    """A second name for a file, which no other file has."""
    for number in count(1):
        second = path.with_name(f"{path.name}.old-{number}")
        with suppress(FileExistsError):
            try:
                os.link(path, second)
            except OSError as fault:
                if fault.errno not in _NO_LINK:
                    raise
                with second.open("xb") as copy:
                    second.chmod(0o600)
                    copy.write(path.read_bytes())
                    os.fsync(copy.fileno())
            return second
    raise AssertionError("numbers do not end")


def _bech32(prefix: str, payload: bytes) -> str:
    return str(bech32.bech32_encode(prefix, bech32.convertbits(payload, 8, 5), bech32.Encoding.BECH32))


def _payload(text: str, prefix: str, length: int | None) -> bytes:
    """Decode bech32 with all checks that pynostr leaves to its callers; errors never repeat the text."""
    found, words, encoding = bech32.bech32_decode(text)
    if found is None or encoding is not bech32.Encoding.BECH32:
        raise ValueError(f"this {prefix} is mistyped: its checksum does not hold")
    if found != prefix:
        raise ValueError(f"this is an {found}, not an {prefix}" if found in _KNOWN else f"this is no {prefix}")
    octets = bech32.convertbits(words, 5, 8, False)
    if octets is None or (length is not None and len(octets) != length):
        raise ValueError(f"this {prefix} has the wrong length")
    return bytes(octets)


_KNOWN: Final = frozenset({"npub", "nsec", "note", "nprofile", "nevent", "naddr", "ncryptsec"})


def _entry(payload: bytes, what: str) -> bytes:
    """The key in an nprofile, or the id in an nevent: the first entry of type 0 (NIP-19)."""
    value = next(_entries(payload, what, 0), None)
    if value is None:
        raise ValueError(f"this {what} contains no key")
    if len(value) != 32:
        raise ValueError(f"the key in this {what} has the wrong length")
    return value


def _entries(payload: bytes, what: str, wanted: int) -> Iterator[bytes]:
    """The values of all entries of one type (NIP-19)."""
    at = 0
    while at + 2 <= len(payload):
        kind = payload[at]
        size = payload[at + 1]
        value = payload[at + 2 : at + 2 + size]
        if len(value) != size:
            raise ValueError(f"this {what} is truncated")
        if kind == wanted:
            yield value
        at += 2 + size


def _on_curve(raw: bytes) -> PublicKey:
    try:
        coincurve.PublicKeyXOnly(raw)
    except ValueError:
        raise ValueError("these 32 bytes are not a public key of this curve") from None
    return PublicKey(raw.hex())
