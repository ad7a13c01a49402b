"""Records as lines, and what a file that does not end well still proves."""

import json
import re
from types import MappingProxyType
from typing import Any, Final
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenex.core.errors import InternalError
from tenex.core.ids import ConversationId, Millis, RunId
from tenex.core.messages import CallRequest, ModelStep, Note
from tenex.core.phases import Phase
from tenex.core.records import (
    RECORDS,
    CommandGiven,
    ModelResponded,
    Record,
    RouteRequested,
    RunStarted,
    WaiverRequested,
)
from tenex.core.state.conversation import State
from tenex.core.state.snapshot import StateSnapshot
from tenex.store.format import CONVERSATION, Codec

from .kit import asked, closed, decisions_of, integers, objects_of, started

RUN: Final = {"run": "r", "agent": "a", "agentName": "A", "pubkey": "p", "warnAt": 1, "closeAt": 2}
GIVEN: Final[dict[str, Any]] = {
    "seq": 1,
    "at": Millis(1),
    "run": "r",
    "agent": "a",
    "agent_name": "A",
    "pubkey": "p",
    "warn_at": 1,
    "close_at": 2,
}


def line(**changes: object) -> bytes:
    """A line with a right crc, whatever it holds; None removes a field."""
    envelope = {"v": 1, "seq": 1, "remaining": 0, "at": 1, "type": "ProcessRestarted", "data": {}, **changes}
    return sealed(json.dumps({k: v for k, v in envelope.items() if v is not None}, separators=(",", ":")).encode()[:-1])


def sealed(body: bytes) -> bytes:
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


@pytest.mark.parametrize("kind", RECORDS.values(), ids=RECORDS)
@given(data=st.data())
@settings(max_examples=40)
def test_every_kind_of_record_comes_back_as_it_was(kind: type[Record], data: st.DataObject) -> None:
    record = data.draw(objects_of(kind, seq=1, at=data.draw(integers)))
    encoded = CONVERSATION.encode_decisions([[record]])
    assert encoded.count(b"\n") == 1
    assert CONVERSATION.decode_lines(encoded) == ([record], len(encoded), None)


def test_a_line_has_the_documented_form() -> None:
    encoded = CONVERSATION.encode_decisions([[asked(1), asked(2)]])
    first = b'{"v":1,"seq":1,"remaining":1,"at":1,"type":"RouteRequested","data":{"attempt":1}'
    assert encoded.startswith(sealed(first))
    encoded = CONVERSATION.encode_decisions(decisions_of(3, 1, 2))
    assert [json.loads(text)["remaining"] for text in encoded.splitlines()] == [2, 1, 0, 0, 1, 0]
    assert CONVERSATION.decode_lines(b"") == ([], 0, None)


def test_text_is_readable_in_the_file_and_a_lone_surrogate_is_escaped() -> None:
    assert "Grüße 日本 \u2028".encode() in CONVERSATION.encode_decisions([[closed(1, "Grüße 日本 \u2028")]])
    record = closed(1, "half \ud83d of a smile, ü")
    encoded = CONVERSATION.encode_decisions([[record]])
    encoded.decode()
    assert CONVERSATION.decode_lines(encoded)[0] == [record]


def test_nan_from_a_model_does_not_end_a_conversation() -> None:
    call = CallRequest(id="c", tool="t", arguments={"x": float("nan"), "deep": MappingProxyType({"a": 1})})  # type: ignore[arg-type]
    record = ModelResponded(seq=1, at=Millis(1), run=RunId("r"), step=ModelStep(calls=(call,)))
    (back,), _, fault = CONVERSATION.decode_lines(CONVERSATION.encode_decisions([[record]]))
    assert fault is None
    assert isinstance(back, ModelResponded)
    arguments = back.step.calls[0].arguments
    assert arguments["x"] != arguments["x"]
    assert arguments["deep"] == {"a": 1}


def test_a_number_that_could_not_be_read_again_is_not_written() -> None:
    def encoded(value: object) -> bytes:
        call = CallRequest(id="c", tool="t", arguments={"x": value})  # type: ignore[arg-type]
        record = ModelResponded(seq=1, at=Millis(1), run=RunId("r"), step=ModelStep(calls=(call,)))
        return CONVERSATION.encode_decisions([[record]])

    assert CONVERSATION.decode_lines(encoded("9" * 5_000))[2] is None
    with pytest.raises(InternalError, match="cannot be stored"):
        encoded(10**4_400)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("vendor", [object(), nested(100_000)], ids=["object", "deep"])
def test_a_record_json_cannot_hold_is_a_bug_that_names_the_record(vendor: object) -> None:
    record = ModelResponded(seq=4, at=Millis(1), run=RunId("r"), step=ModelStep(vendor=vendor))
    with pytest.raises(InternalError, match="ModelResponded of seq 4 cannot be stored"):
        CONVERSATION.encode_decisions([[record]])


def test_a_field_of_the_wrong_type_is_a_bug_that_names_the_field() -> None:
    with pytest.raises(InternalError, match="`attempt` must be int"):
        CONVERSATION.encode_decisions([[RouteRequested(seq=1, at=Millis(1), attempt="1")]])  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="`seq` and `at` must be integers"):
        CONVERSATION.encode_decisions([[RouteRequested(seq=1, at=1.5, attempt=1)]])  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="not a record of this journal"):
        Codec({"CommandGiven": CommandGiven}).encode_decisions([[asked(1)]])


def test_wherever_the_last_append_breaks_off_whole_decisions_are_kept_and_no_part_of_one() -> None:
    """Every byte offset of an append of two decisions, the last with three records."""
    before = CONVERSATION.encode_decisions(decisions_of(2, 1))
    decisions = decisions_of(1, 3, first=4)
    first = CONVERSATION.encode_decisions(decisions[:1])
    data = before + CONVERSATION.encode_decisions(decisions)
    for cut in range(len(before), len(data) + 1):
        records, length, fault = CONVERSATION.decode_lines(data[:cut])
        whole = max(at for at in (len(before), len(before) + len(first), len(data)) if at <= cut)
        assert length == whole
        assert len(records) == {len(before): 3, len(before) + len(first): 4, len(data): 7}[whole]
        assert (fault is None) == (cut == whole)
        assert fault is None or fault.kind == "torn"


@pytest.mark.parametrize("filler", [b"\0" * 300, b"garbage\n\0\0\n", b"\n", b"\n\n\n", b"{}\n", b"\xff\xfe\n"])
def test_what_follows_the_last_whole_decision_and_cannot_be_read_is_a_torn_tail(filler: bytes) -> None:
    good = CONVERSATION.encode_decisions(decisions_of(2, 2))
    records, length, fault = CONVERSATION.decode_lines(good + filler)
    assert (len(records), length) == (4, len(good))
    assert fault is not None
    assert fault.kind == "torn"


def test_a_zeroed_last_page_takes_its_whole_decision_with_it() -> None:
    first = CONVERSATION.encode_decisions(decisions_of(1))
    data = bytearray(first + CONVERSATION.encode_decisions(decisions_of(3, first=2)))
    data[-200:] = bytes(200)
    records, length, fault = CONVERSATION.decode_lines(bytes(data))
    assert (len(records), length) == (1, len(first))
    assert fault is not None
    assert (fault.kind, fault.line, fault.byte) == ("torn", 2, len(first)), (
        "the first line of the decision that is lost"
    )


@given(bit=st.integers(min_value=0), data=st.data())
@settings(max_examples=200)
def test_a_flipped_bit_is_never_believed(bit: int, data: st.DataObject) -> None:
    """Before the last line it is damage, in it a torn tail; never a record that was not written."""
    decisions = decisions_of(1, 2, 1)
    good = CONVERSATION.encode_decisions(decisions)
    last = good.rindex(b"\n", 0, -1) + 1
    at = data.draw(st.integers(0, len(good) * 8 - 1))
    broken = bytearray(good)
    broken[at // 8] ^= 1 << at % 8
    records, length, fault = CONVERSATION.decode_lines(bytes(broken))
    assert records == [record for decision in decisions for record in decision][: len(records)]
    assert length == len(CONVERSATION.encode_decisions([[r] for r in records])) or len(records) == 3
    assert fault is not None
    # a newline that is lost joins its line with the next, so the line before the last may end the file
    in_tail = at // 8 >= last - 1
    assert fault.kind == ("torn" if in_tail else "damage")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (CONVERSATION.encode_decisions([[asked(2)]]), "its seq is 2 where 1 must follow"),
        (CONVERSATION.encode_decisions([[asked(1)], [asked(3)]]), "its seq is 3 where 2 must follow"),
        (CONVERSATION.encode_decisions([[asked(1), asked(2)]]).splitlines(True)[0] * 2, "repeats the line of seq 1"),
        (
            CONVERSATION.encode_decisions([[asked(1), asked(2), asked(3)]]).splitlines(True)[0]
            + CONVERSATION.encode_decisions([[asked(2)]]),
            "its `remaining` is 0 where 1 must follow",
        ),
        (line() + b"rubbish\n" + line(seq=3), "its crc is missing or wrong, though line 3 is good"),
        (line(type="Nap"), "written by a newer tenex"),
        (line(v=9), "version 9 .* newer tenex"),
        (line(v=0), "not a record's line"),
        (line(remaining=-1), "not a record's line"),
        (line(seq=True), "not a record's line"),
        (line(at=None), "not a record's line"),
        (line(type=["x"]), "not a record's line"),
        (sealed(b"{not json"), "not a record's line although its crc is right; if a newer tenex wrote it, run that"),
        (line(type="RouteRequested"), "`attempt` is missing"),
        (line(type="RouteRequested", data=[]), "`data` must be an object"),
        (line(type="RouteRequested", data={"attempt": True}), "`attempt` must be a valid integer"),
    ],
)
def test_a_line_that_cannot_be_at_its_place_is_damage_even_at_the_end(data: bytes, what: str) -> None:
    _, length, fault = CONVERSATION.decode_lines(data)
    assert fault is not None
    assert fault.kind == "damage"
    assert re.search(what, fault.what)
    assert length in (0, data.find(b"\n") + 1)


def test_unknown_fields_of_a_known_version_are_accepted() -> None:
    data = line(at=5, type="RouteRequested", data={"attempt": 2, "new": 1})
    assert CONVERSATION.decode_lines(data)[0] == [RouteRequested(seq=1, at=Millis(5), attempt=2)]


def test_an_older_version_is_migrated_step_by_step_or_refused() -> None:
    class Newer(RouteRequested):
        version = 3

    old = line(at=5, type="RouteRequested", data={"tries": 2})
    steps = {
        ("RouteRequested", 1): lambda data: {"try": data["tries"]},
        ("RouteRequested", 2): lambda data: {"attempt": data["try"]},
    }
    records, _, fault = Codec({"RouteRequested": Newer}, steps).decode_lines(old)
    assert fault is None
    assert records == [Newer(seq=1, at=Millis(5), attempt=2)]
    strange = line(type="RouteRequested", data={"secret": 2})
    _, _, fault = Codec({"RouteRequested": Newer}, steps).decode_lines(strange)
    assert fault is not None
    assert (fault.kind, fault.what) == ("damage", "RouteRequested of version 1 cannot be read (KeyError)")


@pytest.mark.parametrize(
    ("kind", "data", "what"),
    [
        ("TurnOpened", {"turnId": "t", "phase": "nap", "agents": [], "reason": ""}, "`phase` must be 'chat'"),
        ("TurnOpened", {"turnId": "t", "phase": "chat", "agents": [1], "reason": ""}, "`agents.0` must be a valid str"),
        ("ModelResponded", {"run": "r", "step": {"usage": {"calls": "1"}}}, "`step.usage.calls` must be a valid int"),
        ("ToolCallQueued", {"run": "r", "call": None}, "`call` must be a valid string"),
        (
            "StateSnapshot",
            {"state": {"id": "c", "spending": {"1": {"secret": {"calls": None}}}}},
            "`state.spending.(a key).(a key).calls` must be a valid integer",
        ),
        ("RunStarted", {**RUN, "entries": [{"is": "secret", "text": ""}]}, "`entries.0`"),
        ("RunStarted", {**RUN, "entries": [{"is": "Note", "text": ""}]}, "`entries.0.Note.title` is missing"),
        ("TurnClosed", {"turnId": 1, "summary": "secret"}, "`turnId` must be a valid string"),
    ],
)
def test_a_value_of_another_type_is_damage_with_only_its_path_named(kind: str, data: dict[str, Any], what: str) -> None:
    _, _, fault = CONVERSATION.decode_lines(line(type=kind, data=data))
    assert fault is not None
    assert f"{kind}: {what}" in fault.what
    assert "secret" not in fault.what


def test_sets_have_one_order_unions_their_name_and_enums_their_value() -> None:
    encoded = CONVERSATION.encode_decisions([[WaiverRequested(seq=1, at=Millis(1), phases=(Phase.CHORES,))]])
    assert b'"data":{"phases":["chores"]}' in encoded
    state = State(id=ConversationId("c" * 64), touched=frozenset({"b", "a", "c"}))
    (encoded,) = CONVERSATION.encode_decisions([[StateSnapshot(seq=1, at=Millis(1), state=state)]]).splitlines()
    assert json.loads(encoded)["data"]["state"]["touched"] == ["a", "b", "c"]
    note = RunStarted(**GIVEN, entries=(Note(title="t", text="x"),))
    assert b'"entries":[{"is":"Note","title":"t","text":"x"}]' in CONVERSATION.encode_decisions([[note]])


def test_a_started_conversation_and_its_turns_keep_within_the_budget_of_bytes() -> None:
    """At most 700 bytes a record; a line's own dress takes about 100 of them."""
    encoded = CONVERSATION.encode_decisions([[started(), *[asked(seq) for seq in range(2, 12)]]])
    assert len(encoded) / 11 < 150
