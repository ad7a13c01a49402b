"""A conversation told line by line."""

from tenex.cli.story import Story
from tests.fakes.linked import cast, linked, to
from tests.fakes.play import Play, rules, says


def test_who_calls_whom_is_told_and_what_came_of_it() -> None:
    """Its words are not told twice: they stand in the result of the call."""
    worker = cast(executor=[says("", *to("helper", message="which?")), "built"], helper=["green"])
    play = Play(lambda q: {"agents": ["USER"] if q["turns"] else ["executor"], "reason": "x"}, worker,
                config=linked(rules(), executor=["helper"]))  # fmt: skip
    play.person("hello")
    play.settle()
    story = Story()
    told = [(line.head, line.text) for decision in play.journal for record in decision for line in story.tell(record)]
    assert told.index(("executor calls helper", "")) < told.index(("executor · to_helper(message=which?)", "green"))
    assert [text for _, text in told].count("green") == 1
