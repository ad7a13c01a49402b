"""The writer of JSON gives what the standard library gives."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.jsontext import json_writer

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.booleans(), inner),
    max_leaves=12,
)


@given(VALUES, st.booleans(), st.sampled_from([(", ", ": "), (",", ":")]))
def test_it_writes_what_the_standard_library_writes(
    value: Any, ensure_ascii: bool, separators: tuple[str, str]
) -> None:
    write = json_writer(ensure_ascii=ensure_ascii, separators=separators)
    assert write(value) == json.dumps(value, ensure_ascii=ensure_ascii, separators=separators)


def test_so_does_the_one_without_the_c_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    assert json_writer(separators=(",", ":"))(["ä", {"a": [1.5, None]}]) == '["ä",{"a":[1.5,null]}]'


def test_what_json_does_not_know_is_made_plain_or_refused() -> None:
    view = MappingProxyType({"a": 1})
    assert json_writer(default=dict)([view]) == '[{"a": 1}]'
    for write in (json_writer(), json.dumps):
        with pytest.raises(TypeError, match="mappingproxy"):
            write([view])


def test_a_value_that_holds_itself_ends_in_an_error() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecursionError):
        json_writer()(value)
