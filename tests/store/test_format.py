"""Records as lines of every version, and how much of a damaged file is believed."""

import dataclasses
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.core.conversation import fold
from tenex.core.cycle.state import Cycle
from tenex.core.errors import InternalError, StoreDamaged
from tenex.core.identity.state import Identity
from tenex.core.ids import ConversationId, Millis, RunId
from tenex.core.inbox.records import CommandGiven
from tenex.core.kind_format import FORMATS
from tenex.core.messages import CallRequest, ModelStep
from tenex.core.phases import Phase
from tenex.core.records import RECORDS, ModelResponded, Record
from tenex.core.router.records import RouteRequested
from tenex.core.snapshot import StateSnapshot
from tenex.core.state import PARTS, State
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION, Codec
from tenex.store.journal_reader import peek
from tenex.workflows.phases.records import WaiverRequested
from tests.fakes.scenario import ID

from .kit import asked, closed, decisions_of, encoded, integers, objects_of, opened_with

SPENDING: Final = {"totals": {"spending": {"1": {"secret": {"calls": None}}}}}
RUN: Final = {"run": "r", "agent": "a", "agentName": "A", "pubkey": "p", "warnAt": 1, "closeAt": 2}


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
    line = encoded(record)
    assert line.count(b"\n") == 1
    assert CONVERSATION.decode_lines(line) == ([record], len(line), None)


def test_a_line_has_the_documented_form() -> None:
    first = b'{"v":1,"seq":1,"remaining":1,"at":1,"type":"RouteRequested","data":{"attempt":1}'
    assert CONVERSATION.encode_decisions([[asked(1), asked(2)]]).startswith(sealed(first))
    lines = CONVERSATION.encode_decisions(decisions_of(3, 1, 2)).splitlines()
    assert [json.loads(text)["remaining"] for text in lines] == [2, 1, 0, 0, 1, 0]
    assert CONVERSATION.decode_lines(b"") == ([], 0, None)


def test_text_is_readable_in_the_file_and_a_lone_surrogate_is_escaped() -> None:
    assert "Grüße 日本 \u2028".encode() in encoded(closed(1, "Grüße 日本 \u2028"))
    record = closed(1, "half \ud83d of a smile, ü")
    line = encoded(record)
    line.decode()
    assert CONVERSATION.decode_lines(line)[0] == [record]


@pytest.mark.parametrize("key", ["\ud800", "a\udfffb", "\ufffd\ufffd\ufffd", "\ud800\ufffd\ufffd\ufffd"])
@pytest.mark.parametrize("value", ["\ud800", "ü", 1, {"\udc00": None}])
def test_a_lone_surrogate_in_a_key_comes_back_as_it_was(key: str, value: object) -> None:
    for identity in (Identity(id=ID, next_seq=8, address={key: value}), Identity(id=ID, next_seq=8, seen={key: None})):
        snapshot = StateSnapshot.of(State(identity=identity))
        line = encoded(snapshot)
        assert CONVERSATION.decode_lines(line) == ([snapshot], len(line), None)
        assert encoded(*CONVERSATION.decode_lines(line)[0]) == line


def called(value: object) -> bytes:
    """The line of a model's call of a tool with this argument."""
    call = CallRequest(id="c", tool="t", arguments={"x": value})  # type: ignore[arg-type]
    return encoded(ModelResponded(seq=1, at=Millis(1), run=RunId("r"), step=ModelStep(calls=(call,))))


def test_nan_from_a_model_does_not_end_a_conversation_and_a_number_that_cannot_be_read_is_not_written() -> None:
    (back,), _, fault = CONVERSATION.decode_lines(called([float("nan"), MappingProxyType({"a": 1})]))
    assert fault is None
    assert isinstance(back, ModelResponded)
    nan, deep = back.step.calls[0].arguments["x"]
    assert nan != nan
    assert deep == {"a": 1}
    assert CONVERSATION.decode_lines(called("9" * 5_000))[2] is None
    with pytest.raises(InternalError, match="cannot be stored"):
        called(10**4_400)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("vendor", [object(), nested(100_000)], ids=["object", "deep"])
def test_a_record_json_cannot_hold_is_a_bug_that_names_the_record(vendor: object) -> None:
    with pytest.raises(InternalError, match="ModelResponded of seq 4 cannot be stored"):
        encoded(ModelResponded(seq=4, at=Millis(1), run=RunId("r"), step=ModelStep(vendor=vendor)))


def test_a_field_of_the_wrong_type_is_a_bug_that_names_the_field() -> None:
    with pytest.raises(InternalError, match="`attempt` must be int"):
        encoded(replace(asked(1), attempt="1"))  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="`seq` and `at` must be integers"):
        encoded(replace(asked(1), at=1.5))  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="not a record of this journal"):
        Codec({"CommandGiven": CommandGiven}).encode_decisions([[asked(1)]])


def test_wherever_the_last_append_breaks_off_whole_decisions_are_kept_and_no_part_of_one() -> None:
    """Every byte offset of an append of two decisions, the last with three records; also where zeros follow."""
    before = CONVERSATION.encode_decisions(decisions_of(2, 1))
    first = before + encoded(asked(4))
    data = first + CONVERSATION.encode_decisions(decisions_of(3, first=5))
    for cut in range(len(before), len(data) + 1):
        whole = max(at for at in (len(before), len(first), len(data)) if at <= cut)
        for tail in (b"", bytes(200)):
            records, length, fault = CONVERSATION.decode_lines(data[:cut] + tail)
            assert (len(records), length) == ({len(before): 3, len(first): 4, len(data): 7}[whole], whole)
            assert (fault is None) == (cut == whole and not tail)
            assert fault is None or (fault.kind, fault.line, fault.byte) == ("torn", len(records) + 1, whole)


@given(bit=st.integers(0, 8 * len(CONVERSATION.encode_decisions(decisions_of(1, 2, 1))) - 1))
@settings(max_examples=200)
def test_a_flipped_bit_is_never_believed(bit: int) -> None:
    """Before the last line it is damage, in it a torn tail; never a record that was not written."""
    decisions = decisions_of(1, 2, 1)
    good = CONVERSATION.encode_decisions(decisions)
    broken = bytearray(good)
    broken[bit // 8] ^= 1 << bit % 8
    records, length, fault = CONVERSATION.decode_lines(bytes(broken))
    assert records == [record for decision in decisions for record in decision][: len(records)]
    assert length == len(encoded(*records)) or len(records) == 3
    assert fault is not None
    # a newline that is lost joins its line with the next, so the line before the last may end the file
    in_tail = bit // 8 >= good.rindex(b"\n", 0, -1)
    assert fault.kind == ("torn" if in_tail else "damage")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (encoded(asked(2)), "its seq is 2 where 1 must follow"),
        (encoded(asked(1), asked(3)), "its seq is 3 where 2 must follow"),
        (CONVERSATION.encode_decisions([[asked(1), asked(2)]]).splitlines(True)[0] * 2, "repeats the line of seq 1"),
        (
            CONVERSATION.encode_decisions([[asked(1), asked(2), asked(3)]]).splitlines(True)[0] + encoded(asked(2)),
            "its `remaining` is 0 where 1 must follow",
        ),
        (line() + b"rubbish\nmore\n" + line(seq=4), "its crc is missing or wrong, though line 4 is good"),
    ],
)
def test_a_line_that_cannot_be_at_its_place_is_damage_even_at_the_end(data: bytes, what: str) -> None:
    _, length, fault = CONVERSATION.decode_lines(data)
    assert fault is not None
    assert fault.kind == "damage"
    assert re.search(what, fault.what)
    assert length in (0, data.find(b"\n") + 1)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (line(type="Nap"), "its type Nap is unknown here"),
        (line(v=9), "version 9, and this one knows 1"),
        (line(v=0), "not a record's line"),
        (line(at=None), "not a record's line"),
        (sealed(b"{not json"), "not a record's line as this one writes it, although its crc is right"),
        (line(type="RouteRequested"), "RouteRequested: `attempt` is missing"),
        (line(type="RouteRequested", data=[]), "`data` must be an object"),
        (line(type="RouteRequested", data={"attempt": True}), "`attempt` must be a valid integer"),
        (line(type="TurnOpened", data={"turnId": "t", "phase": "secret"}), "`phase` must be 'chat'"),
        (
            line(type="ModelResponded", data={"run": "r", "step": {"usage": {"calls": "1"}}}),
            "`step.usage.calls` must be a valid i",
        ),
        (
            line(type="StateSnapshot", data={"state": {"identity": {"id": "c"}, **SPENDING}}),
            r"`state.totals.spending.\(a key\).\(a key\).calls` must be a valid integer",
        ),
        (
            line(type="RunStarted", data={**RUN, "entries": [{"is": "secret", "text": ""}]}),
            "`entries.0` has an unknown `is`",
        ),
        (
            line(type="RunStarted", data={**RUN, "entries": [{"is": "Note", "text": ""}]}),
            "`entries.0.Note.title` is missing",
        ),
    ],
)
def test_a_sound_line_that_this_version_cannot_read_is_of_another_one(data: bytes, what: str) -> None:
    _, length, fault = CONVERSATION.decode_lines(data)
    assert fault is not None
    assert fault.kind == "foreign"
    assert re.search(what, fault.what)
    assert "written by another version of tenex" in fault.place
    assert "secret" not in fault.what, "no value is quoted"
    assert length in (0, data.find(b"\n") + 1)


def test_unknown_fields_of_a_known_version_are_accepted() -> None:
    data = line(at=5, type="RouteRequested", data={"attempt": 2, "new": 1})
    assert CONVERSATION.decode_lines(data)[0] == [RouteRequested(seq=1, at=Millis(5), attempt=2)]


def test_sets_have_one_order_unions_their_name_and_enums_their_value() -> None:
    assert b'"data":{"phases":["chores"]}' in encoded(WaiverRequested(seq=1, at=Millis(1), phases=(Phase.CHORES,)))
    state = State(identity=Identity(id=ConversationId("c" * 64)), cycle=Cycle(touched=frozenset({"b", "a", "c"})))
    assert b'"touched":["a","b","c"]' in encoded(StateSnapshot(seq=1, at=Millis(1), state=state))
    note = line(type="RunStarted", data={**RUN, "entries": [{"is": "Note", "title": "t", "text": "x"}]})
    assert encoded(*CONVERSATION.decode_lines(note)[0]) == note


# ---- older versions -----------------------------------------------------------------------------------------------


def _kind(version: int, **fields: Any) -> Any:
    """The kind `Measured` as it was in that version."""
    made = type("Measured", (Record,), {"__annotations__": fields, "version": version, **dict.fromkeys(fields, 0)})
    return dataclass(frozen=True, kw_only=True)(made)


First = _kind(1, inches=int)
Second = _kind(2, centimetres=int)
Third = _kind(3, millimetres=int, tool=int)

STEPS = {
    ("Measured", 1): lambda data: {"centimetres": data["inches"] * 5 // 2},
    ("Measured", 2): lambda data: {"millimetres": data["centimetres"] * 10},
}


def codec(kind: type[Record]) -> Codec:
    return Codec({"Measured": kind}, {step: make for step, make in STEPS.items() if step[1] < kind.version})


async def test_a_journal_grows_through_versions_and_old_lines_are_not_rewritten(path: Path, disk: Disk) -> None:
    for kind, values in ((First, {"inches": 4}), (Second, {"centimetres": 7}), (Third, {"millimetres": 9, "tool": 1})):
        journal, _ = await opened_with(path, disk, codec(kind))
        await journal.append([[kind(seq=journal.next_seq, at=Millis(1), **values)]])
        await journal.close()
    assert peek(path, codec(Third)) == [
        Third(seq=1, at=Millis(1), millimetres=100),
        Third(seq=2, at=Millis(1), millimetres=70),
        Third(seq=3, at=Millis(1), millimetres=9, tool=1),
    ]
    assert [json.loads(text)["v"] for text in path.read_bytes().splitlines()] == [1, 2, 3]
    with pytest.raises(
        StoreDamaged,
        match=r"line 3 was written by another version of .* Measured has version 3, and this one knows 2\. .*Upgrade",
    ):
        peek(path, codec(Second))
    _, _, fault = codec(Third).decode_lines(line(type="Measured", data={"secret": 2}))
    assert fault is not None
    assert (fault.kind, fault.what) == ("foreign", "Measured of version 1 cannot be read (KeyError)")


def test_a_kind_without_a_step_from_each_older_version_is_found_when_the_program_starts() -> None:
    with pytest.raises(InternalError, match=r"Measured 1$"):
        Codec({"Measured": Third}, {("Measured", 2): STEPS["Measured", 2]})
    with pytest.raises(InternalError, match=r"Measured 3, Unknown 1$"):
        Codec({"Measured": Third}, {**STEPS, ("Measured", 3): dict, ("Unknown", 1): dict})


# ---- snapshots ------------------------------------------------------------------------------------------------------


KINDS = st.fixed_dictionaries(
    {}, optional={name: objects_of(kind.state) for name, kind in FORMATS.items() if kind.state is not None}
)
STATES = st.tuples(objects_of(Identity, id=ID, next_seq=8), KINDS).flatmap(
    lambda parts: objects_of(State, identity=parts[0], kinds=parts[1])
)


@given(state=STATES)
@settings(max_examples=80, suppress_health_check=list(HealthCheck))
def test_every_state_there_could_be_comes_back_as_it_was(state: State) -> None:
    snapshot = StateSnapshot.of(state)
    data = encoded(snapshot)
    assert CONVERSATION.decode_lines(data) == ([snapshot], len(data), None)
    assert encoded(*CONVERSATION.decode_lines(data)[0]) == data, "in the same order too"


@pytest.mark.parametrize("part", [name for name in PARTS if name not in ("identity", "kinds")])
def test_a_part_that_differs_in_one_field_alone_comes_back(part: str) -> None:
    """A part that equals its default is left out: so each of its fields has to count."""
    spec = next(spec for spec in dataclasses.fields(State) if spec.name == part)
    assert spec.default_factory is not dataclasses.MISSING
    uncounted = [field.name for field in dataclasses.fields(spec.default_factory()) if not field.compare]
    assert not uncounted


def bad(*records: Record) -> str:
    _, _, fault = CONVERSATION.decode_lines(encoded(*records))
    assert fault is not None
    assert fault.kind == "damage"
    return f"line {fault.line}: {fault.what}"


def test_a_snapshot_anywhere_else_is_damage() -> None:
    state = fold(ID, [])
    state.identity = replace(state.identity, next_seq=4)
    snapshot = StateSnapshot.of(state)
    assert bad(asked(1), asked(2), asked(3), snapshot).startswith("line 4: a snapshot must be alone")
    data = encoded(snapshot, asked(4))
    assert CONVERSATION.decode_lines(data) == ([snapshot, asked(4)], len(data), None)
    assert bad(snapshot, asked(5)) == "line 2: its seq is 5 where 4 must follow"
    assert bad(StateSnapshot(seq=2, at=Millis(1), state=snapshot.state)).endswith("of another record than its seq")
    joined = CONVERSATION.encode_decisions([[snapshot, asked(4)]])
    fault = CONVERSATION.decode_lines(joined)[2]
    assert fault is not None
    assert fault.line == 1
