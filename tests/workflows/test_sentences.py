"""What users read of an exception is a plain sentence."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import Base64Bytes, BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from tenex.core.errors import DeserializationError, SerializationError
from tenex.workflows.kit.error_text import LONGEST, sentence_of
from tenex.workflows.kit.serialization import Typed


class Page(BaseModel):
    title: str
    words: int = 0


def invalid(kind: Any, value: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (invalid(Page, {"words": "many"}), "`title`: field required; `words`: input should be a valid integer"),
        (KeyError("topic"), "there is no key topic"),
        (PermissionError(13, "Permission denied", "/x"), "Permission denied: /x"),
        (ValueError("first\n   second"), "first second"),
        (ValueError(), "ValueError"),
        (TypeError("expected <class 'str'>"), "expected str"),
        (ExceptionGroup("two", [ValueError("one"), KeyError("k")]), "one; there is no key k"),
        (PydanticSerializationError("Unable to serialize unknown type: <class 'a.B'>"), "Unable to serialize unknown"),
    ],
)
def test_an_exception_is_reported_as_one_sentence(error: Exception, expected: str) -> None:
    sentence = sentence_of(error)
    assert sentence.startswith(expected)
    assert "\n" not in sentence
    assert "<class" not in sentence
    assert "pydantic" not in sentence.lower().removeprefix("pydanticserializationerror")


def test_a_long_one_is_cut_and_half_a_character_replaced() -> None:
    assert sentence_of(ValueError("x" * 9_000 + "\ud800")) == "x" * LONGEST
    assert sentence_of(ValueError("\ud800")) == "?"


def test_a_state_of_another_type_is_reported_without_pydantics_words() -> None:
    page = Page.model_construct(title=3, words="many")  # type: ignore[arg-type]
    with pytest.raises(SerializationError) as caught:
        Typed[Any](Page, "the state").dump(page)
    assert str(caught.value) == (
        "the state is no Page that can be journaled: `title`: should be str, and is int; `words`: should be int, and "
        "is str"
    )
    with pytest.raises(DeserializationError) as unread:
        Typed[Any](Page, "the state").load({"words": 1})
    assert str(unread.value) == "the state was journaled as something else than Page: `title`: field required"


@dataclass
class Plain:
    data: bytes


@dataclass
class Encoded:
    data: Base64Bytes


def test_bytes_that_are_no_text_are_refused_with_the_annotation_that_keeps_them() -> None:
    with pytest.raises(SerializationError, match=r"the state holds bytes that are no UTF-8 text: .*Base64Bytes"):
        Typed[Any](Plain, "the state").dump(Plain(b"\xff\x00"))
    assert Typed[Any](Plain, "the state").load({"data": "abc"}) == Plain(b"abc")
    kept = Typed[Any](Encoded, "the state")
    assert kept.load(kept.dump(Encoded(b"\xff\x00"))) == Encoded(b"\xff\x00")
