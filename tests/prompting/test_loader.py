"""The library is complete, or every error in it is reported; templates are strict and sandboxed."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tenex.core.config import AgentKind
from tenex.core.errors import ConfigurationError, InternalError
from tenex.core.ids import Slug
from tenex.core.phases import Access, Phase
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.markdown import sections
from tenex.prompting.phase_guides import HEADINGS, PhaseGuide, read_guide
from tenex.prompting.templates import Source, Templates
from tenex.tools.standard import TOOL_NAMES
from tests.fakes.tools import RULES

AGENT = "---\nname: {name}\nrole: helps\nkind: {kind}\nuse_when: needed\n{tools}---\nYou help.\n"


def agent(name: str = "Own", kind: str = "worker", tools: str = "tools: [read_file]\n") -> str:
    return AGENT.format(name=name, kind=kind, tools="" if kind == "orchestrator" else tools)


def disabled(builtin: Path, overrides: Path) -> list[str]:
    """The faults of the operator's files."""
    library = PromptLibrary.load(builtin, overrides, tools=TOOL_NAMES)
    return [fault for one in library.disabled for fault in one.faults]


def faults(builtin: Path, overrides: Path | None = None) -> tuple[str, ...]:
    """Those that no daemon can do without."""
    with pytest.raises(ConfigurationError) as caught:
        PromptLibrary.load(builtin, overrides, tools=TOOL_NAMES)
    return caught.value.faults


def test_the_built_in_agents_are_the_five_and_may_do_what_they_should(library: PromptLibrary) -> None:
    assert {slug: {RULES[name].access for name in agent.tools} for slug, agent in library.definitions.items()} == {
        "executor": {Access.READ, Access.CHANGE, Access.RUN},
        "orchestrator": set(),
        "planner": {Access.READ},
        "project-manager": {Access.READ, Access.RUN},
        "security-expert": {Access.READ},
    }
    assert library.orchestrator.slug == "orchestrator"
    assert [agent.slug for agent in library.roster] == ["executor", "planner", "project-manager", "security-expert"]
    assert [agent.slug for agent in library.roster if agent.kind is AgentKind.EXPERT] == ["security-expert"]
    assert set(library.guides) == set(Phase)
    for slug in ("orchestrator", "unknown"):
        with pytest.raises(InternalError, match=slug):
            library.system_prompt(Slug(slug), Phase.CHAT, tools=(), project_name="demo")


def test_own_agents_are_added_or_replace_built_in_ones_in_the_order_of_slugs(own: Path) -> None:
    builtin = list(PromptLibrary.load(builtin_prompts(), own / "missing", tools=TOOL_NAMES).definitions)
    (own / "lawyer.md").write_bytes(b"\xef\xbb\xbf" + agent(kind="expert").replace("\n", "\r\n").encode())
    (own / "planner.md").write_text(agent("My Planner"))
    (own / "orchestrator.md").write_text(agent(kind="orchestrator"))
    (own / ".hidden.md").write_text("not an agent")
    (own / "lawyer.md~").write_text("an editor's copy")
    library = PromptLibrary.load(builtin_prompts(), own, tools=TOOL_NAMES)
    assert list(library.definitions) == sorted([*builtin, "lawyer"])
    assert library.definitions[Slug("lawyer")].body == "You help.", "whatever its line ends, and a mark at its start"
    assert library.definitions[Slug("planner")].name == "My Planner"
    assert library.definitions[Slug("planner")].source == str(own / "planner.md")
    assert library.definitions[Slug("executor")].name == "Executor"
    assert library.orchestrator.name == "Own"
    assert "You help." in library.router_prompt(project_name="demo")


def test_a_later_change_of_a_file_changes_nothing(copy: Path) -> None:
    """What was loaded is what is used: a prompt does not change under a running conversation."""
    library = PromptLibrary.load(copy, tools=TOOL_NAMES)
    before = library.router_prompt(project_name="demo")
    (copy / "orchestrator.md.j2").write_text("{{ broken")
    (copy / "agents" / "orchestrator.md").unlink()
    assert library.router_prompt(project_name="demo") == before
    assert library.router_prompt(project_name="other") != before


def test_every_error_in_every_file_is_reported_at_once(copy: Path, own: Path) -> None:
    (copy / "phases" / "chat.md").unlink()
    plan = copy / "phases" / "plan.md"
    plan.write_text(plan.read_text().replace("## Do\n", "## Doing\n"))
    (copy / "fragments" / "tools.md.j2").unlink()
    (copy / "agents" / "planner.md").write_bytes(b"---\nname: \xff\n---\n")
    phase = copy / "fragments" / "phase.md.j2"
    phase.write_text("{% if phase == 'chores' %}{{ agent.nothing }}{% endif %}" + phase.read_text())
    for name, text in {
        "phases/deploy.md": "## Purpose\n\nx\n",
        "fragments/answer.md.j2": "{{ agent.name }}\n{{ langage }}\n",
        "fragments/extra.md.j2": "x",
        "orchestrator.md.j2": "{% for row in phases %}",
    }.items():
        (copy / name).write_text(text)
    for name, text in {
        "END.md": agent(),
        "user.md": agent(),
        "My_Helper.md": agent(tools="tools: [fly]\n"),
        "my-helper.md": agent(kind="boss").replace("name:", "nam:"),
        "notes.txt": "x",
    }.items():
        (own / name).write_text(text)
    (own / "lawyer.md").mkdir()
    found = [*faults(copy, own), *disabled(builtin_prompts(), own)]
    for part in (
        "phases/chat.md: the file is missing",
        "phases/plan.md:9: `## Doing` is not a heading of a phase",
        "phases/plan.md: the heading `## Do` is missing",
        "phases/deploy.md: there is no such phase",
        "fragments/answer.md.j2:2: there is no variable 'langage'",
        "fragments/phase.md.j2:1: the template cannot be rendered",
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
        "own/lawyer.md: cannot be read: Is a directory.",
    ):
        assert sum(part in fault for fault in found) == 1, (part, found)
    assert len(found) == 21, found


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_agents_file_is_read_with_the_marks_of_any_editor(copy: Path, own: Path, end: str) -> None:
    text = (
        agent(tools="tools: [read\u200b_file, shell\xa0]\n")
        .replace("kind", "\u200bkind")
        .replace("name: ", "name: \ufeff")
    )
    (own / "reader.md").write_bytes(("\ufeff" + text + "می‌خواهم 👩‍💻\n").replace("\n", end).encode())
    definition = PromptLibrary.load(copy, own, tools=TOOL_NAMES).definitions[Slug("reader")]
    assert definition.tools == ("read_file", "shell")
    assert definition.body.endswith("می‌خواهم 👩‍💻"), "prose is left as it was written"
    assert definition.name.isprintable()


def test_an_agents_file_in_utf_16_is_refused_with_the_remedy(copy: Path, own: Path) -> None:
    (own / "reader.md").write_bytes(agent().encode("utf-16"))
    assert disabled(copy, own) == [f"{own / 'reader.md'}: is UTF-16; save the file as UTF-8."]


def test_one_orchestrator_and_a_worker_or_expert_are_required(copy: Path, own: Path) -> None:
    (own / "conductor.md").write_text(agent(kind="orchestrator"))
    (fault,) = disabled(copy, own)
    assert str(own / "conductor.md") in fault
    assert "agents/orchestrator.md" in fault
    (own / "orchestrator.md").write_text("no front matter")
    assert any("own/orchestrator.md:1: there is no front matter" in fault for fault in faults(copy, own)), (
        "no other orchestrator takes its place"
    )
    (own / "orchestrator.md").unlink()
    (copy / "agents" / "orchestrator.md").unlink()
    assert faults(copy) == ("No agent is of kind orchestrator. Give one of them `kind: orchestrator`.",)
    for slug in ("executor", "planner", "project-manager", "security-expert"):
        (copy / "agents" / f"{slug}.md").unlink()
    assert faults(copy, own) == ("There is no worker and no expert to route to. Add an agent.",)


def test_a_folder_of_own_agents_that_is_a_file_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "agents"
    file.write_text("x")
    assert faults(builtin_prompts(), file) == (f"{file}: cannot be read as a folder: Not a directory.",)


def test_prompts_inside_the_package_come_before_those_beside_it(tmp_path: Path) -> None:
    """A wheel carries them inside; a checkout has them beside the package."""
    package = tmp_path / "tenex"
    with pytest.raises(ConfigurationError, match=f"looked in {tmp_path}/tenex/prompts and {tmp_path}/prompts"):
        builtin_prompts(package)
    for folder in (tmp_path / "prompts", package / "prompts"):
        folder.mkdir(parents=True)
        (folder / "orchestrator.md.j2").write_text("x")
        assert builtin_prompts(package) == folder


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
        "from tenex.cli.shared.examples import agent_examples, workflow_examples\n"
        "files = [one.file for one in (*agent_examples().values(), *workflow_examples().values())]\n"
        "print(len(files), all(file.is_relative_to(sys.argv[1]) for file in files))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(site)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(site / "tenex" / "prompts"), "5", "9", "True"]


# ---- guides of phases ------------------------------------------------------------------------------------------------


GOOD = "\n\n".join(f"## {heading}\n\nText of {heading}." for heading in HEADINGS) + "\n"


def plan_guide(text: str) -> tuple[PhaseGuide | None, list[str]]:
    faults: list[str] = []
    return read_guide(Phase.PLAN, text, "plan.md", faults), faults


def test_a_good_file_gives_what_the_router_reads_and_what_agents_read() -> None:
    guide, faults = plan_guide(GOOD)
    assert faults == []
    assert guide is not None
    assert (guide.phase, guide.purpose, guide.enter) == (Phase.PLAN, "Text of Purpose.", "Text of Enter when.")
    assert guide.text.startswith("Text of Purpose.\n\n## Do\nText of Do.\n\n## Leave when\n")
    assert "Enter" not in guide.text


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (GOOD.replace("## Do\n\nText of Do.\n\n", ""), [": the heading `## Do` is missing."]),
        (GOOD + "## Do\n\nAgain.\n", [":20: `## Do` appears twice."]),
        (GOOD.replace("Text of Do.", ""), [":9: `## Do` is empty."]),
        ("Hello\n" + GOOD, [":1: there is text before the first heading."]),
        (
            GOOD.replace("Enter when", "?").replace("## Do", "## Enter when").replace("?", "Do"),
            [": the headings are in the wrong order."],
        ),
        ("", [f": the heading `## {heading}` is missing." for heading in HEADINGS]),
        (
            "x\n" + GOOD.replace("## Do", "# Do").replace("Text of Purpose.", ""),
            [":1: there is", ":2: `## Purpose` is empty.", ":10: `# Do` is not a heading of a phase.", ": the heading"],
        ),
    ],
)
def test_all_errors_of_a_file_are_reported_with_their_lines(text: str, faults: list[str]) -> None:
    guide, found = plan_guide(text)
    assert guide is None
    assert len(found) == len(faults), found
    assert all(fault.startswith(f"plan.md{part}") for fault, part in zip(found, faults, strict=True)), found


def test_each_section_knows_its_heading_line_and_text() -> None:
    before, one, two = sections("hello\n\n# One\ntext\n\n### deeper\nmore\n## Two ##\n", first_line=10)
    assert (before.level, before.heading, before.text) == (0, "", "hello")
    assert (one.level, one.heading, one.line, one.text) == (1, "One", 12, "text\n\n### deeper\nmore")
    assert (two.level, two.heading, two.line, two.text, two.source) == (2, "Two", 17, "", "## Two ##")


# ---- templates -------------------------------------------------------------------------------------------------------


def templates(**texts: str) -> Templates:
    return Templates({name: Source(text, f"{name}.md.j2") for name, text in texts.items()})


def test_values_are_inserted_as_they_are_and_an_include_finds_no_file() -> None:
    """Neither escaped for HTML nor read as a template."""
    hostile = "{{ secret }} {% raw %} <b> & ''"
    pair = templates(one="{{ words }}{% include 'two' %}", two=" second", three="{% include '/etc/hostname' %}")
    assert pair.render("one", {"words": hostile, "secret": "s"}) == f"{hostile} second"
    with pytest.raises(ConfigurationError, match=r"three\.md\.j2:1"):
        pair.render("three", {})


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ x.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ f.__globals__ }}",
        "{{ x | attr('__class__') }}",
        "{{ numbers.append(1) }}",
        "{{ self.__init__ }}",
        "{{ lipsum() }}",
        "{{ range(3) }}",
        "{{ unknown }}",
    ],
)
def test_the_sandbox_lets_nothing_out(text: str) -> None:
    numbers = [0]
    with pytest.raises(ConfigurationError, match=r"one\.md\.j2:2"):
        templates(one=f"first\n{text}").render("one", {"x": object(), "f": templates, "numbers": numbers})
    assert numbers == [0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *(
            (text, "cannot be rendered")
            for text in ("{% if %}", "{{ a", "{% endfor %}", "{{ 1 | no }}", "{{ 1 // 0 }}")
        ),
        ("{% if a %}{{ typo }}{% endif %}", "there is no variable 'typo'. There are: a."),
        ("{{ a.b }}", "the template cannot be rendered: "),
        ("{% for x in a %}{{ x }}{% endfor %}", ""),
    ],
)
def test_each_fault_is_reported_once_with_its_line(text: str, fault: str) -> None:
    faults = templates(one="\n" + text).faults("one", [{"a": {}}, {"a": {}}])
    assert len(faults) == bool(fault)
    assert all(found.startswith("one.md.j2:2: ") and fault in found and not found.endswith("..") for found in faults)
