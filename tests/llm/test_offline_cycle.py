"""Whole cycles: the offline model routes and works, on real files and with real processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from .small_core import SmallCore, Workspace

FULL = ["execute", "verification", "chores", "reflection"]


@pytest.fixture
def core(tmp_path: Path) -> SmallCore:
    return SmallCore(workspace=Workspace(tmp_path))


def output(root: Path, name: str) -> str:
    return subprocess.run([sys.executable, name], cwd=root, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("request_text", "files"),
    [
        ("Create hello.py that prints hello", {"hello.py": 'print("hello")\n'}),
        ("write a file notes.txt with Buy milk. Call Bob.", {"notes.txt": "Buy milk. Call Bob.\n"}),
        ("add a function add(a, b) to calc.py", {"calc.py": "def add(a, b):\n    return a + b\n"}),
        ("make a list of milk, bread and eggs in todo.md", {"todo.md": "- milk\n- bread\n- eggs\n"}),
        (
            "create hello.py that prints hello and bye.py that prints bye",
            {"hello.py": 'print("hello")\n', "bye.py": 'print("bye")\n'},
        ),
        ("Create a script that prints hello", {"hello.py": 'print("hello")\n'}),
        ("Erstelle hallo.py, das Hallo Welt ausgibt", {"hallo.py": 'print("Hallo Welt")\n'}),
        ("Crea hola.py que imprima ¡hola!", {"hola.py": 'print("¡hola!")\n'}),
        ("Crée salut.py qui affiche salut", {"salut.py": 'print("salut")\n'}),
        ("Create t.py with\n```python\nprint(1)\nprint(2)\n```", {"t.py": "print(1)\nprint(2)\n"}),
        ("Make an empty file src/app/empty.txt", {"src/app/empty.txt": ""}),
    ],
)
async def test_a_request_goes_through_every_gate_to_its_end(
    core: SmallCore, request_text: str, files: dict[str, str]
) -> None:
    """From a person's sentence to END, without a question, and the files hold what was asked."""
    core.write(request_text)
    assert await core.until_rest() == "END"
    assert core.phases == FULL
    root = core.workspace.root
    assert {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()} == files
    assert len(core.workspace.lessons) == 1
    assert len(core.workspace.lessons[0]) >= 20


async def test_programs_are_run_in_verification(core: SmallCore) -> None:
    """A recipe's program prints what verification says it prints, and it was run to see that."""
    core.write("Create primes.py that prints the first 10 primes")
    assert await core.until_rest() == "END"
    assert output(core.workspace.root, "primes.py").split() == ["2", "3", "5", "7", "11", "13", "17", "19", "23", "29"]
    assert ("check", {"path": "primes.py"}) in core.workspace.calls


async def test_what_was_there_is_kept_when_something_is_added(core: SmallCore) -> None:
    """A function is added behind the code that was there, after the file was read."""
    (core.workspace.root / "calc.py").write_text("import math\n\nTAU = 2 * math.pi\n")
    core.write("add functions add(a, b) and is_even(n) to calc.py")
    assert await core.until_rest() == "END"
    text = (core.workspace.root / "calc.py").read_text()
    assert text.startswith("import math\n\nTAU = 2 * math.pi\n\n\ndef add(a, b):\n")
    scope: dict[str, object] = {}
    exec(text, scope)
    assert eval("add(2, 3), is_even(4), is_even(5)", scope) == (5, True, False)


async def test_words_are_replaced_as_words(core: SmallCore) -> None:
    (core.workspace.root / "pets.txt").write_text("The cat is in no category.\n")
    core.write("Change cat to dog in pets.txt")
    assert await core.until_rest() == "END"
    assert (core.workspace.root / "pets.txt").read_text() == "The dog is in no category.\n"


async def test_a_file_nobody_named_does_not_overwrite_another(core: SmallCore) -> None:
    (core.workspace.root / "hello.py").write_text("print('mine')\n")
    core.write("Create a script that prints hello")
    assert await core.until_rest() == "END"
    assert (core.workspace.root / "hello.py").read_text() == "print('mine')\n"
    assert output(core.workspace.root, "hello_2.py") == "hello\n"


@pytest.mark.parametrize("text", ["", "   \n", "asdf qwer zxcv", "¿?", "\x00 \u200b", "🤖" * 50, "e.g. example.com"])
async def test_nonsense_is_answered_in_chat_and_waits(core: SmallCore, text: str) -> None:
    """Nothing is made of it; the model says what it is and asks one question."""
    core.write(text)
    assert await core.until_rest() == "USER"
    assert core.phases == ["chat"]
    answer = core.turns[0]["completions"][0]["text"]
    assert "offline model" in answer
    assert "?" in answer
    assert core.workspace.calls == []


async def test_what_rules_cannot_do_is_said_and_not_verified(core: SmallCore) -> None:
    """An action with an object it cannot make ends in execute, honestly, and the person has the word."""
    core.write("Refactor server.py to use dependency injection")
    assert await core.until_rest() == "USER"
    assert core.phases == ["execute"]
    text = core.turns[0]["completions"][0]["text"]
    assert "offline model" in text
    assert "models.default" in text
    core.write("Then create hello.py that prints hello")
    assert await core.until_rest() == "END"
    assert (core.workspace.root / "hello.py").exists()


async def test_an_answer_in_chat_completes_the_request(core: SmallCore) -> None:
    """What one message lacks, the next one gives; both are read together."""
    core.write("Please create something nice")
    assert await core.until_rest() == "USER"
    core.write("a script that prints hello")
    assert await core.until_rest() == "END"
    assert output(core.workspace.root, "hello.py") == "hello\n"


async def test_a_plan_leads_to_its_execution(core: SmallCore) -> None:
    core.write("Plan the work: create hello.py that prints hello")
    assert await core.until_rest() == "END"
    assert core.phases == ["plan", *FULL]
    assert "1. " in core.turns[0]["completions"][0]["text"]
    assert len(core.workspace.lessons) == 2


async def test_a_brainstorm_waits_and_moves_on(core: SmallCore) -> None:
    core.write("Let's brainstorm: what if we build a tiny game about gardens?")
    assert await core.until_rest() == "USER"
    assert core.phases == ["brainstorm"]
    assert "gardens" in core.turns[0]["completions"][0]["text"]
    core.write("Fine, create garden.txt with one seed")
    assert await core.until_rest() == "END"
    assert (core.workspace.root / "garden.txt").read_text() == "one seed\n"


async def test_a_message_in_the_middle_of_a_run_is_taken_in(core: SmallCore) -> None:
    """It is acknowledged in the completion, and what it asks for is done and verified as well."""
    core.during = {"execute": "also create bye.py that prints bye"}
    core.write("Create hello.py that prints hello")
    assert await core.until_rest() == "END"
    assert output(core.workspace.root, "bye.py") == "bye\n"
    assert "also create bye.py" in core.turns[0]["completions"][0]["text"]
    assert ("check", {"path": "bye.py"}) in core.workspace.calls


async def test_the_person_is_asked_when_they_say_so(core: SmallCore) -> None:
    """`ask` is called once, and its answer is used."""
    core.workspace.answers = ["greeter.py"]
    core.write("Create a script that prints hello; ask me which name it should have")
    assert await core.until_rest() == "END"
    assert [call for call in core.workspace.calls if call[0] == "ask"] == [
        ("ask", {"question": "Which name it should have?"})
    ]
    assert output(core.workspace.root, "greeter.py") == "hello\n"


async def test_refused_writes_end_in_an_honest_sentence(core: SmallCore) -> None:
    core.workspace.locked = {"hello.py"}
    core.write("Create hello.py that prints hello")
    assert await core.until_rest() == "USER"
    assert "permission denied" in core.turns[0]["completions"][0]["text"]
    writes = [call for call in core.workspace.calls if call[0] == "write_file"]
    assert len(writes) == 2


async def test_half_a_success_is_sent_back_and_then_handed_to_the_person(core: SmallCore) -> None:
    """One file can be written and one cannot: verification says so, the repair says why, the person mends it."""
    core.workspace.locked = {"bye.py"}
    core.write("create hello.py that prints hello and bye.py that prints bye")
    assert await core.until_rest() == "USER"
    assert core.phases == ["execute", "verification", "execute"]
    assert "bye.py" in core.turns[1]["completions"][0]["text"]
    assert "permission denied" in core.turns[2]["completions"][0]["text"]
    core.workspace.locked = set()
    core.write("continue")
    assert await core.until_rest() == "END"
    assert output(core.workspace.root, "bye.py") == "bye\n"


async def test_a_path_outside_is_refused_and_said(core: SmallCore) -> None:
    core.write("Create ../evil.py that prints hello")
    assert await core.until_rest() == "USER"
    assert "outside the workspace" in core.turns[0]["completions"][0]["text"]


async def test_a_very_long_text_is_written_whole(core: SmallCore) -> None:
    words = "lorem ipsum " * 8_400
    core.write(f'Write notes.txt with "{words}"')
    assert await core.until_rest() == "END"
    assert (core.workspace.root / "notes.txt").read_text() == words.rstrip() + "\n"


async def test_two_requests_in_one_conversation_are_two_cycles(core: SmallCore) -> None:
    """The second request is not mixed up with the first."""
    core.write("Create hello.py that prints hello")
    assert await core.until_rest() == "END"
    core.turns, core.messages, core.phases = [], [], []
    core.phase = core.phase.CHAT
    core.write("Change hello to goodbye in hello.py")
    assert await core.until_rest() == "END"
    assert output(core.workspace.root, "hello.py") == "goodbye\n"
