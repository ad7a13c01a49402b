"""What proves that a person gave up a gate, and which tool may be used by whom and where."""

import pytest

from tenex.core.gates import may_use, proof_of_waiver, refusal
from tenex.core.ids import EventId, Millis, PublicKey
from tenex.core.phases import Access, Phase
from tenex.core.roster import GateRules, Kind, Role
from tenex.core.runs import Message
from tenex.settings.waivers import WAIVER_PHRASES
from tests.fakes.play import TOOLS, agent, rules

SHIPPED = GateRules(waiver_phrases=WAIVER_PHRASES)


def wrote(event_id: str, text: str, role: Role | None = Role.OWNER) -> Message:
    return Message(
        seq=1, at=Millis(1), event_id=EventId(event_id), author=PublicKey("a" * 64), name="alice", text=text,
        phase=Phase.EXECUTE, role=role,
    )  # fmt: skip


def prove(text: str, quote: str, *, role: Role | None = Role.OWNER, gates: GateRules = SHIPPED) -> str | None:
    """None if the quote proves a waiver, else the sentence that says why not."""
    verdict = proof_of_waiver((wrote("m", text, role),), quote, "m", gates)
    return verdict if isinstance(verdict, str) else None


# ---- the proof ----------------------------------------------------------------------------------------------------


def test_only_the_message_that_is_named_proves_a_waiver() -> None:
    said = (wrote("first", "Skip the tests"), wrote("second", "Run the tests"))
    assert proof_of_waiver(said, "Skip the tests", "first", SHIPPED) is said[0]
    assert "does not stand" in str(proof_of_waiver(said, "Skip the tests", "second", SHIPPED))
    assert "'third' is none" in str(proof_of_waiver(said, "Skip the tests", "third", SHIPPED))


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("Skip the tests", "Skip the tests"),
        ("Make it quick. Please skip verification, I am in a hurry.", "skip verification"),
        ("There is no need to test this.", "no need to test"),
        ("You don't need to verify it", "don't need to verify"),
        ("do it without tests", "without tests"),
        ("SKIP THE TESTS", "SKIP THE TESTS"),
        ("skip the tests, not the docs", "skip the tests"),
        ("It is not pretty. Skip the checks anyway.", "Skip the checks"),
        ("Ohne Prüfung bitte", "Ohne Prüfung"),
        ("Die Prüfung ist nicht nötig", "nicht nötig"),
        ("no hace falta probarlo", "no hace falta"),
        ("pas besoin de vérifier", "pas besoin de"),
        ("não precisa testar", "não precisa"),
        ("non serve la verifica", "non serve"),
        ("пропусти проверку", "пропусти проверку"),
        ("テストはスキップして", "スキップして"),
        ("跳过测试", "跳过测试"),
        ("테스트는 생략해 주세요", "생략해 주세요"),
    ],
)
def test_words_that_say_it_prove_it(text: str, quote: str) -> None:
    assert prove(text, quote) is None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("Please don't skip the tests", "skip the tests"),
        ("Please don't skip the tests", "don't skip the tests"),
        ("Please don’t skip the tests", "skip the tests"),
        ("dont skip the tests", "skip the tests"),
        ("Do not, under any circumstances, skip verification.", "skip verification"),
        ("You must never skip it", "skip it"),
        ("skip nothing", "skip nothing"),
        ("skip no tests", "skip no tests"),
        ("skip none of the checks", "skip none"),
        ("Überspringe die Tests bitte nicht", "Überspringe die Tests"),
        ("bitte nicht auslassen", "auslassen"),
        ("ne saute pas les tests", "saute"),
        ("no saltar las pruebas", "saltar las pruebas"),
        ("не пропусти тесты", "пропусти тесты"),
        ("nie pomiń testów", "pomiń testów"),
        ("不要跳过测试", "跳过测试"),
        ("テストをスキップしないで", "スキップしないで"),
        ("테스트를 건너뛰지 마세요", "건너뛰지"),
        ("I will skip lunch. Do not skip the tests.", "skip"),
    ],
)
def test_a_negated_waiver_is_none(text: str, quote: str) -> None:
    why = prove(text, quote)
    assert why is not None
    assert "negated" in why


@pytest.mark.parametrize("text", ["Why did you skip the tests?", "Should we skip the tests?", "skip the tests？"])
def test_a_question_is_no_waiver(text: str) -> None:
    why = prove(text, "skip the tests")
    assert why is not None
    assert "question" in why


@pytest.mark.parametrize(
    "text",
    [
        "> skip the tests\nNo way.",
        "The log says:\n   > skip the tests\nwhat is that",
        'Bob wrote "skip the tests" in his mail',
        "Bob wrote “skip the tests” in his mail",
        "Bob schrieb „skip the tests“ in his mail",
        "Bob wrote 'skip the tests' in his mail",
        "Bob wrote ‘skip the tests’ in his mail",
        "Bob a écrit «skip the tests» hier",
        "ボブは「skip the tests」と書いた",
        "the flag is `skip the tests`",
        "```\nskip the tests\n```",
        "```\nskip the tests",
    ],
)
def test_quoted_text_proves_nothing(text: str) -> None:
    why = prove(text, "skip the tests")
    assert why is not None
    assert "own words" in why


def test_apostrophes_are_no_quotation_marks() -> None:
    assert prove("It's late, so skip the tests; it's fine", "skip the tests") is None


@pytest.mark.parametrize(
    "quote",
    [
        "Skip the Tests",
        "skip the  tests",
        "skip the tests!",
        "skip all the tests",
        "skip the tests\n",
        " skip the tests ",
    ],
)
def test_a_quote_that_does_not_stand_letter_for_letter_proves_nothing(quote: str) -> None:
    why = prove("please\nskip the tests, will you", quote)
    assert why is not None


@pytest.mark.parametrize("quote", ["", " ", "\0", "s", "ski", "   s   "])
def test_a_quote_of_nothing_proves_nothing(quote: str) -> None:
    assert prove("s ski skip \0 the tests", quote) is not None


def test_words_that_say_nothing_about_it_prove_nothing() -> None:
    why = prove("make it blue, please", "make it blue")
    assert why == "The quote does not say that a check may be left out."


def test_a_quote_cut_out_of_longer_words_proves_nothing() -> None:
    assert prove("The skipper said hello", "skip") is not None
    assert prove("Mr. Skippy and the unskipped", "skip") is not None


@pytest.mark.parametrize("role", [Role.MEMBER, Role.GUEST, None])
def test_words_of_somebody_who_may_not_waive_prove_nothing(role: Role | None) -> None:
    why = prove("skip the tests", "skip the tests", role=role)
    assert why is not None
    assert "may not waive" in why


def test_members_may_waive_where_the_operator_says_so() -> None:
    gates = GateRules(waiver_phrases=("skip",), members_may_waive=True)
    assert prove("skip the tests", "skip the tests", role=Role.MEMBER, gates=gates) is None
    assert prove("skip the tests", "skip the tests", role=Role.GUEST, gates=gates) is not None


def test_without_phrases_nothing_is_a_waiver() -> None:
    assert prove("skip the tests", "skip the tests", gates=GateRules()) is not None


@pytest.mark.parametrize("phrase", WAIVER_PHRASES)
def test_every_shipped_phrase_works_alone(phrase: str) -> None:
    if len(phrase) >= 4:
        assert prove(phrase, phrase) is None
    longer = f"{phrase} ... please"
    assert prove(longer, longer) is None


# ---- tools --------------------------------------------------------------------------------------------------------

USES = {
    Phase.CHAT: {"complete", "ask"},
    Phase.BRAINSTORM: {"complete", "ask", "read_file"},
    Phase.PLAN: {"complete", "ask", "read_file"},
    Phase.EXECUTE: {"complete", "ask", "read_file", "write_file", "send", "check"},
    Phase.VERIFICATION: {"complete", "ask", "read_file", "check"},
    Phase.CHORES: {"complete", "ask", "read_file", "write_file", "send", "check"},
    Phase.REFLECTION: {"complete", "learn"},
}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_worker_uses_what_its_phase_permits(phase: Phase, tool: str) -> None:
    permitted = tool in USES[phase]
    assert may_use(TOOLS[tool], phase, agent("executor")) is permitted
    assert (refusal(tool, phase, agent("executor"), rules()) is None) is permitted


@pytest.mark.parametrize("phase", Phase)
def test_an_expert_changes_and_runs_nothing_in_any_phase(phase: Phase) -> None:
    expert = agent("security", Kind.EXPERT)
    used = {name for name, tool in TOOLS.items() if may_use(tool, phase, expert)}
    assert used == USES[phase] - {"write_file", "send", "check"}


@pytest.mark.parametrize("phase", Phase)
def test_the_orchestrator_uses_no_tool_at_all(phase: Phase) -> None:
    assert not any(may_use(tool, phase, agent("orchestrator", Kind.ORCHESTRATOR)) for tool in TOOLS.values())


def test_a_tool_its_definition_does_not_name_is_not_its_own() -> None:
    reader = agent("reader", tools=("read_file",))
    used = {name for name, tool in TOOLS.items() if may_use(tool, Phase.EXECUTE, reader)}
    assert used == {"read_file", "complete", "ask"}


def test_a_refusal_says_what_may_be_used_instead() -> None:
    sentence = refusal("write_file", Phase.PLAN, agent("planner"), rules())
    assert sentence == (
        "The tool write_file may not be used by planner in the plan phase; nothing was done. "
        "You may use: ask, complete, read_file."
    )
    unknown = refusal("teleport", Phase.CHAT, agent("planner"), rules())
    assert unknown == "There is no tool teleport. You may use: ask, complete."


def test_what_reads_the_workspace_is_no_use_in_chat() -> None:
    assert TOOLS["read_file"].access is Access.READ
    assert refusal("read_file", Phase.CHAT, agent("project-manager"), rules()) is not None
