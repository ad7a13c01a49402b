"""Keys are read strictly, kept in private files, and never shown."""

import pickle
from pathlib import Path

import nostr_sdk as sdk
import pytest
from pynostr import bech32
from pynostr.key import PrivateKey
from pynostr.utils import nprofile_encode

from tenex.core.errors import ConfigurationError
from tenex.core.ids import PublicKey
from tenex.core.text.names import without_mentions
from tenex.nostr.keys import (
    MAX_PROFILES,
    KeyRing,
    RemoteKey,
    SecretKey,
    find_mentions,
    nprofile,
    npub,
    parse_event_address,
    parse_project_address,
    parse_public_key,
)

from .kit import relays_first

SECRET = "67dea2ed018072d675f5415ecfaed7d2597555e202d85b3d65ea4e58d2d92ffa"  # NIP-19's own example
NSEC = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
PUBKEY = PublicKey("7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e")
NPUB = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"
NPROFILE = (
    "nprofile1qqsrhuxx8l9ex335q7he0f09aej04zpazpl0ne2cgukyawd24mayt8gpp4mhx"
    "ue69uhhytnc9e3k7mgpz4mhxue69uhkg6nzv9ejuumpv34kytnrdaksjlyr9p"
)
PROFILED = PublicKey("3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d")


def test_an_nsec_is_read_and_written() -> None:
    key = SecretKey.from_nsec(NSEC)
    assert key == SecretKey(bytes.fromhex(SECRET))
    assert key.nsec == NSEC
    assert key.public == PrivateKey.from_hex(SECRET).public_key.hex()
    assert key.npub == npub(key.public) == PrivateKey.from_hex(SECRET).public_key.npub


def test_a_key_does_not_show_itself() -> None:
    key = SecretKey.from_nsec(NSEC)
    for shown in (repr(key), str(key), f"{key}"):
        assert "nsec" not in shown
        assert SECRET not in shown
    with pytest.raises(TypeError):
        pickle.dumps(key)


@pytest.mark.parametrize(
    "bad", ["", "nsec1", NSEC[:-1], NSEC[:-1] + "q", NPUB, "00" * 32, "ff" * 32, SECRET[:-2], "zz" * 32]
)
def test_what_is_no_secret_key_is_refused_without_repeating_it(bad: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        SecretKey.from_nsec(bad)
    assert not bad or bad not in str(refused.value)


@pytest.mark.parametrize("bad", [b"", bytes(32), b"\xff" * 32, b"\x01" * 31, b"\x01" * 33])
def test_bytes_that_are_no_key_of_the_curve_are_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match=r"secret key"):
        SecretKey(bad)
    text = bech32.bech32_encode("nsec", bech32.convertbits(bad, 8, 5), bech32.Encoding.BECH32)
    with pytest.raises(ValueError, match="secret key" if len(bad) == 32 else "length"):
        SecretKey.from_nsec(text)


@pytest.mark.parametrize(
    "text",
    [
        *(NPUB, f"nostr:{NPUB}", f"NOSTR:{NPUB.upper()}", NPUB.upper(), PUBKEY, PUBKEY.upper(), f" {NPUB}\n"),
        *(f"\ufeff{NPUB}\r\n", f"\xa0{PUBKEY}\u200b", f"nostr:{NPUB[:9]}\u00ad{NPUB[9:]}"),
    ],
)
def test_a_public_key_is_read_in_every_spelling(text: str) -> None:
    assert parse_public_key(text) == PUBKEY


def test_a_profile_of_another_library_is_read() -> None:
    assert parse_public_key(NPROFILE) == PROFILED
    assert parse_public_key(nprofile_encode(PUBKEY, ["wss://relay.example"])) == PUBKEY


def test_a_secret_given_as_public_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="secret") as refused:
        parse_public_key(NSEC)
    assert NSEC[5:20] not in str(refused.value)


NO_PUBLIC_KEYS = ["", "npub", "alice", NPUB[:-1] + "q", NPUB[:40], "f" * 64, "a" * 63, "note1" + "q" * 58]


@pytest.mark.parametrize("bad", [*NO_PUBLIC_KEYS, "nprofile1qqqq", NPROFILE[:-8]])
def test_what_is_no_public_key_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"key|npub|nprofile"):
        parse_public_key(bad)


def test_mentions_are_found_once_each_and_in_order() -> None:
    text = f"(nostr:{NPROFILE}), ask {NPUB}, again nostr:{NPUB}! not x{NPUB} nor {NPUB}x nor {NPUB[:-1]}q nor {NSEC}"
    assert find_mentions(text, {PUBKEY, PROFILED, SecretKey.generate().public}) == (PROFILED, PUBKEY)
    assert find_mentions(text, [PUBKEY]) == (PUBKEY,)


@pytest.mark.parametrize(
    "text", [NPUB.upper(), f"nostr:{NPUB.upper()},", relays_first(PUBKEY), relays_first(PUBKEY).upper()]
)
def test_a_mention_is_found_in_upper_case_and_with_its_relays_first(text: str) -> None:
    assert find_mentions(text, [PUBKEY]) == (PUBKEY,)
    assert find_mentions(f"`{text}`\n> {text}", [PUBKEY]) == ()
    assert parse_public_key(text.rstrip(",")) == PUBKEY
    assert without_mentions(f"{text} hello", PUBKEY, "Team") == "hello"


def test_only_the_first_profiles_of_a_text_are_decoded() -> None:
    """Decoding one takes up to a millisecond, and a stranger may write thousands."""
    ours = nprofile_encode(PUBKEY, ["wss://relay.example"])
    assert find_mentions(f"{NPROFILE} " * (MAX_PROFILES - 1) + ours, {PUBKEY}) == (PUBKEY,)
    assert find_mentions(f"{NPROFILE} " * MAX_PROFILES + ours, {PUBKEY}) == ()


def test_a_ring_makes_a_key_once_in_a_private_file(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    assert ring.names() == ()
    key = ring.get_or_create("project")
    path = tmp_path / "keys" / "project.nsec"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert ring.get_or_create("project") == ring.get("project") == KeyRing(tmp_path / "keys").get("project") == key
    ring.get_or_create("executor")
    assert ring.names() == ("executor", "project")
    assert sorted(file.name for file in path.parent.iterdir()) == ["executor.nsec", "project.nsec"]


@pytest.mark.parametrize("text", ["\ufeff{}\r\n", "{}\xa0\n", "\u200b{}\u2028", "\n{}\r", "{}"])
def test_a_key_file_is_read_without_what_editors_add(text: str, tmp_path: Path) -> None:
    path = tmp_path / "project.nsec"
    path.write_bytes(text.format(NSEC).encode())
    path.chmod(0o600)
    assert KeyRing(tmp_path).get("project").nsec == NSEC


def test_a_foreign_key_is_kept_but_never_replaces_another(tmp_path: Path) -> None:
    ring, key = KeyRing(tmp_path), SecretKey.generate()
    ring.add("owner", key)
    ring.add("owner", key)
    with pytest.raises(ConfigurationError, match="another key"):
        ring.add("owner", SecretKey.generate())
    assert ring.get("owner") == key


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (b"", 0o600, r"project.nsec: holds no nsec1"),
        (NPUB.encode(), 0o600, r"project.nsec: holds no nsec1"),
        (b"\xff\xfe", 0o600, r"project.nsec: holds no nsec1"),
        (NSEC[:-1].encode(), 0o600, r"project.nsec: holds no nsec1"),
        (NSEC.encode("utf-16"), 0o600, r"project.nsec: holds no nsec1"),
        (NSEC.encode(), 0o640, r"chmod 600 .*project.nsec"),
    ],
)
def test_an_unusable_key_file_is_refused_with_the_remedy_and_left_as_it_is(
    content: bytes, mode: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "project.nsec"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=message):
        KeyRing(tmp_path).get_or_create("project")
    assert path.read_bytes() == content


def test_a_missing_or_unreadable_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ghost.nsec.*tenex init"):
        KeyRing(tmp_path).get("ghost")
    (tmp_path / "project.nsec").mkdir()
    with pytest.raises(ConfigurationError, match=r"project.nsec: cannot be read"):
        KeyRing(tmp_path).get("project")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x.nsec", "a b"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a key"):
        KeyRing(tmp_path).get_or_create(name)


def test_a_profile_of_ours_is_read_by_another_library_and_keeps_its_relays() -> None:
    relays = ["wss://relay.example", "ws://127.0.0.1:7447"]
    text = nprofile(PUBKEY, relays)
    assert parse_public_key(text) == PUBKEY
    profile = sdk.Nip19Profile.from_bech32(text)
    assert profile.public_key().to_hex() == PUBKEY
    assert [str(relay).rstrip("/") for relay in profile.relays()] == relays
    assert nprofile(PUBKEY, [f"wss://{'a' * 260}.example"]) == nprofile(PUBKEY, []), "an entry has at most 255 bytes"


def test_a_replaced_key_is_kept_in_a_private_file_of_its_own(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    first, second, third = (SecretKey(bytes([number]) * 32) for number in (1, 2, 3))
    assert ring.replace("owner", first) is None
    kept = [ring.replace("owner", key) for key in (second, third)]
    assert ring.get("owner") == third
    assert ring.names() == ("owner",)
    assert [path and path.read_text() for path in kept] == [f"{first.nsec}\n", f"{second.nsec}\n"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "keys").iterdir()} == {0o600}


def test_a_key_that_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(tmp_path / "keys")
    first = ring.get_or_create("owner")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(ConfigurationError, match="No space left"):
        ring.replace("owner", SecretKey.generate())
    assert ring.get("owner") == first
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["owner.nsec"]


def remote() -> RemoteKey:
    signer = SecretKey(bytes([9]) * 32)
    relays = ("wss://relay.example", "ws://127.0.0.1:7447")
    return RemoteKey(public=PUBKEY, signer=signer.public, relays=relays, client=SecretKey.generate())


def test_a_key_at_a_remote_signer_takes_the_place_of_one_here_and_back(tmp_path: Path) -> None:
    """No file is lost, and the secret of no key is made in passing while the signer holds it."""
    ring = KeyRing(tmp_path / "keys")
    first = ring.get_or_create("project")
    key = remote()
    kept = ring.replace("project", key)
    assert kept is not None
    assert SecretKey.from_nsec(kept.read_text()) == first
    assert ring.names() == ("project",)
    assert ring.read("project") == ring.read_or_create("project") == key
    assert ring.file("project").stat().st_mode & 0o777 == 0o600
    for refused in (ring.get, ring.get_or_create):
        with pytest.raises(ConfigurationError, match="a remote signer holds the key of project"):
            refused("project")
    with pytest.raises(ConfigurationError, match="there is another key of that name"):
        ring.add("project", first)
    again = ring.replace("project", first)
    assert again is not None
    assert again.name == "project.bunker.old-1"
    assert ring.read("project") == ring.get("project") == first


def test_a_key_that_is_here_and_at_a_signer_is_a_fault(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys")
    ring.replace("project", remote())
    (tmp_path / "keys" / "project.nsec").write_text(NSEC)
    with pytest.raises(ConfigurationError, match=r"project\.nsec too; move away the one"):
        ring.read("project")


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """A folder with the key `project`, as a service manager gives it: of another mode than ours may have."""
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "project.nsec").write_text(f"{NSEC}\n")
    (folder / "project.nsec").chmod(0o440)
    (folder / "openai.api-key").write_text("sk")
    return folder


def test_a_credential_gives_a_key_and_what_is_missing_is_made_in_the_folder(tmp_path: Path, credentials: Path) -> None:
    ring = KeyRing(tmp_path / "keys", credentials)
    assert ring.names() == ("project",)
    assert ring.get("project").nsec == ring.get_or_create("project").nsec == NSEC
    assert ring.file("project") == ring.given_file("project") == credentials / "project.nsec"
    ring.add("project", SecretKey.from_nsec(NSEC))
    assert not ring.folder.exists()
    ring.read_or_create("executor")
    assert ring.names() == ("executor", "project")
    assert [path.name for path in ring.folder.iterdir()] == ["executor.nsec"]
    assert ring.given_file("executor") is None


def test_a_key_and_a_credential_of_one_name_must_be_the_same(tmp_path: Path, credentials: Path) -> None:
    ring = KeyRing(tmp_path / "keys", credentials)
    KeyRing(tmp_path / "keys").add("project", SecretKey.from_nsec(NSEC))
    assert ring.read("project") == SecretKey.from_nsec(NSEC)
    (credentials / "project.nsec").chmod(0o600)
    (credentials / "project.nsec").write_text(SecretKey.generate().nsec)
    for reading in (ring.read, ring.get, ring.read_or_create, ring.get_or_create):
        with pytest.raises(ConfigurationError, match="another key of project") as refused:
            reading("project")
        assert str(ring.folder / "project.nsec") in str(refused.value)
        assert str(credentials / "project.nsec") in str(refused.value)
    (credentials / "project.nsec").rename(credentials / "project.bunker")
    (credentials / "project.bunker").write_text(remote().to_file())
    with pytest.raises(ConfigurationError, match=r"another key of project in .*project\.bunker too"):
        ring.read("project")


def test_a_credential_is_not_replaced(tmp_path: Path, credentials: Path) -> None:
    ring = KeyRing(tmp_path / "keys", credentials)
    for key in (SecretKey.generate(), remote()):
        with pytest.raises(ConfigurationError, match=r"credentials/project\.nsec: the key of project comes from there"):
            ring.replace("project", key)
    assert not ring.folder.exists()
    assert ring.get("project").nsec == NSEC


def test_no_key_is_made_while_it_is_not_known_whether_there_is_one(tmp_path: Path) -> None:
    around = tmp_path / "around"
    around.symlink_to(around)  # as a folder that may not be entered, which root may
    ring = KeyRing(tmp_path / "keys", around)
    with pytest.raises(ConfigurationError, match=r"project\.bunker: cannot be read"):
        ring.get_or_create("project")
    assert not ring.folder.exists()


def test_the_file_of_a_remote_key_is_read_back_and_repeated_nowhere() -> None:
    key = remote()
    assert RemoteKey.from_file(key.to_file()) == key
    assert "nsec" not in repr(key)
    with pytest.raises(ValueError, match="describes no remote signer") as error:
        RemoteKey.from_file(key.to_file().replace("wss://", "https://"))
    assert key.client.nsec not in str(error.value)


def coordinate(kind: int, *relays: str, name: str = "demo") -> str:
    """An naddr as nostr-sdk writes it."""
    where = sdk.Coordinate(sdk.Kind(kind), sdk.PublicKey.parse(PUBKEY), name)
    return str(sdk.Nip19Coordinate(where, [sdk.RelayUrl.parse(url) for url in relays]).to_bech32())


def test_addresses_of_events_of_another_library_are_read() -> None:
    found = parse_event_address(f"nostr:{coordinate(4199, 'wss://a.example', 'wss://b.example')}")
    assert (found.id, found.author, found.kind, found.identifier) == (None, PUBKEY, 4199, "demo")
    assert found.relays == ("wss://a.example", "wss://b.example")
    event = sdk.EventId.parse("ab" * 32)
    relay = sdk.RelayUrl.parse("wss://a.example")
    named = parse_event_address(
        sdk.Nip19Event(event, sdk.PublicKey.parse(PUBKEY), sdk.Kind(4199), [relay]).to_bech32().upper()
    )
    assert (named.id, named.author, named.kind, named.relays) == ("ab" * 32, PUBKEY, 4199, ("wss://a.example",))
    assert parse_event_address(event.to_bech32()).id == "ab" * 32
    project = f"31933:{PUBKEY}:demo"
    assert parse_project_address(coordinate(31933)) == parse_project_address(project) == project


def cut_off(kind: str, *octets: int) -> str:
    return str(bech32.bech32_encode(kind, bech32.convertbits(bytes(octets), 8, 5), bech32.Encoding.BECH32))


@pytest.mark.parametrize(
    "bad",
    [
        *("", "ab" * 32, NPUB, NSEC, NPROFILE, "naddr1", "note1qqqq", f"naddr1{'q' * 3_000}"),
        cut_off("nevent", 0, 32, 1),
        cut_off("nevent", 1, 1, 97),
        cut_off("naddr", 0, 1, 97),
        cut_off("naddr", 0, 1, 97, 3, 4, 0, 0, 0, 1, 2, 2, 1, 1),
    ],
)
def test_what_is_no_address_of_an_event_is_refused_and_not_repeated(bad: str) -> None:
    for parse in (parse_event_address, parse_project_address):
        with pytest.raises(
            ValueError, match=r"address|mistyped|wrong length|truncated|contains no|names no|secret key"
        ) as refused:
            parse(bad)
        assert len(bad) < 8 or bad not in str(refused.value)


@pytest.mark.parametrize("bad", [f"31933:{PUBKEY}:", f"1:{PUBKEY}:demo", f"31933:{'ff' * 32}:demo"])
def test_a_project_is_an_event_of_its_kind(bad: str) -> None:
    for text in (bad, coordinate(4199)):
        with pytest.raises(ValueError, match=r"kind 31933|address|not a public key"):
            parse_project_address(text)
