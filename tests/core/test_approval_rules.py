"""Rules on calls: which one decides, and that an allow rule lets no command through but the one it names."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.approvals.decide import asked_call, digest_of, prefixes_of
from tenex.core.approvals.message import scope
from tenex.core.approvals.rules import ApprovalRule, Judgement, Verdict, judge, matches
from tenex.core.approvals.shell_readings import reading
from tenex.core.approvals.shell_text import parsed
from tenex.core.approvals.state import AskedCall, Permission
from tenex.core.config import Replay, ToolRule
from tenex.core.ids import CallId, Millis
from tenex.core.messages import CallRequest
from tenex.core.phases import Access, Phase
from tenex.core.work.run import Call


def rule(decision: str, name: str = "", **more: Any) -> ApprovalRule:
    return ApprovalRule(decision=Verdict(decision), name=name or decision, **more)


STATUS = rule("allow", tool="shell", match=("git", "status", "*"))


def judged(rules: list[ApprovalRule], command: str, *, asks: bool = True, **more: Any) -> Judgement:
    given: dict[str, Any] = {"tool": "shell", "phase": Phase.EXECUTE, "agent": "executor", **more}
    return judge(rules, asks=asks, arguments={"command": command}, **given)


PLAIN = [
    "git status", "git  status --short", "git status -- 'a b.py'", 'git status -- "a"', "git status -- a=b",
    "git status && git status -s", "git status; git status", "git status | git status", "git status\ngit status",
]  # fmt: skip


def test_a_rule_about_the_shell_is_about_background_commands_too() -> None:
    push = rule("refuse", tool="shell", match=("git", "push"))
    assert judged([push], "git push", tool="shell_start").verdict is Verdict.REFUSE
    assert judged([STATUS], "git status", tool="shell_start").verdict is Verdict.ALLOW
    only_background = rule("refuse", tool="shell_start")
    assert judged([only_background], "ls", tool="shell", asks=False).verdict is Verdict.ALLOW


@pytest.mark.parametrize("command", PLAIN)
def test_an_allow_rule_lets_plain_words_through(command: str) -> None:
    assert judged([STATUS], command).verdict is Verdict.ALLOW


SHAPES = [
    # other commands beside the one that is allowed
    "git status && rm -rf .", "git status || rm x", "git status; rm x", "git status | sh", "git status & rm x",
    "git status\nrm x", "git status |& tee x", "rm x; git status", "(git status; rm x)", "{ git status; rm x; }",
    "git status && (rm x)", "! git status", "if git status; then rm x; fi", "while git status; do rm x; done",
    "for f in a; do git status; done", "f() { rm x; }; git status", "coproc git status",
    # substitutions, redirections, assignments
    "git status $(rm x)", "git status `rm x`", 'git status "$(rm x)"', "git status <(rm x)", "git status >(rm x)",
    "git status > ~/.bashrc", "git status >> x", "git status < x", "git status 2>&1", "git status <<< x",
    "git status << E\n$(rm x)\nE", "GIT_SSH_COMMAND=evil git status", "GIT_PAGER='rm x' git status",
    "A=1 B=2 git status", "git status ${IFS}x", "git status $HOME", "$GIT status",
    # another program or verb under that name
    "git -c core.pager=evil status", "git --exec-path=. status", "git -C /elsewhere status", "./git status",
    "/usr/bin/git status", "gi\\t status", "g''it status", '"git" status', "git sta\\\ntus", "git status-x", "git",
    "git 'status x'", "git s* x", "g[i]t status", "~/git status", "git status ~/x", "git status {a,b}", "git status *",
    # programs that run programs
    "env git status", "bash -c 'git status'", "sh -c 'git status; rm x'", "timeout 5 git status", "xargs git status",
    "sudo git status", "nohup git status", "find . -exec git status ;", "command git status", "exec git status",
    "git status --exec=evil", "git status --upload-pack=evil", "eval git status",
    # what a parser and a shell may read in two ways
    "git status 'a", 'git status "a', "git status )", "git status # x", "git status \x0b", "git status\r",
    "git status \u202e", "git status \u200b", "git status\u00a0x", "", "   ", "git status \x00",
]  # fmt: skip


@pytest.mark.parametrize("command", SHAPES)
def test_whatever_is_more_than_the_allowed_words_asks(command: str) -> None:
    assert judged([STATUS], command).verdict is Verdict.ASK
    assert judged([STATUS], f"git status && {command}").verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    ["git push", "git push origin main", "cd x && git push", "echo $(git push)", "echo `git push`", "(git push)",
     "git -C x push", "git -c a=b push", "/usr/bin/git push", "bash -c 'git push'", "sudo -u bob git push",
     "timeout 5 git push", "xargs git push", "find . -exec git push ;", "if true; then git push; fi", "g''it push",
     "git push <<< x", "A=1 git push", "git\\\n push", "eval 'git push'", 'sh -c "bash -c \'git push\'"', "git push 'a",
     "cat << E\n$(git push)\nE"],
)  # fmt: skip
def test_refuse_and_ask_rules_match_any_part(command: str) -> None:
    for decision in ("ask", "refuse"):
        rules = [rule("allow", tool="shell"), rule(decision, match=("git", "push"))]
        assert judged(rules, command, asks=False) == Judgement(verdict=Verdict(decision), rule=decision)


@pytest.mark.parametrize("command", ["git pull", "echo push", "git pushy", "git log --grep=push"])
def test_other_commands_are_no_match(command: str) -> None:
    assert judged([rule("refuse", match=("git", "push"))], command, asks=False).verdict is Verdict.ALLOW


def test_the_order_is_refuse_permissions_ask_allow_default() -> None:
    allow, ask, refuse = (rule(name, match=("git", "push")) for name in ("allow", "ask", "refuse"))
    permission = rule("allow", "permission", match=("git", "push"))
    order = [([allow, ask, refuse], [permission], "refuse"), ([allow, ask], [permission], "permission")]
    order += [([allow, ask], [], "ask"), ([allow], [], "allow")]
    for rules, permissions, decisive in order:
        found = judge(
            rules,
            permissions,
            tool="shell",
            asks=True,
            arguments={"command": "git push"},
            phase=Phase.EXECUTE,
            agent="executor",
        )
        assert found.rule == decisive
    assert judged([], "git push").verdict is Verdict.ASK
    assert judged([], "git push", asks=False).verdict is Verdict.ALLOW


def test_several_rules_allow_a_line_together() -> None:
    rules = [STATUS, rule("allow", "cd", match=("cd", "*"))]
    assert judged(rules, "cd app && git status").rule == "cd and allow"
    assert judged(rules, "cd app && git push").verdict is Verdict.ASK


def test_a_program_that_runs_others_is_allowed_only_word_for_word() -> None:
    rules = [rule("allow", match=("python", "-m", "pytest", "-q"))]
    assert judged(rules, "python -m pytest -q").verdict is Verdict.ALLOW
    assert judged(rules, "python -m pytest -q -p evil").verdict is Verdict.ASK
    assert judged([rule("allow", match=("make", "test"))], "make test").verdict is Verdict.ALLOW
    assert judged([rule("allow", match=("make",))], "make test").verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("condition", "other"),
    [({"tool": "python"}, {"tool": "python"}), ({"phase": "verification"}, {"phase": Phase.VERIFICATION}),
     ({"agent": "helper"}, {"agent": "helper"}), ({"tool": "sh*"}, {"tool": "shard"})],
)  # fmt: skip
def test_a_rule_counts_only_where_it_says(condition: dict[str, Any], other: dict[str, Any]) -> None:
    rules = [rule("refuse", **condition)]
    assert judged(rules, "x", asks=False, **other).verdict is Verdict.REFUSE
    if condition != {"tool": "sh*"}:
        assert judged(rules, "x", asks=False).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("decision", "condition", "arguments", "fits"),
    [
        ("refuse", {"path": "infra/*"}, {"path": "infra/a.tf"}, True),
        ("refuse", {"path": "infra/*"}, {"path": "x/../infra/a.tf"}, True),
        ("refuse", {"path": "infra/*"}, {"source": "a", "target": "infra/b"}, True),
        ("refuse", {"path": "infra/*"}, {"path": "src/a"}, False),
        ("refuse", {"path": "café/*"}, {"path": "cafe\u0301/a"}, True),
        ("refuse", {"path": "cafe\u0301/*"}, {"path": "café/a"}, True),
        ("allow", {"path": "docs/*"}, {"path": "docs/a.md"}, True),
        ("allow", {"path": "docs/*"}, {"path": "docs/../src/a"}, False),
        ("allow", {"path": "docs/*"}, {"source": "docs/a", "target": "src/b"}, False),
        ("allow", {"path": "docs/*"}, {}, False),
        ("allow", {"host": "*.example.org"}, {"url": "https://api.example.org/v1"}, True),
        ("allow", {"host": "example.org"}, {"url": "https://example.org@evil.net/"}, False),
        ("allow", {"host": "example.org"}, {"url": "https://example.org.evil.net/"}, False),
        ("allow", {"host": "example.org"}, {"urls": ["https://example.org", "https://evil.net"]}, False),
        ("allow", {"host": "example.org"}, {"command": "curl https://example.org"}, False),
        ("allow", {"host": "example.org", "match": ("curl", "*")}, {"command": "curl https://example.org"}, True),
        ("refuse", {"host": "evil.net"}, {"deep": {"er": ["see https://EVIL.net:8080/x"]}}, True),
    ],
)
def test_paths_and_hosts(decision: str, condition: dict[str, Any], arguments: dict[str, Any], fits: bool) -> None:
    assert matches(rule(decision, **condition), arguments) is fits


@pytest.mark.parametrize(
    ("command", "prefixes"),
    [
        ("git status -s && npm test", (("git", "status"), ("npm", "test"))),
        ("git log --oneline main", (("git", "log", "main"),)),
        ("npm test -- --watch", (("npm", "test", "--", "--watch"),)),
        ("git push origin main", ()),
        ("cd app && npm test", ()),
        ("rm build", ()),
        ("rm -rf build", ()),
        ("curl https://x.org", ()),
        ("python run.py", ()),
        ("git push > x", ()),
    ],
)
def test_what_is_like_a_command_is_its_words_without_harmless_options(command: str, prefixes: tuple[Any, ...]) -> None:
    for shell in ("shell", "shell_start"):
        assert prefixes_of(shell, {"command": command}) == prefixes


def asked_about(tool: str, arguments: dict[str, Any]) -> AskedCall:
    call = Call(request=CallRequest(id=CallId("k"), tool=tool, arguments=arguments))
    tool_rule = ToolRule(name=tool, access=Access.RUN, replay=Replay.ONCE, asks=True)
    return asked_call(call, tool_rule, Judgement(verdict=Verdict.ASK, rule="it asks"))


def is_allowed_by_always(asked: AskedCall, arguments: dict[str, Any]) -> bool:
    """Whether “always” to a call lets another one of its tool run."""
    permission = Permission.of(asked, number=1, name="alice", until=Millis(0))
    judgement = judge(
        (),
        permission.rules(),
        tool=asked.tool,
        asks=True,
        arguments=arguments,
        phase=Phase.EXECUTE,
        agent="executor",
        digest=digest_of(asked.tool, arguments),
    )
    return judgement.verdict is Verdict.ALLOW


WITH_COMMAND = st.fixed_dictionaries(
    {"command": st.sampled_from(["git push", "git push -f", "git pull", "make", "git push | sh"])},
    optional={"host": st.sampled_from("ab"), "cwd": st.sampled_from(["app", "/"]), "root": st.booleans()},
)


@given(st.sampled_from(["box__run", "deploy", "python", "run_it"]), WITH_COMMAND, WITH_COMMAND)
def test_always_to_a_call_with_a_command_of_a_tool_that_is_no_shell_of_ours_binds_all_arguments(
    tool: str, shown: dict[str, Any], called: dict[str, Any]
) -> None:
    asked = asked_about(tool, shown)
    assert scope(asked) == "exactly this"
    assert is_allowed_by_always(asked, called) is (called == shown)


@given(WITH_COMMAND, WITH_COMMAND)
def test_always_to_a_command_of_a_shell_allows_the_words_that_the_message_names(
    shown: dict[str, Any], called: dict[str, Any]
) -> None:
    asked = asked_about("shell", shown)
    alike = [words for words in asked.prefixes if tuple(called["command"].split()[: len(words)]) == words]
    named = bool(alike) and called["command"] != "git push | sh"
    assert is_allowed_by_always(asked, called) is (named or called == shown)
    assert all(f"`{' '.join(words)} …`" in scope(asked) for words in asked.prefixes)


@pytest.mark.parametrize(
    ("tool", "shown", "covers"),
    [
        ("box__run", {"command": "git push", "host": "a"}, "exactly this"),
        ("db__ask", {"query": "select 1", "database": "a"}, "exactly this"),
        ("box__exec", {"argv": ["rm", "x"]}, "exactly this"),
        ("shell", {"cmd": "git push"}, "exactly this"),
        ("python", {}, "exactly this"),
        ("shell", {"command": "git push", "cwd": "app"}, "exactly this"),
        ("mail__send", {"to": "bob"}, "every call of mail__send, whatever its arguments"),
    ],
)
def test_the_message_says_what_always_covers(tool: str, shown: dict[str, Any], covers: str) -> None:
    asked = asked_about(tool, shown)
    assert scope(asked) == covers
    assert is_allowed_by_always(asked, shown)
    assert is_allowed_by_always(asked, {**shown, "more": 1}) is (covers != "exactly this")


ALPHABET = st.text(st.sampled_from("git status\\\"'`$(){}<>|&;*~#=-\n\t ab"), max_size=40)


@given(ALPHABET)
def test_the_words_of_a_plain_line_are_those_that_a_shell_reads(line: str) -> None:
    """`shlex` reads plain words as a shell does, by a reader of its own."""
    text = parsed(line)
    if text.is_plain:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|\n")
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
        read = [word for word in lexer if not set(word) <= set(";&|\n")]
        words = [word for command in text.commands for word in command]
        assert [word for word in words if not set(word) <= set(";&|\n")] == read
        assert not set(line) & set("\\`$")


@given(st.text(max_size=60))
def test_any_text_can_be_read(line: str) -> None:
    assert isinstance(parsed(line).is_plain, bool)
    assert isinstance(reading(line).may_run(("git", "push")), bool)
    assert isinstance(matches(rule("refuse", host="a.org"), {"a": line}), bool)


def test_characters_beyond_the_tables_of_the_parser_do_not_end_the_process() -> None:
    for number in range(0x80, 0x110000, 997):
        for line in ("{%s", "a{1..%s}", "$%s", "${a%s}", "<<%s"):
            parsed(line % chr(number))


def test_words_beyond_ascii_are_whole() -> None:
    assert parsed("git commit -m 'größer 漢 👍' ß").commands == (("git", "commit", "-m", "größer 漢 👍", "ß"),)


def nested(levels: int) -> str:
    return "sh $(" * levels + "a b c d e f" + ")" * levels


def test_a_line_of_nested_substitutions_is_read_up_to_a_bound() -> None:
    text = parsed(nested(60))
    assert not text.is_plain
    assert len(reading(nested(60)).commands) <= 600
    assert judged([rule("refuse", tool="shell", match=("sh",))], nested(60)).verdict is Verdict.REFUSE


@pytest.mark.parametrize(
    "command",
    [
        "git -c alias.p=push p origin", "git --shallow-file f push", "git bisect run git push", "uv run git push",
        "git submodule foreach git push", "trap 'git push' EXIT", "prlimit git push", "poetry run git push",
    ],
)  # fmt: skip
def test_a_refused_command_is_found_behind_what_runs_it(command: str) -> None:
    refused = [rule("refuse", tool="shell", match=("git", "push")), rule("allow", tool="shell")]
    assert judged(refused, command).verdict is Verdict.REFUSE


@pytest.mark.parametrize(
    ("allowed", "command"),
    [
        (("git", "fetch"), "git fetch '--upload-pa=touch X; git-upload-pack' ."),
        (("git", "rebase"), "git rebase --exe 'rm x'"),
        (("git", "bisect"), "git bisect run rm x"),
        (("sort",), "sort --compress-program=./z.sh f"),
        (("rg",), "rg --pre ./z.sh x"),
    ],
    ids=str,
)
def test_an_allowed_program_with_an_option_that_runs_another_asks(allowed: tuple[str, ...], command: str) -> None:
    assert judged([rule("allow", tool="shell", match=allowed)], command).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a.tf", "to": "infra/a.tf"},
        {"path": "/srv/work/infra/a.tf"},
        {"file_path": "infra/a.tf"},
        {"edits": [{"path": "infra/a.tf"}]},
    ],
    ids=str,
)
def test_a_refused_path_is_found_wherever_it_is_named(arguments: dict[str, Any]) -> None:
    refused = rule("refuse", path="infra/*")
    said: dict[str, Any] = {"tool": "write_file", "phase": Phase.EXECUTE, "agent": "executor", "asks": False}
    assert judge([refused], arguments=arguments, **said).verdict is Verdict.REFUSE


@pytest.mark.parametrize(
    "address",
    ["https://a@b@evil.com/", "https://" + "u" * 300 + "@evil.com/", "https://evil.com#@ok.org/", "https://evil.com?@ok.org/",
     "https://evil.com\\@ok.org/"],
)  # fmt: skip
def test_the_host_of_an_odd_address_is_the_one_that_programs_go_to(address: str) -> None:
    assert matches(rule("refuse", host="evil.com"), {"url": address})
    said: dict[str, Any] = {"tool": "web__fetch", "phase": Phase.EXECUTE, "agent": "executor", "asks": True}
    assert judge([rule("allow", host="ok.org")], arguments={"url": address}, **said).verdict is Verdict.ASK


# ---- what a call needs beyond the sandbox ----

NETWORK = {"network": "use the network"}
BOTH = {**NETWORK, "write_git": "write to the git repository"}


def test_a_call_that_needs_something_asks_by_itself() -> None:
    assert judged([], "npm ci", asks=False).verdict is Verdict.ALLOW
    judgement = judged([], "npm ci", asks=False, needs=BOTH)
    assert judgement.verdict is Verdict.ASK
    assert "use the network and to write to the git repository" in judgement.rule


@pytest.mark.parametrize("needs", [{}, NETWORK, {"write_git": "w"}, BOTH])
@pytest.mark.parametrize("named", [{}, NETWORK, {"write_git": "w"}, BOTH])
def test_what_is_allowed_is_exactly_what_is_needed(needs: dict[str, str], named: dict[str, str]) -> None:
    is_same = needs.keys() == named.keys()
    allowing = rule("allow", tool="shell", match=("npm", "ci"), needs=frozenset(named))
    whole_tool = rule("allow", tool="shell", needs=frozenset(named))
    for one in (allowing, whole_tool):
        assert (judged([one], "npm ci", needs=needs).verdict is Verdict.ALLOW) is is_same
    permission = Permission(
        number=1, tool="shell", prefixes=(("npm", "ci"),), digest="", line="", name="a", until=Millis(0),
        needs=tuple(named),
    )  # fmt: skip
    given: dict[str, Any] = {"tool": "shell", "phase": Phase.EXECUTE, "agent": "executor", "asks": True}
    judgement = judge([], permission.rules(), arguments={"command": "npm ci"}, needs=needs, **given)
    assert (judgement.verdict is Verdict.ALLOW) is is_same


def test_parts_are_allowed_only_by_rules_with_the_same_needs() -> None:
    rules = [rule("allow", match=("git", "status")), rule("allow", match=("npm", "ci"), needs=frozenset(NETWORK))]
    assert judged(rules, "npm ci && git status", needs=NETWORK).verdict is Verdict.ASK
    rules.append(rule("allow", match=("git", "status"), needs=frozenset(NETWORK)))
    assert judged(rules, "npm ci && git status", needs=NETWORK).verdict is Verdict.ALLOW


@pytest.mark.parametrize("decision", ["ask", "refuse"])
def test_what_asks_or_refuses_fits_whatever_more_is_needed(decision: str) -> None:
    about_network = rule(decision, needs=frozenset(NETWORK))
    allowing = [rule("allow", needs=frozenset(needs)) for needs in ({}, NETWORK, BOTH)]
    verdicts = [judged([about_network, *allowing], "x", needs=needs).verdict for needs in ({}, NETWORK, BOTH)]
    assert verdicts == [Verdict.ALLOW, Verdict(decision), Verdict(decision)]
    every = rule(decision, match=("npm",))
    assert judged([every, *allowing], "npm ci", needs=NETWORK).verdict is Verdict(decision)


def test_always_says_what_it_is_for() -> None:
    asked = AskedCall(
        call=CallId("k"), tool="shell", replay=Replay.ONCE, digest="", line="", rule="", prefixes=(("npm", "ci"),),
        needs=("network",),
    )  # fmt: skip
    assert scope(asked) == "`npm ci …` with harmless options and network, in any folder"


def test_examples_of_a_rule_are_calls_with_its_needs() -> None:
    assert matches(rule("allow", match=("npm", "ci"), needs=frozenset(NETWORK)), {"command": "npm ci"})
