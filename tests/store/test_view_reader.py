"""Reading view files that may have been edited."""

import json
from pathlib import Path

import pytest

from tenex.core.errors import StoreDamaged
from tenex.store.view_reader import read_view


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "conversation.json").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"conversation\.json (cannot be read|holds no JSON object)"):
        read_view(tmp_path / "conversation.json")
    with pytest.raises(StoreDamaged, match="Is a directory"):
        read_view(tmp_path)


def test_older_entries_are_put_back_in_and_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "orchestratorTurns-000001.json").write_text(json.dumps([1]))  # older than what the view lists
    (tmp_path / "orchestratorTurns-000002.json").write_text(json.dumps([2]))
    (tmp_path / "elsewhere.json").write_text("[9]")
    listed = ["orchestratorTurns-000002.json", "orchestratorTurns-000003.json", "../x/elsewhere.json", 7]
    view = {"earlierOrchestratorTurns": listed, "orchestratorTurns": [3]}
    (tmp_path / "conversation.json").write_text(json.dumps(view))
    found = read_view(tmp_path / "conversation.json")
    assert found["orchestratorTurns"] == [1, 2, 3]
    odd = "a file with a name that tenex does not use"
    assert found["unread"] == [odd, odd, "orchestratorTurns-000003.json"]


def test_half_a_character_and_nan_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "conversation.json"
    path.write_text(r'{"title": "a\ud800b \u00fc", "cycle": NaN}')
    found = read_view(path)
    assert (found["title"], found["cycle"]) == ("a?b \u00fc", None)
