"""`tenex agents`: who works here; looking makes no keys."""

import json
import re
from pathlib import Path

import pytest

from tenex.cli.main import main
from tenex.nostr.keys import KeyRing
from tenex.prompting import builtin_prompts

BUILT_IN = ["executor", "orchestrator", "planner", "project-manager", "security-expert"]

MINE = """---
name: Critic
role: finds what is missing
kind: expert
use_when: a plan needs a second look
in_phases: [plan]
tools: [read_file]
---
You read and object.

## In plan

Name the weakest step.
"""


def run(capsys: pytest.CaptureFixture[str], data: Path, *arguments: str) -> str:
    assert main(["--data", str(data), "agents", *arguments]) == 0
    return capsys.readouterr().out


def test_list_names_the_built_in_agents_and_makes_no_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path), "agents", "list"]) == 0
    out, stderr = capsys.readouterr()
    head, *lines = out.splitlines()
    assert head.split() == ["SLUG", "KIND", "MODEL", "IN_PHASES", "NPUB"]
    assert [line.split()[0] for line in lines] == BUILT_IN
    assert " init` makes it" in stderr
    assert list(tmp_path.iterdir()) == []


def test_json_holds_kind_phases_tools_and_the_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = KeyRing(tmp_path / "keys")
    project, executor = keys.get_or_create("project"), keys.get_or_create("executor")
    found = {row["slug"]: row for row in json.loads(run(capsys, tmp_path, "list", "--json"))}
    assert found["orchestrator"]["npub"] == project.npub
    assert found["executor"]["npub"] == executor.npub
    assert found["planner"]["npub"] is None
    assert found["executor"]["kind"] == "worker"
    assert "execute" in found["executor"]["in_phases"]
    assert "write_file" in found["executor"]["tools"]
    assert found["orchestrator"]["tools"] == []


def test_an_agent_of_ones_own_is_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "critic.md").write_text(MINE)
    assert "critic" in run(capsys, tmp_path, "list")
    shown = run(capsys, tmp_path, "show", "critic")
    assert "You read and object." in shown
    assert "## In plan\n\nName the weakest step." in shown
    found = json.loads(run(capsys, tmp_path, "show", "critic", "--json"))
    assert (found["name"], found["kind"], found["in_phases"], found["model"]) == (
        "Critic",
        "expert",
        ["plan"],
        "offline",
    )


def test_an_unknown_agent_is_a_usage_error_that_names_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "agents", "show", "unknown"]) == 2
    assert f"Choose from {', '.join(BUILT_IN)}" in capsys.readouterr().err


def test_the_models_in_use_are_listed_by_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tenex.toml").write_text(
        'models.default = ["openai:a", "offline"]\nmodels.router = "openai:r"\nmodels.phases.plan = "openai:p"\n'
        'models.agents.executor.model = "openai:e"\n'
    )
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "critic.md").write_text(MINE.replace("kind:", "model: openai:own\nkind:"))
    found = {row["slug"]: row for row in json.loads(run(capsys, tmp_path, "list", "--json"))}
    assert {slug: row["model"] for slug, row in found.items()} == {
        "critic": "openai:own",
        "executor": "openai:e",
        "orchestrator": "openai:r",
        "planner": "openai:a, then offline; openai:p in plan",
        "project-manager": "openai:a, then offline; openai:p in plan",
        "security-expert": "openai:a, then offline; openai:p in plan",
    }
    assert found["planner"]["models"]["plan"] == ["openai:p"]
    assert found["orchestrator"]["models"] == {"route": ["openai:r"]}


def test_a_key_that_others_may_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    KeyRing(tmp_path / "keys").get_or_create("executor")
    (tmp_path / "keys" / "executor.nsec").chmod(0o640)
    assert main(["--data", str(tmp_path), "agents", "list"]) == 3
    assert "others may read this key" in capsys.readouterr().err


def test_an_unknown_tool_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "critic.md").write_text(MINE.replace("[read_file]", "[read_fiel]"))
    assert main(["--data", str(tmp_path), "agents", "list"]) == 3
    stderr = capsys.readouterr().err
    assert "critic.md" in stderr
    assert "Did you mean `read_file`?" in stderr


# ---- what a model would be sent


def test_a_prompt_is_printed_whole_as_it_would_be_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["agents", "show", "executor", "--prompt", "--phase", "Execute", "--message", "Write <b> & x"]
    assert main(["--data", str(tmp_path), *arguments]) == 0
    out, stderr = capsys.readouterr()
    parts = re.split(r"^===== (.+) =====$", out, flags=re.MULTILINE)
    names, texts = parts[1::2], parts[2::2]
    found = dict(zip(names, texts, strict=True))
    assert names[0] == "system"
    assert names[-1] == "message"
    assert '<note title="The phase: execute">' in found["message"]
    assert json.loads(found["tool read_file"].strip().splitlines()[-1])["type"] == "object"
    assert (
        '<message from="you" role="owner" key="npub1qqqqqqq" kind="person">\nWrite <b> & x\n</message>'
        in found["message"]
    )
    assert '<note title="Your part">' in found["message"]
    assert re.fullmatch(r"In execute, to offline; about [\d,]+ tokens\.\n", stderr)
    assert list(tmp_path.iterdir()) == []


def test_a_prompt_is_printed_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, tmp_path, "show", "project-manager", "--prompt", "--json"))
    assert (found["agent"], found["phase"], found["models"]) == ("project-manager", "chat", ["offline"])
    assert {"read_file", "search_conversation", "learn"} <= {tool["name"] for tool in found["tools"]}
    assert [entry["type"] for entry in found["entries"]] == ["UserText", "Note", "Note"]
    permitted = "You may use only `search_conversation`, `ask`, `complete`, `hand_over`."
    assert found["entries"][1]["text"].startswith(permitted)
    assert found["output_schema"] is None


def test_of_the_orchestrator_its_question_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, tmp_path, "show", "orchestrator", "--prompt", "--json"))
    question = json.loads(found["entries"][0]["text"])
    assert [member["slug"] for member in question["roster"]] == [s for s in BUILT_IN if s != "orchestrator"]
    assert found["output_schema"]["required"] == ["agents", "reason"]
    assert found["tools"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--phase", "plan"], "need --prompt"),
        (["--prompt", "--phase", "planing"], "'planing' is not a phase. Choose from chat, brainstorm"),
        (["--prompt", "--conversation", "ab"], "No conversation begins with ab"),
        (["--prompt", "--conversation", "ab", "--message", "x"], "cannot be used with --conversation"),
    ],
)
def test_wrong_options_for_a_prompt_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["--data", str(tmp_path), "agents", "show", "executor", *arguments]) == 2
    assert sentence in capsys.readouterr().err


# ---- adding one


@pytest.mark.parametrize("kind", ["worker", "expert"])
def test_an_agent_that_was_added_is_whole_and_at_once_in_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    assert main(["--data", str(tmp_path), "agents", "add", "data-wizard", "--kind", kind]) == 0
    out, stderr = capsys.readouterr()
    file = tmp_path / "agents" / "data-wizard.md"
    assert out == f"{file}\n"
    assert " config check`" in stderr
    found = json.loads(run(capsys, tmp_path, "show", "data-wizard", "--json"))
    assert (found["name"], found["kind"], found["npub"]) == ("Data Wizard", kind, None)
    assert ("write_file" in found["tools"]) is (kind == "worker")
    assert "verification" in found["in_phases"]
    prompt = run(capsys, tmp_path, "show", "data-wizard", "--prompt", "--phase", "verification")
    assert "Write rules for a single phase under a heading like this one." in prompt


def test_a_new_agent_with_the_name_of_an_example_mentions_the_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path), "agents", "add", "fact-checker"]) == 0
    assert " agents add --like fact-checker`." in capsys.readouterr().err
    assert main(["--data", str(tmp_path), "agents", "add", "writer"]) == 0
    assert "--like" not in capsys.readouterr().err


def test_of_a_built_in_agent_a_copy_is_made_to_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path), "agents", "add", "planner"]) == 0
    assert "a copy of the built-in planner, which it replaces" in capsys.readouterr().err
    assert (tmp_path / "agents" / "planner.md").read_text() == (builtin_prompts() / "agents/planner.md").read_text()


def test_a_file_that_is_there_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "critic.md").write_text(MINE)
    assert main(["--data", str(tmp_path), "agents", "add", "critic"]) == 2
    assert "exists; edit it, or move it away first" in capsys.readouterr().err
    assert (tmp_path / "agents" / "critic.md").read_text() == MINE


@pytest.mark.parametrize(
    ("slug", "sentence"),
    [
        ("Data Wizard", "Did you mean data-wizard?"),
        ("../x", "Did you mean x?"),
        ("é", "is not a name for an agent"),
        ("end", "reserved word"),
        ("user", "reserved word"),
        ("owner", "reserved word"),
        ("project", "reserved word"),
    ],
)
def test_a_name_that_cannot_be_a_slug_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], slug: str, sentence: str
) -> None:
    assert main(["--data", str(tmp_path), "agents", "add", slug]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "agents").exists()


def test_an_agents_own_phases_are_drawn_and_its_prompt_is_filled_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "scout.md").write_text(
        MINE.replace("tools:", "phases: [[look, report, 'n > 2']]\nstate: {n: 0}\ntools:").replace(
            "You read", "{{ phase }}"
        )
    )
    shown = run(capsys, tmp_path, "show", "scout")
    assert "[*] --> look\n    look --> report : n #62; 2" in shown
    assert "state" in shown
    assert "n = 0" in shown
    found = json.loads(run(capsys, tmp_path, "show", "scout", "--json"))
    assert found["phases"] == ["look", "report"]
    assert found["graph"]["edges"] == [{"from": "look", "to": "report", "when": "n > 2"}]
    prompt = run(capsys, tmp_path, "show", "scout", "--prompt", "--phase", "plan")
    assert "look and object." in prompt
    assert "===== tool set_state =====" in prompt
    for words in (["graph", "show", "scout"], ["graph", "show", "scout", "--json"]):
        assert main(["--data", str(tmp_path), *words]) == 0
        assert "look" in capsys.readouterr().out
    assert main(["--data", str(tmp_path), "graph", "show", "planner"]) == 2
    assert "planner has no phases or output states" in capsys.readouterr().err
