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
    for number in (0, 11):
        with pytest.raises(ValueError, match="1 to 10 filters"):
            wire.request([{}] * number)
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
        (["EOSE", sub, "more"], Eose(sub)),
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


NO_FRAMES: list[str | bytes] = [
    "",
    "x",
    "{}",
    "[]",
    "null",
    "5",
    '"EVENT"',
    "[1]",
    '["WHAT","x"]',
    "[" * 100_000,
    b"\x00\xff",
]
NO_EVENTS = ['["EVENT"]', '["EVENT","1.1"]', '["EVENT","1.1",5]', '["EVENT",5,{}]']
NO_OKS = ['["OK"]', '["OK","1",true,""]', '["OK",null,true,""]', '["OK",' + "9" * 5000 + "]"]
NO_OKS += [f'["OK","{"1" * 64}"{rest}]' for rest in ("", ',"true"', ',1,""')] + [f'["OK","{"y" * 1_000_000}",false,""]']
NO_ENDS = [
    '["EOSE"]',
    '["EOSE",{}]',
    '["CLOSED"]',
    '["CLOSED",[]]',
    '["AUTH"]',
    '["AUTH",{}]',
    f'["AUTH","{"x" * 1025}"]',
]


@pytest.mark.parametrize("frame", [*NO_FRAMES, *NO_EVENTS, *NO_OKS, *NO_ENDS])
def test_what_is_no_frame_is_counted_and_dropped(frame: str | bytes) -> None:
    wire, _ = opened()
    assert wire.receive(frame) is None
    assert wire.dropped == {"malformed": 1}


@pytest.mark.parametrize("by_relay", [False, True])
def test_frames_for_unknown_subscriptions_are_counted_and_dropped(by_relay: bool) -> None:
    wire, sub = opened()
    if by_relay:
        assert wire.receive(json.dumps(["CLOSED", sub, "error: gone"])) == Closed(sub, "error: gone")
    else:
        assert wire.close(sub) is not None
    for frame in (["EVENT", sub, EVENT], ["EOSE", sub], ["CLOSED", sub, ""], ["EVENT", "other", EVENT]):
        assert wire.receive(json.dumps(frame)) is None
    assert wire.dropped == {"unknown_subscription": 4}
    assert wire.close(sub) is None


MATCHING: list[dict[str, Any]] = [
    {},
    {"kinds": [1, 2], "authors": ["a" * 64], "ids": ["1" * 64]},
    {"#p": ["b" * 64, "c" * 64]},
    {"#p": ["b" * 64], "#e": ["c" * 64]},
    {"since": 100, "until": 100},
    {"limit": 0},
]
OTHERS: list[dict[str, Any]] = [
    *({"kinds": []}, {"kinds": [2]}, {"authors": ["b" * 64]}, {"ids": ["2" * 64]}, {"since": 101}, {"until": 99}),
    *({"#p": ["c" * 64]}, {"#P": ["b" * 64]}, {"#p": ["b" * 64], "#e": ["d" * 64]}, {"#t": [""]}),
]


@pytest.mark.parametrize("wanted", [*MATCHING, *OTHERS])
def test_an_event_must_match_a_filter_of_its_subscription(wanted: dict[str, Any]) -> None:
    wire, sub = opened({"kinds": [9]}, wanted)  # one is enough
    fits = wanted in MATCHING
    assert (wire.receive(json.dumps(["EVENT", sub, EVENT])) is not None) is fits
    assert wire.dropped == ({} if fits else {"unmatched": 1})


@pytest.mark.parametrize(
    ("kind", "tags", "fits"),
    [
        (7, [["e", "d" * 64]], True),
        (7, [["e", "d" * 64], ["h", "kitchen"]], True),
        (7, [["e", "d" * 64], ["h", "garden"]], False),
        (7, [["e", "d" * 64], ["h"]], False),
        (9, [["e", "d" * 64]], False),
    ],
)
def test_of_what_names_no_room_only_a_reaction_is_taken_for_one(kind: int, tags: list[list[str]], fits: bool) -> None:
    wire, sub = opened({"kinds": [7, 9], "#h": ["kitchen"]})
    event = EVENT | {"kind": kind, "tags": tags}
    assert (wire.receive(json.dumps(["EVENT", sub, event])) is not None) is fits


MISSHAPEN: dict[str, list[Any]] = {
    "created_at": ["x", None, float("nan"), True],
    "tags": [5, [5], [[["p"], ["b"]]], None],
    "kind": [[]],
    "pubkey": [{}],
    "id": [[]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in MISSHAPEN.items() for value in values])
def test_shapes_no_event_has_match_nothing_and_raise_nothing(name: str, value: object) -> None:
    wire, sub = opened({"kinds": [1], "authors": ["a" * 64], "ids": ["1" * 64], "#p": ["b" * 64], "since": 5})
    assert wire.receive(json.dumps(["EVENT", sub, EVENT | {name: value}])) is None
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
    kinds = [1]
    filters = [{"kinds": kinds, "#e": [str(n)]} for n in range(23)]
    groups = lay_out(filters)
    assert [len(group) for group in groups] == [10, 10, 3]
    assert [wanted for group in groups for wanted in group] == filters
    kinds.append(2)
    assert groups[0][0]["kinds"] == [1], "it does not change with what it was made from"


def test_direct_messages_have_reqs_of_their_own() -> None:
    """Some relays withhold them without a word from a REQ that asks for anything else."""
    assert lay_out([{"kinds": [1, 4, 1059, 7], "#p": ["x"]}, {"authors": ["y"]}]) == (
        ({"kinds": [1, 7], "#p": ["x"]}, {"authors": ["y"]}),
        ({"kinds": [4, 1059], "#p": ["x"]},),
    )
    assert lay_out([{"kinds": [1059]}]) == (({"kinds": [1059]},),)


def test_a_filter_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        lay_out([{"authors": {"a"}}])
