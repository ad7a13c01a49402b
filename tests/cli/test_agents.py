"""`tenex agents`: who works here, and what their models are sent; looking makes no keys."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tenex.nostr.keys import KeyRing
from tenex.prompting import builtin_prompts
from tests.kits.commands import Tenex

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


def write(data: Path, text: str, slug: str = "critic") -> Path:
    file = data / "agents" / f"{slug}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def rows(tenex: Tenex) -> dict[str, Any]:
    return {row["slug"]: row for row in json.loads(tenex("agents list --json").out)}


def test_the_built_in_agents_are_listed_with_their_addresses_and_no_key_is_made(tenex: Tenex, data: Path) -> None:
    out, err = tenex("agents list")
    head, *lines = out.splitlines()
    assert head.split() == ["SLUG", "KIND", "MODEL", "IN_PHASES", "NPUB"]
    assert [line.split()[0] for line in lines] == BUILT_IN
    assert " init` makes it" in err
    assert list(data.iterdir()) == []
    keys = KeyRing(data / "keys")
    npubs = {"orchestrator": keys.get_or_create("project").npub, "executor": keys.get_or_create("executor").npub}
    found = rows(tenex)
    assert {slug: row["npub"] for slug, row in found.items()} == {**dict.fromkeys(BUILT_IN), **npubs}
    assert found["executor"]["kind"] == "worker"
    assert "execute" in found["executor"]["in_phases"]
    assert "write_file" in found["executor"]["tools"]
    assert found["orchestrator"]["tools"] == []
    (data / "keys" / "executor.nsec").chmod(0o640)
    assert "others may read this key" in tenex("agents list", code=3).err


def test_an_agent_of_ones_own_is_shown_and_its_faults_are_named(tenex: Tenex, data: Path) -> None:
    write(data, MINE)
    assert "You read and object.\n\n## In plan\n\nName the weakest step." in tenex("agents show critic").out
    found = json.loads(tenex("agents show critic --json").out)
    facts = {"name": "Critic", "kind": "expert", "in_phases": ["plan"], "model": "offline"}
    assert facts.items() <= found.items()
    write(data, MINE.replace("[read_file]", "[read_fiel]"))
    assert "Did you mean `read_file`?" in tenex("agents show critic", code=3).err
    assert "the agent critic is disabled" in tenex("config check", code=3).err
    err = tenex("agents list").err
    assert "critic is disabled" in err
    assert "critic.md" in err
    assert "Did you mean `read_file`?" in err


def test_the_models_in_use_are_listed_by_phase(tenex: Tenex, data: Path) -> None:
    (data / "tenex.toml").write_text(
        'models.default = ["openai:a", "offline"]\nmodels.router = "openai:r"\nmodels.phases.plan = "openai:p"\n'
        'models.agents.executor.model = "openai:e"\n'
    )
    write(data, MINE.replace("kind:", "model: openai:own\nkind:"))
    found = rows(tenex)
    own = {"critic": "openai:own", "executor": "openai:e", "orchestrator": "openai:r"}
    others = dict.fromkeys(found.keys() - own, "openai:a, then offline; openai:p in plan")
    assert {slug: row["model"] for slug, row in found.items()} == own | others
    assert found["planner"]["models"]["plan"] == ["openai:p"]
    assert found["orchestrator"]["models"] == {"route": ["openai:r"]}


def test_a_prompt_is_printed_whole_as_it_would_be_sent(tenex: Tenex, data: Path) -> None:
    out, err = tenex("agents show executor --prompt --phase Execute --message", "Write <b> & x")
    parts = re.split(r"^===== (.+) =====$", out, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert (parts[1], parts[-2]) == ("system", "message")
    assert '<note title="The phase: execute">' in found["message"]
    assert json.loads(found["tool read_file"].strip().splitlines()[-1])["type"] == "object"
    sent = '<message from="you" role="owner" key="npub1qqqqqqq" kind="person">\nWrite <b> & x\n</message>'
    assert sent in found["message"]
    assert '<note title="Your part">' in found["message"]
    assert re.fullmatch(r"In execute, to offline; about [\d,]+ tokens\.\n", err)
    assert list(data.iterdir()) == []
    asked = json.loads(tenex("agents show orchestrator --prompt --json").out)
    expected = {"agent": "orchestrator", "phase": "chat", "models": ["offline"], "tools": []}
    assert expected.items() <= asked.items()
    question = json.loads(asked["entries"][0]["text"])
    assert [member["slug"] for member in question["roster"]] == [s for s in BUILT_IN if s != "orchestrator"]
    assert asked["output_schema"]["required"] == ["agents", "reason"]


@pytest.mark.parametrize("kind", ["worker", "expert"])
def test_an_agent_that_was_added_is_whole_and_at_once_in_the_list(tenex: Tenex, data: Path, kind: str) -> None:
    out, err = tenex(f"agents add data-wizard --kind {kind}")
    assert out == f"{data / 'agents' / 'data-wizard.md'}\n"
    assert " config check`" in err
    found = rows(tenex)["data-wizard"]
    assert (found["name"], found["kind"]) == ("Data Wizard", kind)
    assert ("write_file" in found["tools"]) is (kind == "worker")
    prompt = tenex("agents show data-wizard --prompt --phase verification").out
    assert "Write rules for a single phase under a heading like this one." in prompt


def test_a_file_that_exists_is_never_replaced(tenex: Tenex, data: Path) -> None:
    file = write(data, MINE)
    assert "exists; edit it, or move it away first" in tenex("agents add critic", code=2).err
    assert file.read_text() == MINE
    assert "a copy of the built-in planner, which it replaces" in tenex("agents add planner").err
    assert (data / "agents/planner.md").read_text() == (builtin_prompts() / "agents/planner.md").read_text()
    assert " agents add --like fact-checker`." in tenex("agents add fact-checker").err
    assert "--like" not in tenex("agents add writer").err


def test_an_agents_own_phases_are_drawn_and_its_prompt_is_filled_in(tenex: Tenex, data: Path) -> None:
    own = MINE.replace("tools:", "phases: [[look, report, 'n > 2']]\nstate: {n: 0}\ntools:")
    write(data, own.replace("You read", "{{ phase }}"), "scout")
    shown = tenex("agents show scout").out
    assert "[*] --> look\n    look --> report : n #62; 2" in shown
    assert "n = 0" in shown
    found = json.loads(tenex("agents show scout --json").out)
    assert found["phases"] == ["look", "report"]
    assert found["graph"]["edges"] == [{"from": "look", "to": "report", "when": "n > 2"}]
    prompt = tenex("agents show scout --prompt --phase plan").out
    assert "look and object." in prompt
    assert "===== tool set_state =====" in prompt
    assert "look --> report" in tenex("graph show scout").out
    assert json.loads(tenex("graph show scout --json").out)["nodes"] == ["look", "report"]
    assert "planner has no phases or output states" in tenex("graph show planner", code=2).err
