"""The frame machine: what relays may send, what is dropped, what is kept apart."""

import json
from typing import Any

import pytest

from tenex.nostr.filters import lay_out
from tenex.nostr.wire import AuthChallenge, Closed, Eose, EventFrame, Ok, RelayNotice, Wire

EVENT: dict[str, Any] = {
    "id": "1" * 64,
    "pubkey": "a" * 64,
    "created_at": 100,
    "kind": 1,
    "tags": [["p", "b" * 64, "wss://x"], ["e", "c" * 64], ["t"], []],
    "content": "",
    "sig": "",
}


def opened(*filters: dict[str, Any]) -> tuple[Wire, str]:
    wire = Wire("s")
    sub_id, _ = wire.request(filters or ({"kinds": [1]},))
    return wire, sub_id


def test_every_req_has_an_id_never_used_before() -> None:
    wire = Wire("7.")
    ids = []
    for _ in range(30):
        sub_id, frame = wire.request([{"kinds": [1]}])
        assert json.loads(frame) == ["REQ", sub_id, {"kinds": [1]}]
        assert json.loads(wire.close(sub_id) or "") == ["CLOSE", sub_id]
        ids.append(sub_id)
    assert len(set(ids)) == 30
    assert all(sub_id.startswith("7.") and len(sub_id) <= 64 for sub_id in ids)


def test_no_more_than_ten_filters_and_ten_reqs() -> None:
    wire = Wire()
    none: list[dict[str, Any]] = []
    many: list[dict[str, Any]] = [{}] * 11
    for bad in (none, many):
        with pytest.raises(ValueError, match="1 to 10 filters"):
            wire.request(bad)
    for _ in range(10):
        last, _ = wire.request([{}] * 10)
    with pytest.raises(ValueError, match="close one first"):
        wire.request([{}])
    wire.close(last)
    wire.request([{}])


def test_each_frame_becomes_its_value() -> None:
    wire, sub = opened()
    for frame, value in [
        (["EVENT", sub, EVENT], EventFrame(sub, EVENT)),
        (["EOSE", sub], Eose(sub)),
        (["EOSE", sub, "more"], Eose(sub, more=True)),
        (["OK", "1" * 64, True, "fine"], Ok("1" * 64, True, "fine")),
        (["OK", "1" * 64, False], Ok("1" * 64, False, "")),
        (["OK", "1" * 64, False, None], Ok("1" * 64, False, "")),
        (["NOTICE", "careful"], RelayNotice("careful")),
        (["NOTICE"], RelayNotice("")),
        (["AUTH", "abc"], AuthChallenge("abc")),
        (["CLOSED", sub, "error: x"], Closed(sub, "error: x")),
    ]:
        assert wire.receive(json.dumps(frame)) == value
    assert not wire.dropped


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "x",
        "{}",
        "[]",
        "null",
        "5",
        '"EVENT"',
        "[1]",
        '["EVENT"]',
        '["EVENT","1.1"]',
        '["EVENT","1.1",5]',
        '["EVENT",5,{}]',
        '["OK"]',
        '["OK","1",true,""]',
        f'["OK","{"1" * 64}"]',
        f'["OK","{"1" * 64}","true"]',
        '["OK",null,true,""]',
        f'["OK","{"1" * 64}",1,""]',
        '["EOSE"]',
        '["EOSE",{}]',
        '["CLOSED"]',
        '["CLOSED",[]]',
        '["AUTH"]',
        '["AUTH",{}]',
        '["WHAT","x"]',
        f'["AUTH","{"x" * 1025}"]',
        f'["OK","{"y" * 1_000_000}",false,""]',
        "[" * 100_000,
        b"\x00\xff",
        '["OK",' + "9" * 5000 + "]",
    ],
)
def test_what_is_no_frame_is_counted_and_dropped(frame: str | bytes) -> None:
    wire, _ = opened()
    assert wire.receive(frame) is None
    assert wire.dropped == {"malformed": 1}


def test_frames_for_unknown_subscriptions_are_counted_and_dropped() -> None:
    wire, sub = opened()
    wire.close(sub)
    for frame in (["EVENT", sub, EVENT], ["EOSE", sub], ["CLOSED", sub, ""], ["EVENT", "other", EVENT]):
        assert wire.receive(json.dumps(frame)) is None
    assert wire.dropped == {"unknown_subscription": 4}


def test_a_closed_subscription_takes_nothing_more() -> None:
    wire, sub = opened()
    assert wire.receive(json.dumps(["CLOSED", sub, "error: gone"])) == Closed(sub, "error: gone")
    assert wire.receive(json.dumps(["EVENT", sub, EVENT])) is None
    assert wire.dropped == {"unknown_subscription": 1}
    assert wire.close(sub) is None


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"kinds": [1, 2], "authors": ["a" * 64], "ids": ["1" * 64]}, True),
        ({"kinds": []}, False),
        ({"kinds": [2]}, False),
        ({"authors": ["b" * 64]}, False),
        ({"ids": ["2" * 64]}, False),
        ({"#p": ["b" * 64, "c" * 64]}, True),
        ({"#p": ["c" * 64]}, False),
        ({"#P": ["b" * 64]}, False),
        ({"#p": ["b" * 64], "#e": ["c" * 64]}, True),
        ({"#p": ["b" * 64], "#e": ["d" * 64]}, False),
        ({"#t": [""]}, False),
        ({"since": 100, "until": 100}, True),
        ({"since": 101}, False),
        ({"until": 99}, False),
        ({"limit": 0}, True),
    ],
)
def test_an_event_must_match_a_filter_of_its_subscription(wanted: dict[str, Any], fits: bool) -> None:
    wire, sub = opened(wanted)
    assert (wire.receive(json.dumps(["EVENT", sub, EVENT])) is not None) is fits
    assert wire.dropped == ({} if fits else {"unmatched": 1})


def test_one_matching_filter_is_enough() -> None:
    wire, sub = opened({"kinds": [9]}, {"kinds": [1]})
    assert wire.receive(json.dumps(["EVENT", sub, EVENT])) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"created_at": "x"},
        {"created_at": None},
        {"created_at": float("nan")},
        {"created_at": True},
        {"tags": 5},
        {"tags": [5]},
        {"tags": [[["p"], ["b"]]]},
        {"tags": None},
        {"kind": []},
        {"pubkey": {}},
        {"id": []},
    ],
)
def test_shapes_no_event_has_match_nothing_and_raise_nothing(changes: dict[str, Any]) -> None:
    wire, sub = opened({"kinds": [1], "authors": ["a" * 64], "ids": ["1" * 64], "#p": ["b" * 64], "since": 5})
    assert wire.receive(json.dumps(["EVENT", sub, EVENT | changes])) is None
    assert wire.dropped == {"unmatched": 1}


@pytest.mark.parametrize("changes", [{"id": "x" * 1_000_000}, {"id": "F" * 64}, {"created_at": 10**4000}])
def test_an_event_with_malformed_fields_is_dropped(changes: dict[str, Any]) -> None:
    wire, sub = opened({"kinds": [1]})
    assert wire.receive(json.dumps(["EVENT", sub, EVENT | changes])) is None
    assert wire.dropped == {"malformed": 1}


def test_spaces_around_a_frame_are_no_fault() -> None:
    wire = Wire()
    assert wire.receive(' \r\n["NOTICE","hello"] \n') == RelayNotice("hello")
    assert wire.receive('["NOTICE","hello"]\n') == RelayNotice("hello")
    assert wire.receive('["NOTICE","hello"] x') is None
    assert wire.receive('\ufeff["NOTICE","hello"]') is None
    assert wire.dropped["malformed"] == 2


def test_filters_share_a_req_until_it_is_full() -> None:
    filters = [{"kinds": [1], "#e": [str(n)]} for n in range(23)]
    groups = lay_out(filters)
    assert [len(group) for group in groups] == [10, 10, 3]
    assert [wanted for group in groups for wanted in group] == filters


def test_direct_messages_have_reqs_of_their_own() -> None:
    """Some relays withhold them without a word from a REQ that asks for anything else."""
    assert lay_out([{"kinds": [1, 4, 1059, 7], "#p": ["x"]}, {"authors": ["y"]}]) == (
        ({"kinds": [1, 7], "#p": ["x"]}, {"authors": ["y"]}),
        ({"kinds": [4, 1059], "#p": ["x"]},),
    )
    assert lay_out([{"kinds": [1059]}]) == (({"kinds": [1059]},),)


def test_the_layout_does_not_change_with_what_it_was_made_from() -> None:
    kinds = [1]
    groups = lay_out([{"kinds": kinds}])
    kinds.append(2)
    assert groups == (({"kinds": [1]},),)


def test_a_filter_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        lay_out([{"authors": {"a"}}])
