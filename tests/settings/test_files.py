"""Where files for people may be uploaded: over TLS, or on this machine."""

import pytest
from pydantic import ValidationError

from tenex.settings.sections import Files


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://blossom.example.com/", "https://blossom.example.com"),
        ("https://192.168.1.2:8443", "https://192.168.1.2:8443"),
        ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("http://localhost:3000/", "http://localhost:3000"),
        ("http://[::1]:3000", "http://[::1]:3000"),
    ],
)
def test_a_server_is_at_https_or_on_this_machine(given: str, used: str) -> None:
    assert Files(servers=[given]).servers == [used]


def test_servers_are_as_many_as_one_call_has_time_for() -> None:
    urls = [f"https://{name}.example" for name in "abcd"]
    assert len(Files(servers=urls[:3]).servers) == 3
    with pytest.raises(ValidationError, match="at most 3 items"):
        Files(servers=urls)


@pytest.mark.parametrize(
    "given",
    ["http://blossom.example.com", "http://192.168.1.2", "https://user:word@b.example", "https://b.example/?a=1", "b"],
)
def test_another_address_is_none(given: str) -> None:
    with pytest.raises(ValidationError, match="must be"):
        Files(servers=[given])
