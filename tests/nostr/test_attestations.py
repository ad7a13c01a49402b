"""Owner attestations, with the vectors of NIP-OA (docs/nips/NIP-OA.md of github.com/block/buzz)."""

import pytest

from tenex.core.ids import PublicKey
from tenex.nostr.attestations import attest, holds_for, parse_attestation
from tenex.nostr.keys import SecretKey
from tenex.nostr.profiles import Identity, profile_events

OWNER = SecretKey((1).to_bytes(32, "big"))
AGENT = SecretKey((2).to_bytes(32, "big")).public
CONDITIONS = "kind=1&created_at<1713957000"
SIGNATURE = (
    "8b7df2575caf0a108374f8471722b233c53f9ff827a8b0f91861966c3b9dd5cb"
    "2e189eae9f49d72187674c2f5bd244145e10ff86c9f257ffe65a1ee5f108b369"
)
VECTOR = ["auth", OWNER.public, CONDITIONS, SIGNATURE]


def test_the_vector_is_good_and_holds_for_its_event() -> None:
    assert AGENT == "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
    tag = parse_attestation(VECTOR, AGENT)
    assert tag == tuple(VECTOR)
    assert holds_for(tag, 1, 1713956400)
    assert not holds_for(tag, 1, 1713957000)
    assert not holds_for(tag, 9, 1713956400)


@pytest.mark.parametrize(
    "elements",
    [
        VECTOR[:3],
        [*VECTOR, ""],
        ["auth", OWNER.public, "kind=1&", SIGNATURE],
        ["auth", OWNER.public, "kind=01", SIGNATURE],
        ["auth", OWNER.public, "&kind=1", SIGNATURE],
        ["auth", OWNER.public, "kind=65536", SIGNATURE],
        ["auth", OWNER.public, "created_at<4294967296", SIGNATURE],
        ["auth", OWNER.public, "kind = 1", SIGNATURE],
        ["auth", AGENT, CONDITIONS, SIGNATURE],
        ["auth", OWNER.public.upper(), CONDITIONS, SIGNATURE],
        ["auth", OWNER.public, CONDITIONS, SIGNATURE.upper()],
        ["auth", OWNER.public, CONDITIONS, SIGNATURE[:-1] + "8"],
        ["auth", OWNER.public, "", SIGNATURE],
        ["auth", "0" * 64, CONDITIONS, SIGNATURE],
        ["auth", OWNER.public, 1, SIGNATURE],
        [],
    ],
)
def test_what_the_owner_has_not_signed_for_the_key_is_refused(elements: list[object]) -> None:
    with pytest.raises(ValueError, match=r"attest|conditions|signature"):
        parse_attestation(elements, AGENT)


def test_the_vector_is_not_for_another_key() -> None:
    with pytest.raises(ValueError, match="not that owner's for this key"):
        parse_attestation(VECTOR, SecretKey.generate().public)


def test_an_attestation_made_here_has_no_conditions_and_is_not_for_the_owner() -> None:
    tag = attest(OWNER, AGENT)
    assert tag[2] == ""
    assert holds_for(tag, 0, 1)
    with pytest.raises(ValueError, match="cannot attest itself"):
        attest(OWNER, OWNER.public)


def test_a_profile_has_one_tag_of_an_owner_and_is_published_again_once() -> None:
    relays = ["wss://one.example"]
    bare = profile_events([Identity(pubkey=AGENT, name="Agent")], relays, 1000, {})
    attested = Identity(pubkey=AGENT, name="Agent", attestation=attest(OWNER, AGENT))
    known = {(event.pubkey, event.kind): event for event in bare}
    (profile,) = profile_events([attested], relays, 2000, known)
    assert [tag for tag in profile.tags if tag[0] == "auth"] == [attested.attestation]
    known[profile.pubkey, 0] = profile
    assert profile_events([attested], relays, 3000, known) == []
    newer = Identity(pubkey=AGENT, name="Agent", attestation=attest(SecretKey.generate(), PublicKey(AGENT)))
    (again,) = profile_events([newer], relays, 4000, known)
    assert [tag for tag in again.tags if tag[0] == "auth"] == [newer.attestation]


def test_a_tag_whose_conditions_exclude_profiles_is_not_in_one() -> None:
    identity = Identity(pubkey=AGENT, name="Agent", attestation=parse_attestation(VECTOR, AGENT))
    assert all(tag[0] != "auth" for event in profile_events([identity], [], 1000, {}) for tag in event.tags)
