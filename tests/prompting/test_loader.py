"""The library is complete, or every error in it is reported."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tenex.core.config import AgentKind
from tenex.core.errors import ConfigurationError, InternalError
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.prompting import PromptLibrary, builtin_prompts

from .conftest import READS, TOOLS

AGENT = "---\nname: {name}\nrole: helps\nkind: {kind}\nuse_when: needed\ntools: [read_file]\n---\nYou help.\n"


def write(folder: Path, slug: str, *, name: str = "Own", kind: str = "worker") -> None:
    text = AGENT.format(name=name, kind=kind)
    folder.joinpath(f"{slug}.md").write_text(
        text.replace("tools: [read_file]\n", "") if kind == "orchestrator" else text
    )


def faults(builtin: Path, overrides: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        PromptLibrary.load(builtin, overrides, tools=TOOLS)
    return caught.value.faults


def test_the_built_in_agents_are_the_five_and_may_do_what_they_should(library: PromptLibrary) -> None:
    assert {slug: set(agent.tools) for slug, agent in library.definitions.items()} == {
        "executor": TOOLS,
        "orchestrator": set(),
        "planner": READS,
        "project-manager": READS | {"check"},
        "security-expert": READS,
    }
    assert library.orchestrator.slug == "orchestrator"
    assert [agent.slug for agent in library.roster] == ["executor", "planner", "project-manager", "security-expert"]
    assert [agent.slug for agent in library.roster if agent.kind is AgentKind.EXPERT] == ["security-expert"]
    assert set(library.guides) == set(Phase)


def test_own_agents_are_added_or_replace_built_in_ones_in_the_order_of_slugs(own: Path) -> None:
    builtin = list(PromptLibrary.load(builtin_prompts(), own / "missing", tools=TOOLS).definitions)
    write(own, "lawyer", kind="expert")
    write(own, "planner", name="My Planner")
    write(own, "orchestrator", kind="orchestrator")
    (own / ".hidden.md").write_text("not an agent")
    (own / "lawyer.md~").write_text("an editor's copy")
    library = PromptLibrary.load(builtin_prompts(), own, tools=TOOLS)
    assert list(library.definitions) == sorted([*builtin, "lawyer"])
    assert library.definitions[Slug("planner")].name == "My Planner"
    assert library.definitions[Slug("planner")].source == str(own / "planner.md")
    assert library.definitions[Slug("executor")].name == "Executor"
    assert library.orchestrator.name == "Own"
    assert "You help." in library.router_prompt(project_name="demo")


def test_a_file_with_other_line_ends_and_a_mark_at_its_start_is_read(own: Path) -> None:
    (own / "lawyer.md").write_bytes(
        b"\xef\xbb\xbf" + AGENT.format(name="L", kind="expert").replace("\n", "\r\n").encode()
    )
    library = PromptLibrary.load(builtin_prompts(), own, tools=TOOLS)
    assert library.definitions[Slug("lawyer")].body == "You help."


def test_a_later_change_of_a_file_changes_nothing(copy: Path) -> None:
    """What was loaded is what is used: a prompt does not change under a running conversation."""
    library = PromptLibrary.load(copy, tools=TOOLS)
    before = library.router_prompt(project_name="demo")
    (copy / "orchestrator.md.j2").write_text("{{ broken")
    (copy / "agents" / "orchestrator.md").unlink()
    assert library.router_prompt(project_name="demo") == before


def test_every_error_in_every_file_is_reported_at_once(copy: Path, own: Path) -> None:
    (copy / "phases" / "chat.md").unlink()
    plan = copy / "phases" / "plan.md"
    plan.write_text(plan.read_text().replace("## Do\n", "## Doing\n"))
    (copy / "phases" / "deploy.md").write_text("## Purpose\n\nx\n")
    (copy / "fragments" / "answer.md.j2").write_text("{{ agent.name }}\n{{ langage }}\n")
    (copy / "fragments" / "extra.md.j2").write_text("x")
    (copy / "fragments" / "tools.md.j2").unlink()
    (copy / "orchestrator.md.j2").write_text("{% for row in phases %}")
    (copy / "agents" / "planner.md").write_bytes(b"---\nname: \xff\n---\n")
    (own / "END.md").write_text(AGENT.format(name="E", kind="worker"))
    (own / "user.md").write_text(AGENT.format(name="U", kind="worker"))
    (own / "My_Helper.md").write_text(AGENT.format(name="H", kind="worker").replace("read_file", "fly"))
    (own / "my-helper.md").write_text(AGENT.format(name="H", kind="boss").replace("name:", "nam:"))
    (own / "notes.txt").write_text("x")
    found = faults(copy, own)
    for part in (
        "phases/chat.md: the file is missing",
        "phases/plan.md:9: `## Doing` is not a heading of a phase",
        "phases/plan.md: the heading `## Do` is missing",
        "phases/deploy.md: there is no such phase",
        "fragments/answer.md.j2:2: there is no variable 'langage'",
        "fragments/extra.md.j2: no prompt uses this fragment",
        "fragments/tools.md.j2: the file is missing. Restore it.",
        "orchestrator.md.j2:1: the template cannot be rendered",
        "agents/planner.md: is not UTF-8 (byte 10)",
        "own/END.md: 'END' is not kebab-case. Rename the file to end.md.",
        "own/END.md: 'END' is a reserved word of routing",
        "own/user.md: 'user' is a reserved word of routing",
        "own/My_Helper.md: 'My_Helper' is not kebab-case. Rename the file to my-helper.md.",
        "own/My_Helper.md:6: there is no tool 'fly'",
        "own/my-helper.md: is the same agent as",
        "own/my-helper.md:2: `nam` is not a known key. Did you mean `name`?",
        "own/my-helper.md:1: `name` is missing",
        "own/my-helper.md:4: `kind`: 'boss' is not a kind of agent",
        "own/notes.txt: is not an agent",
    ):
        assert sum(part in fault for fault in found) == 1, (part, found)
    assert len(found) == 19, found


def test_an_orchestrator_is_required(copy: Path) -> None:
    (copy / "agents" / "orchestrator.md").unlink()
    assert faults(copy) == ("No agent is of kind orchestrator. Give one of them `kind: orchestrator`.",)


def test_two_orchestrators_are_refused_with_both_files(own: Path) -> None:
    write(own, "conductor", kind="orchestrator")
    (fault,) = faults(builtin_prompts(), own)
    assert str(own / "conductor.md") in fault
    assert "agents/orchestrator.md" in fault


def test_a_worker_or_expert_is_required(copy: Path) -> None:
    for slug in ("executor", "planner", "project-manager", "security-expert"):
        (copy / "agents" / f"{slug}.md").unlink()
    assert faults(copy) == ("There is no worker and no expert to route to. Add an agent.",)


def test_a_template_that_breaks_only_in_one_phase_is_found(copy: Path) -> None:
    file = copy / "fragments" / "phase.md.j2"
    file.write_text(file.read_text() + "{% if phase == 'chores' %}{{ agent.nothing }}{% endif %}")
    assert len(faults(copy)) == 1


def test_a_folder_of_own_agents_that_is_a_file_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "agents"
    file.write_text("x")
    assert faults(builtin_prompts(), file) == (f"{file}: cannot be read as a folder: Not a directory.",)


def test_a_folder_named_like_an_agent_is_a_fault(own: Path) -> None:
    (own / "lawyer.md").mkdir()
    assert faults(builtin_prompts(), own) == (f"{own}/lawyer.md: cannot be read: Is a directory.",)


def test_a_prompt_for_the_orchestrator_or_an_unknown_agent_is_an_internal_error(library: PromptLibrary) -> None:
    for slug in ("orchestrator", "unknown"):
        with pytest.raises(InternalError, match=slug):
            library.system_prompt(Slug(slug), Phase.CHAT, tools=(), project_name="demo")


def test_prompts_inside_the_package_come_before_those_beside_it(tmp_path: Path) -> None:
    """A wheel carries them inside; a checkout has them beside the package."""
    package = tmp_path / "tenex"
    for folder in (package / "prompts", tmp_path / "prompts"):
        folder.mkdir(parents=True)
    (tmp_path / "prompts" / "orchestrator.md.j2").write_text("x")
    assert builtin_prompts(package) == tmp_path / "prompts"
    (package / "prompts" / "orchestrator.md.j2").write_text("x")
    assert builtin_prompts(package) == package / "prompts"


def test_missing_prompts_are_an_error_with_the_paths_that_were_tried(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"looked in {tmp_path}/tenex/prompts and {tmp_path}/prompts"):
        builtin_prompts(tmp_path / "tenex")


def test_an_installed_package_finds_and_loads_its_own_prompts_and_examples(tmp_path: Path) -> None:
    """The files laid out as pyproject.toml lays out the wheel, away from the checkout, in a process of its own."""
    root = builtin_prompts().parent
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    site = tmp_path / "site"
    for package in wheel["packages"]:
        shutil.copytree(root / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    for source, target in wheel["force-include"].items():
        if (root / source).is_dir():
            shutil.copytree(root / source, site / target)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tenex.prompting import PromptLibrary, builtin_prompts\n"
        "print(builtin_prompts()); print(len(PromptLibrary.load(builtin_prompts()).definitions))\n"
        "from tenex.cli.examples import agent_examples, workflow_examples\n"
        "files = [one.file for one in (*agent_examples().values(), *workflow_examples().values())]\n"
        "print(len(files), all(file.is_relative_to(sys.argv[1]) for file in files))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(site)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(site / "tenex" / "prompts"), "5", "6", "True"]
