"""The form of the readable file: its published schema is what the models say, and what is written has that form.

python -m tests.store.test_view_model    writes the schema again
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from tenex.store.journal_reader import VIEW
from tenex.store.view_model import schema

SCHEMA: Final = Path(__file__).parents[2] / "docs" / "conversation.schema.json"
KIND_FIELDS: Final = {"workflow", "mission", "checks"}
"""What kinds of conversation add under names of their own."""
HISTORIES: Final = sorted(path.parent for path in (Path(__file__).parents[1] / "histories").glob(f"*/{VIEW}"))


def published() -> str:
    return json.dumps(schema(), indent=2) + "\n"


def shown(history: Path) -> dict[str, Any]:
    view: dict[str, Any] = json.loads((history / VIEW).read_bytes())
    return view


def test_the_published_schema_is_current() -> None:
    assert SCHEMA.read_text() == published(), "run `python -m tests.store.test_view_model`"


@pytest.mark.parametrize("history", HISTORIES, ids=lambda path: path.name)
def test_what_was_recorded_has_the_form_of_the_schema_and_no_field_that_it_does_not_describe(history: Path) -> None:
    strict = copy.deepcopy(schema())
    for part in strict["$defs"].values():
        if "properties" in part:
            part["additionalProperties"] = False
    view = shown(history)
    assert [error.message for error in Draft202012Validator(strict).iter_errors(view)] == []
    assert {*view} <= {*strict["properties"]} | KIND_FIELDS


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda view: view.pop("seq"), "'seq' is a required property"),
        (lambda view: view["phaseTransitions"][0].pop("from"), "'from' is a required property"),
        (lambda view: view["toolCalls"][0].update(outcome="perhaps"), "'perhaps' is not one of"),
        (lambda view: view["messages"][0].update(cycle="1"), "'1' is not of type 'integer'"),
    ],
)
def test_another_form_is_refused(change: Callable[[dict[str, Any]], object], where: str) -> None:
    view = shown(next(history for history in HISTORIES if history.name == "seven-phases"))
    change(view)
    assert where in "".join(error.message for error in Draft202012Validator(schema()).iter_errors(view))


if __name__ == "__main__":
    SCHEMA.write_text(published())
