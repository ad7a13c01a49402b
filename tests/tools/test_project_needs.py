"""What a project needs and the sandbox does not have is named, with where the machine has it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tenex.tools.project_environment import ProjectEnvironment
from tenex.tools.project_needs import ecosystems_found, how_to_get, not_found_in, outside
from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs
from tenex.tools.workspace import Workspace
from tests.programs import needs_bubblewrap

from .conftest import SANDBOXED, Bench, put

NOWHERE = {"PATH": "/nowhere", "HOME": "/nowhere"}


def program(place: Path) -> Path:
    put(place.parent, {place.name: "#!/bin/sh\necho works\n"})
    place.chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("files", "needed"),
    [
        ({}, {}),
        ({"Cargo.toml": ""}, {"rust": {"cargo", "rustc", "cc"}}),
        ({"go.mod": ""}, {"go": {"go"}}),
        ({"package.json": "{}"}, {"node": {"node"}}),
        ({"package.json": '{"dependencies": {"x": "1"}}', "pnpm-lock.yaml": ""}, {"node": {"node", "pnpm"}}),
        ({"package.json": '{"dependencies": {"x": "1"}}', "node_modules/x": "", "pnpm-lock.yaml": ""},
         {"node": {"node"}}),
        ({"pyproject.toml": "[project]\ndependencies = ['x']", "uv.lock": ""}, {"python": {"python3", "uv"}}),
        ({"requirements.txt": "x"}, {"python": {"python3"}}),
        ({"composer.json": '{"require": {"x": "1"}}'}, {"php": {"php", "composer"}}),
        ({"Gemfile": ""}, {"ruby": {"ruby", "bundle"}}),
        ({"mix.exs": ""}, {"elixir": {"elixir"}}),
        ({"deno.json": ""}, {"deno": {"deno"}}),
        ({"a.csproj": ""}, {"dotnet": {"dotnet"}}),
        ({"pom.xml": ""}, {"java": {"javac", "mvn"}}),
        ({"build.gradle.kts": "", "gradlew": ""}, {"java": {"javac"}}),
        ({"CMakeLists.txt": "", "Makefile": ""}, {"make": {"make"}, "cmake": {"cmake", "cc"}}),
        ({"meson.build": ""}, {"meson": {"meson", "ninja", "cc"}}),
        ({"Makefile.PL": "", "test/a.bats": ""}, {"bats": {"bats"}, "perl": {"perl"}}),
    ],
)  # fmt: skip
def test_what_an_ecosystem_needs(
    tmp_path: Path, files: dict[str, str], needed: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.tools.project_environment.SYSTEM_PATH", ())
    put(tmp_path, files)
    project = ProjectEnvironment(tmp_path)
    assert {found.kind.name: set(found.missing) for found in ecosystems_found(project)} == needed
    for name in {name for names in needed.values() for name in names}:
        program(tmp_path / "node_modules/.bin" / name)
    assert not any(found.missing for found in ecosystems_found(project))


def test_a_program_is_looked_up_on_the_path_and_in_toolchains(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    project = ProjectEnvironment(root)
    environment = {"PATH": f"relative:{root}/bin:{tmp_path}/opt/tools/bin", "HOME": str(home)}
    program(root / "bin/gopher")
    assert outside(project, "gopher", environment) is None, "agents write there"
    there = program(tmp_path / "opt/tools/bin/zig")
    found = outside(project, "zig", environment)
    assert found is not None
    assert (found.program, found.entry) == (there, str(there.parent))

    program(home / ".cargo/bin/rustup")
    there = program(home / ".cargo/bin/cargo")
    assert list(how_to_get(project, ["cargo", "zig"], environment, ["/first"])) == [
        f'it is {there} outside the sandbox: write path = ["/first", "~/.cargo"] under [workspace]',
        (
            f'it is {tmp_path}/opt/tools/bin/zig outside the sandbox: write path = ["/first", "~/.cargo", '
            f'"{tmp_path}/opt/tools/bin"] under [workspace]'
        ),
    ]
    there = program(home / ".cargo/bin/rustc")
    _, second = how_to_get(project, ["cargo", "rustc"], environment)
    assert second == f"it is {there} outside the sandbox: the same line shows it"
    (named,) = how_to_get(project, ["rustc"], environment, ["~/.cargo"])
    assert named == f"it is {there} outside the sandbox: add its own folder to workspace.path"
    (nothing,) = how_to_get(project, ["cargo"], NOWHERE)
    assert nothing.startswith("install it")
    on_path = {"PATH": str(home / ".cargo/bin"), "HOME": str(home)}
    (line,) = how_to_get(project, ["cargo"], on_path)
    assert 'path = ["~/.cargo"]' in line, "the folder of programs alone is not enough"


def test_the_line_works_as_it_is_printed(root: Path, tmp_path: Path) -> None:
    program(tmp_path / ".cargo/bin/rustup")
    program(tmp_path / ".cargo/bin/cargo")
    found = outside(ProjectEnvironment(root), "cargo", {"HOME": str(tmp_path)})
    assert found is not None
    assert found.entry == "~/.cargo"
    entry = Path(found.entry.replace("~", str(tmp_path)))
    assert ProjectEnvironment(root, (entry,)).find("cargo") == str(tmp_path / ".cargo/bin/cargo")


@needs_bubblewrap
async def test_a_link_counts_if_the_sandbox_shows_what_it_leads_to(workspace: Workspace, tmp_path: Path) -> None:
    """What is found is what a shell in the sandbox finds."""
    root = workspace.root
    tools = tmp_path / "tools"
    program(tmp_path / "apart/bin/real")
    program(root / "node_modules/pkg/cli.js")
    program(tools / "bin/plain")
    program(tools / "lib/inner")
    links: dict[Path, str | Path] = {
        root / "node_modules/.bin/cli": "../pkg/cli.js",
        root / "node_modules/.bin/system": "/bin/sh",
        root / "node_modules/.bin/apart": tmp_path / "apart/bin/real",
        tools / "bin/beside": "../lib/inner",
        tools / "bin/twice": "beside",
        tools / "bin/apart2": "../../apart/bin/real",
        tools / "bin/through": tools / "lib/folder/real",
        tools / "lib/folder": tmp_path / "apart/bin",
        tools / "bin/loop": "loop",
        tools / "bin/broken": "nothing",
    }
    for place, target in links.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    script = program(tools / "bin/scripted")
    script.write_text(f"#!{tmp_path}/apart/bin/real\n")
    linked = tmp_path / "linked"
    linked.symlink_to(tools / "bin")
    names = ["cli", "system", "apart", "plain", "beside", "twice", "apart2", "through", "loop", "broken", "sh", "cc"]
    for folder in (tools / "bin", linked):
        programs = Programs(workspace, replace(SANDBOXED, path=(folder,)))
        asked = f"for name in {' '.join(names)}; do command -v $name; done; true"
        printed = (await Bench([shell_tool(programs)]).run(asked)).content
        found = {name: programs.project.find(name) for name in names}
        found["scripted"] = programs.project.find("scripted")
        assert "cannot execute" in (await Bench([shell_tool(programs)]).run("scripted")).content
        assert {name for name in names if found[name]} == {
            Path(line).name for line in printed.splitlines() if line[:1] == "/"
        }
        assert all(found[name] for name in ("cli", "plain"))
        assert not [name for name in ("apart", "apart2", "through", "scripted") if found[name]]


def test_without_a_sandbox_every_link_counts(root: Path, tmp_path: Path) -> None:
    program(tmp_path / "apart/real")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/it").symlink_to(tmp_path / "apart/real")
    assert ProjectEnvironment(root, (tmp_path / "tools",), is_sandboxed=False).find("it")
    assert not ProjectEnvironment(root, (tmp_path / "tools",)).find("it")


def test_a_link_out_of_what_is_shown_is_named_with_the_line_that_works(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenex.tools.project_environment.SYSTEM_PATH", ())
    target = program(tmp_path / "apart/bin/real")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/go").symlink_to(target)
    put(root, {"go.mod": "module x\n"})
    entries = [str(tmp_path / "tools")]
    project = ProjectEnvironment(root, tuple(map(Path, entries)))
    (found,) = ecosystems_found(project)
    (how,) = how_to_get(project, found.missing, NOWHERE, entries)
    assert found.missing == ("go",)
    assert how == (
        f"{entries[0]}/go needs {target}, which the sandbox does not show: "
        f'write path = ["{entries[0]}", "{target.parent}"] under [workspace]'
    )
    assert ProjectEnvironment(root, (Path(entries[0]), target.parent)).find("go") == f"{entries[0]}/go"


@pytest.mark.parametrize(
    ("printed", "names"),
    [
        ("bash: line 1: cargo: command not found\n", ("cargo",)),
        ("sh: 1: go: not found", ("go",)),
        ("env: 'node': No such file or directory\n", ("node",)),
        ("/usr/bin/env: ‘ruby’: No such file or directory", ("ruby",)),
        ("make: cc: No such file or directory", ()),
        ("error: page not found in the book", ()),
        ("a: not found\nb: not found\nc: not found\nd: not found\n", ("a", "b", "c")),
        ("../../x: command not found\n" + "y" * 5_000, ()),
    ],
)
def test_names_of_missing_programs(printed: str, names: tuple[str, ...]) -> None:
    assert not_found_in(printed) == names


@needs_bubblewrap
async def test_a_command_whose_program_is_outside_says_how_to_get_it(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    program(home / ".nvm/versions/node/v20.1.0/bin/pnpm")
    put(home, {".nvm/nvm.sh": ""})
    monkeypatch.setenv("HOME", str(home))
    shell = Bench([shell_tool(Programs(workspace, SANDBOXED))])
    result = await shell.run("pnpm test")
    assert "The sandbox has no pnpm; for the operator: it is" in result.content
    assert 'write path = ["~/.nvm"] under [workspace].' in result.content
    assert "install it" in (await shell.run("no-such-program-anywhere")).content
    assert "operator" not in (await shell.run("echo 'sh: 1: ls: not found'; exit 127")).content, "ls is there"
    assert "operator" not in (await shell.run("pnpm; exit 1")).content
