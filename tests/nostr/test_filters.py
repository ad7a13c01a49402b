"""How filters are laid out over REQs."""

import pytest

from tenex.nostr.filters import lay_out


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
