"""Toolchains of a home folder run in the sandbox, and nothing else of the folder is seen there."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.tools.shell import shell_tool
from tenex.tools.shell_runner import Programs
from tenex.tools.toolchains import HOMES, homes_of_user, toolchain_of
from tenex.tools.workspace import Workspace
from tests.fakes.registries import NAME, PackageRegistry, package_registry
from tests.programs import needs_bubblewrap

from .conftest import SANDBOXED, Bench, put

SECRET = "the-password"

PROGRAM = "#!/bin/sh\necho works\n"

FOLDERS: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "cargo": (
        ".cargo",
        {"bin/rustup": PROGRAM, "bin/tool": PROGRAM, "registry/cache/x.crate": ""},
        ("credentials.toml", "credentials", "config.toml", "config", "git/db/x/config", ".netrc"),
    ),
    "rustup": (
        ".rustup",
        {"settings.toml": "", "toolchains/stable-x/bin/tool": PROGRAM},
        ("toolchains/stable-x/etc/secret", "downloads/secret", "secret"),
    ),
    "nvm": (
        ".nvm",
        {"nvm.sh": "", "versions/node/v20.1.0/bin/tool": PROGRAM},
        (".npmrc", "versions/node/v20.1.0/etc/npmrc", "versions/node/v20.1.0/.npmrc", "alias/secret"),
    ),
    "Go": ("sdk/go1.22", {"bin/go": PROGRAM, "bin/tool": PROGRAM, "src/runtime/x.go": ""}, (".netrc", "etc/secret")),
    "packages of Go": (
        "go",
        {"bin/tool": PROGRAM, "pkg/mod/cache/download/x": "", "pkg/mod/github.com/a/b@v1/x.go": ""},
        ("src/private/main.go", "pkg/mod/cache/vcs/0a/config", "pkg/sumdb/secret", ".netrc"),
    ),
    "SDKMAN": (
        ".sdkman",
        {"bin/sdkman-init.sh": "", "candidates/maven/3.9.6/bin/tool": PROGRAM},
        ("candidates/maven/3.9.6/conf/settings.xml", "etc/config", "var/secret"),
    ),
    "mise": (
        ".local/share/mise",
        {"shims/tool": "", "installs/node/20.1.0/bin/tool": PROGRAM},
        ("installs/node/20.1.0/etc/npmrc", "secret", "shims/.secret"),
    ),
    "asdf": (
        ".asdf",
        {"shims/tool": "", "installs/golang/1.22/go/bin/tool": PROGRAM},
        ("installs/golang/1.22/go/etc/secret", ".asdfrc", "plugins/x/secret"),
    ),
    "pyenv": (".pyenv", {"shims/tool": "", "versions/3.12.1/bin/tool": PROGRAM}, ("versions/3.12.1/etc/pip.conf", "x")),
    "rbenv": (".rbenv", {"shims/tool": "", "versions/3.3.0/bin/tool": PROGRAM}, ("versions/3.3.0/.gem/credentials",)),
    "Deno": (
        ".deno",
        {"bin/deno": PROGRAM, "bin/tool": PROGRAM},
        ("credentials.json", ".npmrc", "deno.json", "cache/npm/.npmrc"),
    ),
    "Bun": (
        ".bun",
        {"bin/bun": PROGRAM, "bin/tool": PROGRAM, "install/global/node_modules/a/index.js": ""},
        ("bunfig.toml", ".npmrc", "install/global/bunfig.toml", "install/global/.npmrc", "install/cache/a/.npmrc"),
    ),
    "programs of the user": (
        ".local",
        {"bin/tool": PROGRAM, "share/pipx/venvs/x/bin/x": "", "lib/python3.12/site-packages/x.py": ""},
        ("share/keyrings/login.keyring", "share/secret", "state/secret", "lib/secret"),
    ),
    "packages of Maven": (
        ".m2",
        {"repository/org/x.jar": ""},
        ("settings.xml", "settings-security.xml", "toolchains.xml"),
    ),
}
"""By kind: where it lies below the home folder, what is in it, and files of passwords beside."""

OF_HOME = (
    ".netrc",
    ".npmrc",
    ".bunfig.toml",
    ".cache/deno/npm/.npmrc",
    ".ssh/id_ed25519",
    ".gradle/gradle.properties",
    ".config/gh/hosts.yml",
)


def shell_with(workspace: Workspace, *folders: Path) -> Bench:
    return Bench([shell_tool(Programs(workspace, replace(SANDBOXED, path=folders, timeout=120)))])


def make_home(home: Path, kind: str) -> Path:
    """A folder of this kind with files of passwords in it and around it."""
    place, files, secrets = FOLDERS[kind]
    put(home / place, {**files, **dict.fromkeys(secrets, SECRET)})
    put(home, dict.fromkeys(OF_HOME, SECRET))
    for name, text in files.items():
        if text == PROGRAM:
            (home / place / name).chmod(0o755)
    return home / place


@needs_bubblewrap
@pytest.mark.parametrize("kind", [kind.name for kind in HOMES])
async def test_its_programs_run_and_no_password_is_seen(workspace: Workspace, tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    folder = make_home(home, kind)
    assert toolchain_of(folder, workspace.root).name == kind
    shell = shell_with(workspace, folder)
    has_programs = PROGRAM in FOLDERS[kind][1].values()
    if has_programs:
        assert (await shell.run("tool")).content.endswith("Output:\nworks")
    seen = await shell.run(f"grep -rl {SECRET} {home}; find {home} -type f")
    assert SECRET not in seen.content
    files = {line.removeprefix(f"{folder}/") for line in seen.content.splitlines() if line.startswith(str(home))}
    assert files
    assert files <= FOLDERS[kind][1].keys()
    if has_programs:
        assert "Read-only" in (await shell.run('touch "$(dirname "$(command -v tool)")/x"')).content


@needs_bubblewrap
@pytest.mark.parametrize("place", [".cargo", ".nvm", ".rustup", ".m2", ".sdkman", ".gradle", ".config"])
async def test_of_a_folder_without_programs_nothing_is_seen(workspace: Workspace, tmp_path: Path, place: str) -> None:
    """As the `.cargo` of somebody whose Cargo is the system's."""
    home = tmp_path / "home"
    put(home / place, {"credentials.toml": SECRET, "settings.xml": SECRET, "etc/npmrc": SECRET})
    put(home, dict.fromkeys(OF_HOME, SECRET))
    shown = await shell_with(workspace, home / place).run(
        f"grep -rl {SECRET} {home} || echo nothing; find {home} -type f"
    )
    assert SECRET not in shown.content.replace(f"grep -rl {SECRET}", "")
    assert "nothing" in shown.content
    assert "settings.xml" not in shown.content


@needs_bubblewrap
async def test_a_program_of_a_virtual_environment_finds_its_packages(workspace: Workspace, tmp_path: Path) -> None:
    """As one that was installed by `pip` into a folder of its own."""
    command = ["/usr/bin/python3", "-m", "venv", "--without-pip", str(tmp_path / "apart")]
    await asyncio.to_thread(subprocess.run, command, check=True)
    (packages,) = (tmp_path / "apart/lib").glob("python3*/site-packages")
    put(packages, {"own_package.py": "print('works')\n"})
    put(tmp_path / "apart", {"bin/tool": f"#!{tmp_path}/apart/bin/python3\nimport own_package\n", "secret": SECRET})
    (tmp_path / "apart/bin/tool").chmod(0o755)
    shell = shell_with(workspace, tmp_path / "apart/bin")
    assert (await shell.run("tool")).content.endswith("Output:\nworks")
    assert "No such file" in (await shell.run(f"cat {tmp_path}/apart/secret")).content


def test_every_kind_is_tested() -> None:
    assert FOLDERS.keys() == {kind.name for kind in HOMES}


@pytest.mark.parametrize(
    ("kind", "more", "asked", "chosen"),
    [
        ("nvm", {"versions/node/v18.2.0/bin/x": "", "versions/node/v9.0.0/bin/x": ""}, {}, "v20.1.0"),
        ("nvm", {"versions/node/v18.2.0/bin/x": ""}, {".nvmrc": "18\n"}, "v18.2.0"),
        ("nvm", {"versions/node/v18.2.0/bin/x": "", "alias/default": "18"}, {}, "v18.2.0"),
        ("nvm", {"versions/node/v18.2.0/bin/x": "", "alias/default": "18"}, {".nvmrc": "v20.1.0"}, "v20.1.0"),
        ("nvm", {"versions/node/v18.2.0/bin/x": "", "alias/default": "lts/*", "alias/lts/*": "lts/hydrogen",
                 "alias/lts/hydrogen": "v18.2.0"}, {}, "v18.2.0"),
        ("nvm", {"alias/default": "loop", "alias/loop": "default"}, {}, "v20.1.0"),
        ("nvm", {}, {".nvmrc": "../../../../etc"}, "v20.1.0"),
        ("nvm", {}, {".nvmrc": "/etc/passwd"}, "v20.1.0"),
        ("rustup", {"settings.toml": 'version = "12"\ndefault_toolchain = "a-b"\n', "toolchains/a-b/bin/x": ""}, {},
         "a-b"),
        ("mise", {"installs/node/22.0.0/bin/x": ""}, {}, "22.0.0"),
        ("mise", {"installs/node/22.0.0/bin/x": ""}, {"mise.toml": '[tools]\nnode = "20"\n'}, "20.1.0"),
        ("mise", {"installs/node/22.0.0/bin/x": "", "../../../.config/mise/config.toml": '[tools]\nnode = "20"'}, {},
         "20.1.0"),
        ("asdf", {"installs/golang/1.23/go/bin/x": ""}, {".tool-versions": "golang 1.22 # old\n"}, "1.22"),
        ("asdf", {"installs/golang/1.23/go/bin/x": "", "../.tool-versions": "golang 1.22"}, {}, "1.22"),
        ("pyenv", {"versions/3.11.7/bin/x": "", "version": "3.11.7\n"}, {}, "3.11.7"),
        ("pyenv", {"versions/3.11.7/bin/x": "", "version": "3.11.7\n"}, {".python-version": "3.12"}, "3.12.1"),
        ("rbenv", {"versions/3.10.0/bin/x": ""}, {}, "3.10.0"),
        ("SDKMAN", {"candidates/maven/4.0/bin/x": ""}, {".sdkmanrc": "# versions\nmaven=3.9.6\n"}, "3.9.6"),
    ],
)  # fmt: skip
def test_the_version_is_the_projects_then_the_default_then_the_newest(
    tmp_path: Path, kind: str, more: dict[str, str], asked: dict[str, str], chosen: str
) -> None:
    folder = make_home(tmp_path / "home", kind)
    project = tmp_path / "project"
    project.mkdir()
    put(folder, more)
    put(project, asked)
    (programs,) = toolchain_of(folder, project).programs
    assert chosen in programs.relative_to(folder).parts


def test_the_current_version_of_sdkman_is_its_link(tmp_path: Path) -> None:
    folder = make_home(tmp_path, "SDKMAN")
    put(folder, {"candidates/maven/4.0/bin/x": ""})
    (folder / "candidates/maven/current").symlink_to("3.9.6")
    assert toolchain_of(folder, tmp_path).programs == (folder / "candidates/maven/3.9.6/bin",)


def test_the_folders_of_a_user_are_known(tmp_path: Path) -> None:
    made = {make_home(tmp_path, kind) for kind in FOLDERS}
    assert made <= set(homes_of_user({"HOME": str(tmp_path)}))
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / ".cargo", moved)
    assert moved in set(homes_of_user({"HOME": "/nowhere", "CARGO_HOME": str(moved)}))


# ---- Rust, as rustup installs it ----


RUSTUP = Path.home() / ".cargo/bin/rustup"
CARGO = shutil.which("cargo")

SHIM = """\
#!/bin/sh
read -r _ _ default < "$RUSTUP_HOME/settings.toml" || exit 1
exec "$RUSTUP_HOME/toolchains/$(echo "$default" | tr -d '"')/bin/$(basename "$0")" "$@"
"""


@pytest.fixture
def cargo(tmp_path: Path) -> Path:
    """The folder of a user's Cargo: that of the real rustup, or of the system's programs behind a like script."""
    home = tmp_path / "home"
    put(home / ".cargo", {"credentials.toml": SECRET, "config.toml": f'[registries.mine]\ntoken = "{SECRET}"\n'})
    (home / ".rustup").mkdir()
    if RUSTUP.exists():
        (home / ".cargo/bin").symlink_to(RUSTUP.parent)
        for name in ("toolchains", "settings.toml"):
            (home / ".rustup" / name).symlink_to(RUSTUP.parents[2] / ".rustup" / name)
        return home / ".cargo"
    put(home, {".cargo/bin/rustup": SHIM, ".rustup/settings.toml": 'default_toolchain = "stable"\n'})
    (home / ".cargo/bin/rustup").chmod(0o755)
    (home / ".rustup/toolchains/stable/bin").mkdir(parents=True)
    for name in ("cargo", "rustc"):
        (home / ".cargo/bin" / name).symlink_to("rustup")
        (home / ".rustup/toolchains/stable/bin" / name).symlink_to(f"/usr/bin/{name}")
    return home / ".cargo"


@pytest.fixture
def registry() -> Iterator[PackageRegistry]:
    with package_registry() as serving:
        yield serving


def fetch(project: Path, cargo: Path) -> None:
    """Fetch what a project needs, as its user does."""
    environment = {**os.environ, "CARGO_HOME": str(cargo), "RUSTUP_HOME": str(cargo.parent / ".rustup")}
    subprocess.run(["cargo", "fetch", "-q"], cwd=project, env=environment, check=True)


needs_cargo = pytest.mark.skipif(CARGO is None, reason="cargo is not installed on this machine")


@needs_cargo
@needs_bubblewrap
@pytest.mark.parametrize("named", [".cargo", ".cargo/bin"])
async def test_cargo_of_rustup_runs_tests(workspace: Workspace, cargo: Path, named: str) -> None:
    put(workspace.root, {
        "Cargo.toml": '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n',
        "src/lib.rs": "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n",
    })  # fmt: skip
    shell = shell_with(workspace, cargo.parent / named)
    result = await shell.run(f"cargo test --offline --lib; grep -rs {SECRET} {cargo} || echo nothing")
    assert "test adds ... ok" in result.content, result.content
    assert result.content.endswith("nothing")


@needs_cargo
@needs_bubblewrap
@pytest.mark.parametrize("kept", ["cached", "cached and not unpacked", "vendored"])
async def test_cargo_of_rustup_finds_what_the_user_has_fetched(
    workspace: Workspace, cargo: Path, registry: PackageRegistry, kept: str
) -> None:
    (cargo / "config.toml").unlink()
    registry.cargo_project(workspace.root)
    put(workspace.root, {"src/lib.rs": "#[test]\nfn uses() {\n    assert!(tiny_thing::tiny());\n}\n"})
    fetch(workspace.root, cargo)
    if kept == "vendored":
        (unpacked,) = cargo.glob(f"registry/src/*/{NAME}-*")
        shutil.copytree(unpacked, workspace.root / "vendor" / NAME)
        put(workspace.root, {".cargo/config.toml": VENDORED, f"vendor/{NAME}/.cargo-checksum.json": '{"files": {}}'})
        (workspace.root / "Cargo.lock").unlink()
        shutil.rmtree(cargo / "registry")
    elif kept != "cached":
        shutil.rmtree(cargo / "registry/src")
    result = await shell_with(workspace, cargo).run("cargo test --offline --lib")
    assert NAME in result.content
    assert "test uses ... ok" in result.content, result.content


VENDORED = '[source.crates-io]\nreplace-with = "vendored"\n\n[source.vendored]\ndirectory = "vendor"\n'


def test_files_among_the_tools_and_folders_that_cannot_be_looked_at_are_passed_over(tmp_path: Path) -> None:
    home = tmp_path / "mise"
    put(home, {"shims/tool": "", "installs/.mise-installs.toml": "", "installs/node/20.1.0/bin/tool": PROGRAM})
    assert toolchain_of(home, tmp_path).programs == (home / "installs/node/20.1.0/bin",)
    too_long = tmp_path / ("x" * 300)  # the system refuses it, as it does the home of another user
    assert toolchain_of(too_long, tmp_path).shown == ()
    assert list(homes_of_user({"HOME": str(too_long)})) == list(homes_of_user({"HOME": "/nonexistent"}))
