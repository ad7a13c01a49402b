"""Filling in the prompts of a conversation: what is known now is in them, and equal knowledge gives equal bytes."""

from tenex.core.ids import Slug
from tenex.core.steps import Note, PersonText, Shown, ToolSpec
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.prompter import ConversationPrompter
from tests.fakes.play import Play, rules, says


def prompter(lessons: dict[str, list[str]], notes: list[str | None]) -> ConversationPrompter:
    tool = ToolSpec(name="complete", description="Ends.", parameters={"type": "object", "properties": {}})
    return ConversationPrompter(
        PromptLibrary.load(builtin_prompts()), rules=rules, tools=lambda phase, slug: (tool,),
        lessons=lambda slug: lessons.get(slug, []), workspace_notes=lambda: notes[0], project_name="demo",
    )  # fmt: skip


def at_work() -> Play:
    play = Play(lambda q: {"agents": ["executor"], "phase": "execute", "reason": "build"}, lambda c, m: says("done"))
    play.person("Build it")
    play.step()
    return play


def test_lessons_and_notes_known_now_are_in_an_agents_prompt_and_old_ones_are_not() -> None:
    lessons: dict[str, list[str]] = {}
    notes: list[str | None] = [None]
    words, play = prompter(lessons, notes), at_work()
    run = next(iter(play.conversation.runs.values()))
    bare = words.work(play.conversation, run).system
    assert words.work(play.conversation, run).system == bare
    lessons["executor"], notes[0] = ["mind the gap"], "use tabs"
    told = words.work(play.conversation, run).system
    assert "mind the gap" in told
    assert "use tabs" in told
    lessons["executor"] = []
    assert "mind the gap" not in words.work(play.conversation, run).system


def test_a_prompt_names_messages_by_their_record_and_ends_with_the_part() -> None:
    words, play = prompter({}, [None]), at_work()
    run = next(iter(play.conversation.runs.values()))
    entries = words.work(play.conversation, run).entries
    assert isinstance(entries[0], Shown)
    assert isinstance(entries[-1], Note)
    assert entries[-1].title == "Your part"
    assert run.entries[0] == PersonText(author="alice", text="Build it"), "the fold puts the words in"


def test_the_routers_question_holds_the_schema_and_the_roster() -> None:
    words = prompter({}, [None])
    play = Play(lambda q: {"agents": ["USER"], "reason": "wait"}, lambda c, m: says("done"))
    play.person("Build it")
    request = words.route(play.conversation)
    assert request.purpose == "route"
    assert request.agent == Slug("orchestrator")
    assert request.output_schema is not None
    note = request.entries[0]
    assert isinstance(note, Note)
    assert '"Build it"' in note.text
