"""Single steps of an agent: what it does with refusals, missing tools and messages in the middle."""

from typing import Any

import pytest

from tenex.core.ids import CallId
from tenex.core.messages import AgentText, CallRequest, CallResult, Entry, ModelStep, Note
from tenex.core.phases import Phase
from tenex.llm.scripted.closing import tidied
from tenex.llm.scripted.worker import answer_work

from .small_core import TOOLS, called, person, work

ALL = tuple(TOOLS)
WISH = person("Create hello.py that prints hello")
MADE = AgentText(author="executor", text="Created `hello.py`: it prints “hello”.")


def did(tool: str, content: str, /, *, ok: bool = True, **arguments: Any) -> list[Entry]:
    """A step of this run with one call, and its result."""
    name = CallId(f"{tool}-{len(content)}-{sorted(arguments.items())}")
    call = CallRequest(id=name, tool=tool, arguments=arguments)
    return [ModelStep(calls=(call,)), CallResult(id=name, tool=tool, ok=ok, content=content)]


def end(step: ModelStep) -> dict[str, str]:
    assert [call.tool for call in step.calls] == ["complete"]
    return dict(step.calls[0].arguments)


def test_it_looks_then_writes_then_completes() -> None:
    """Three steps, each following from what is in the entries alone."""
    entries: list[Entry] = [WISH]
    assert called(answer_work(work(*entries, tools=ALL))) == [("list_files", {})]
    entries += did("list_files", "There are no files here.")
    write: dict[str, Any] = {"path": "hello.py", "content": 'print("hello")\n'}
    assert called(answer_work(work(*entries, tools=ALL))) == [("write_file", write)]
    entries += did("write_file", "Created hello.py (15 bytes).", **write)
    done = end(answer_work(work(*entries, tools=ALL)))
    assert "hello.py" in done["response"]
    assert "python hello.py" in done["summary"]


def test_whom_a_colleague_calls_does_what_the_message_asks() -> None:
    """It is shown no person's words."""
    part = Note(title="Your part", text="Lead has called you.")
    entries: list[Entry] = [part, AgentText(author="Lead", text="Create hello.py that prints hello")]
    entries += did("list_files", "There are no files here.")
    write: dict[str, Any] = {"path": "hello.py", "content": 'print("hello")\n'}
    assert called(answer_work(work(*entries, tools=ALL))) == [("write_file", write)]


def test_it_reads_what_is_there_before_it_writes() -> None:
    entries = [WISH, *did("list_files", "README.md\nhello.py")]
    assert called(answer_work(work(*entries, tools=ALL))) == [("read_file", {"path": "hello.py"})]


def test_a_program_that_is_as_asked_is_written_again_once_so_that_it_can_be_tried() -> None:
    """`read_file` does not show the last newline; that is no difference. `check` runs only what a cycle changed."""
    entries = [WISH, *did("list_files", "hello.py"), *did("read_file", 'print("hello")', path="hello.py")]
    write: dict[str, Any] = {"path": "hello.py", "content": 'print("hello")\n'}
    assert called(answer_work(work(*entries, tools=ALL))) == [("write_file", write)]
    done = end(answer_work(work(*entries, *did("write_file", "Replaced", **write), tools=ALL)))
    assert "already as you asked" in done["response"]
    changed = Note(title="Your part", text="mend it.\nFiles changed in this cycle: hello.py")
    left_alone = end(answer_work(work(entries[0], changed, *entries[1:], tools=ALL)))
    assert "is already as you asked" in left_alone["response"]
    assert not left_alone["summary"].startswith("Nothing was changed")


def test_a_refused_write_is_read_and_tried_once_more() -> None:
    write: dict[str, Any] = {"path": "hello.py", "content": 'print("hello")\n'}
    entries = [WISH, *did("list_files", "x"), *did("write_file", "read it first", ok=False, **write)]
    assert called(answer_work(work(*entries, tools=ALL))) == [("read_file", {"path": "hello.py"})]
    entries += did("read_file", "x = 1", path="hello.py")
    assert called(answer_work(work(*entries, tools=ALL))) == [("write_file", write)]
    entries += did("write_file", "the disk is full", ok=False, **write)
    done = end(answer_work(work(*entries, tools=ALL)))
    assert "the disk is full" in done["response"]
    assert done["summary"].startswith("Nothing was changed")


def test_a_write_that_stays_refused_is_given_up() -> None:
    """Reading the file again shows the same; that is no reason to read it for ever."""
    write: dict[str, Any] = {"path": "hello.py", "content": 'print("hello")\n'}
    read = did("read_file", "x = 1", path="hello.py")
    refused = did("write_file", "permission denied", ok=False, **write)
    entries = [WISH, *did("list_files", "hello.py"), *read, *refused, *read]
    assert called(answer_work(work(*entries, tools=ALL))) == [("write_file", write)]
    assert "permission denied" in end(answer_work(work(*entries, *refused, tools=ALL)))["response"]


def test_a_question_answered_in_an_earlier_run_is_not_asked_again() -> None:
    """A repair goes on with the name the person gave the first time."""
    wish = person("Create a script that prints hello; ask me which name it should have")
    asked = AgentText(author="executor", text="Which name it should have?")
    entries: list[Entry] = [wish, asked, person("greeter"), AgentText(author="executor", text="I found 1 issue")]
    assert called(answer_work(work(wish, tools=ALL)))[0][0] == "ask"
    entries += did("list_files", "There are no files here.")
    assert called(answer_work(work(*entries, tools=ALL)))[0][1]["path"] == "greeter.py"


def test_a_file_shown_in_part_is_not_rewritten() -> None:
    part = "a\nb\n[Lines 1 to 2 of 9000; read on with offset 3.]"
    wish = person("Change a to b in big.txt")
    entries = [wish, *did("list_files", "big.txt"), *did("read_file", part, path="big.txt")]
    assert "longer than what I am shown" in end(answer_work(work(*entries, tools=ALL)))["response"]


def test_a_message_shown_in_part_is_not_written() -> None:
    """The core leaves the middle of a very long message out; that is not what the person wants in the file."""
    cut = person('Write notes.txt with "lorem\n[… 70000 characters left out …]\nipsum"')
    entries = [cut, *did("list_files", "x")]
    assert "longer than what I am shown" in end(answer_work(work(*entries, tools=ALL)))["response"]


def test_without_tools_it_says_so_in_plain_text() -> None:
    step = answer_work(work(WISH))
    assert step.calls == ()
    assert "no tool that writes" in step.text


def test_a_refused_complete_becomes_plain_text() -> None:
    """It would be refused again; the text is a completion as well."""
    entries = [person("hi"), *did("complete", "`response` must be a text", ok=False)]
    step = answer_work(work(*entries, phase="chat", tools=ALL))
    assert step.calls == ()
    assert "offline model" in step.text


@pytest.mark.parametrize("phase", list(Phase))
def test_tools_that_refuse_everything_end_every_phase(phase: Phase) -> None:
    """Whatever is refused, a run ends within twelve steps and says something."""
    entries: list[Entry] = [WISH, MADE]
    for _ in range(12):
        step = answer_work(work(*entries, phase=phase.value, tools=ALL))
        if not step.calls or step.calls[0].tool == "complete":
            said = step.text or step.calls[0].arguments["response"]
            assert said
            return
        entries.append(step)
        entries += [CallResult(id=call.id, tool=call.tool, ok=False, content="No.") for call in step.calls]
    raise AssertionError("it does not end")


def test_verification_reads_runs_and_compares() -> None:
    entries: list[Entry] = [WISH, MADE]
    assert called(answer_work(work(*entries, phase="verification", tools=ALL))) == [("read_file", {"path": "hello.py"})]
    entries += did("read_file", 'print("hello")', path="hello.py")
    assert called(answer_work(work(*entries, phase="verification", tools=ALL))) == [("check", {"path": "hello.py"})]
    for output, verdict in [
        ("exit status 0\nhello\n", "verified"),
        ("exit status 0\nhello world\n", "issues"),
        ("exit status 1\nhello\nTraceback: boom", "issues"),
    ]:
        ran = did("check", output, path="hello.py", ok=verdict == "verified")
        done = end(answer_work(work(*entries, *ran, phase="verification", tools=ALL)))
        assert done["verdict"] == verdict, output
    assert "python hello.py" in done["issues"]


def test_verification_without_a_run_goes_by_what_it_reads() -> None:
    """Where `check` is not offered or refused, the text has to show it; and the proof says so."""
    refused = did("check", "check runs only files this cycle has changed.", ok=False, path="hello.py")
    for content, verdict in [('print("hello")', "verified"), ("pass", "issues")]:
        entries: list[Entry] = [WISH, MADE, *did("read_file", content, path="hello.py")]
        for more, tools in ((refused, ALL), ([], ("read_file", "complete"))):
            done = end(answer_work(work(*entries, *more, phase="verification", tools=tools)))
            assert done["verdict"] == verdict


def test_verification_goes_by_the_files_that_were_changed() -> None:
    """The core's note names them; a file nobody named in the request is found that way."""
    note = Note(title="Your part", text="verify.\nFiles changed in this cycle: hello_2.py")
    entries: list[Entry] = [person("Create a script that prints hello"), MADE, note]
    assert called(answer_work(work(*entries, phase="verification", tools=ALL))) == [
        ("read_file", {"path": "hello_2.py"})
    ]


def test_a_later_wish_for_the_same_file_counts() -> None:
    """What the first message asked for is not demanded once the second has replaced it."""
    later = person("No: create hello.py that prints bye")
    entries = [WISH, later, MADE, *did("read_file", 'print("bye")', path="hello.py")]
    entries += did("check", "exit status 0\nbye", path="hello.py")
    assert end(answer_work(work(*entries, phase="verification", tools=ALL)))["verdict"] == "verified"


def test_nothing_to_verify_is_no_success() -> None:
    assert end(answer_work(work(person("hm"), phase="verification", tools=ALL)))["verdict"] == "issues"


def test_chores_tidy_what_was_made_and_name_leftovers() -> None:
    entries: list[Entry] = [WISH, MADE, *did("list_files", "hello.py\nold.pyc\nsrc/x.tmp")]
    entries += did("read_file", "x = 1  \ny = 2", path="hello.py")
    step = answer_work(work(*entries, phase="chores", tools=ALL))
    write: dict[str, Any] = {"path": "hello.py", "content": "x = 1\ny = 2\n"}
    assert called(step) == [("write_file", write)]
    done = end(answer_work(work(*entries, *did("write_file", "ok", **write), phase="chores", tools=ALL)))
    assert "old.pyc" in done["response"]
    assert "src/x.tmp" in done["response"]
    assert tidied("a.md", "two blanks  \nbreak\n\n\n") == "two blanks  \nbreak\n"


def test_reflection_learns_one_lesson_about_this_cycle() -> None:
    proof = AgentText(author="executor", text="Verified:\n- ran `python hello.py`: it prints “hello”")
    step = answer_work(work(WISH, MADE, proof, phase="reflection", tools=ALL))
    (name, lesson) = called(step)[0]
    assert name == "learn"
    assert "Create hello.py" in lesson["lesson"]
    assert "ran `python hello.py`" in lesson["lesson"]
    again = answer_work(work(WISH, MADE, proof, *did("learn", "Kept."), phase="reflection", tools=ALL))
    assert end(again)["response"].startswith("Learned: ")


def test_reflection_counts_the_repairs_since_the_person_last_wrote() -> None:
    found, proof = (
        AgentText(author="executor", text=text) for text in ("I found 1 issue: none runs", "Verified:\n- it ran")
    )
    now = work(WISH, MADE, found, proof, phase="reflection", tools=ALL)
    assert "It took 1 round of repair." in called(answer_work(now))[0][1]["lesson"]
    later = work(WISH, MADE, found, proof, person("Create b.py"), proof, phase="reflection", tools=ALL)
    assert "repair" not in called(answer_work(later))[0][1]["lesson"]


def test_a_message_in_the_middle_is_acknowledged_in_every_phase() -> None:
    for phase in Phase:
        entries = [WISH, MADE, *did("read_file", "No.", ok=False, path="z"), person("please hurry")]
        for _ in range(12):
            step = answer_work(work(*entries, phase=phase.value, tools=ALL))
            if step.calls[0].tool == "complete":
                break
            entries.append(step)
            entries += [CallResult(id=call.id, tool=call.tool, ok=False, content="No.") for call in step.calls]
        assert "please hurry" in end(step)["response"], phase


def test_plans_and_ideas_use_the_persons_words() -> None:
    plan = end(answer_work(work(WISH, phase="plan", tools=ALL)))["response"]
    assert "`hello.py`" in plan
    assert "1. " in plan
    ideas = end(answer_work(work(person("Brainstorm about gardening robots"), phase="brainstorm", tools=ALL)))
    assert "gardening" in ideas["response"]
    assert all(f"{number}. " in ideas["response"] for number in (1, 2, 3))


def test_chat_asks_for_what_is_missing() -> None:
    for text, part in [
        ("", "empty"),
        ("create something", "Which file"),
        ("create server.py, a web server", "`server.py`"),
        ("create hello.py that prints hello", "Shall I make it?"),
    ]:
        said = end(answer_work(work(person(text), phase="chat", tools=ALL)))["response"]
        assert part in said, text
        assert said.startswith("I am tenex's offline model")
