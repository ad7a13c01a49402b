"""What is made in the workspace has the rights of the umask that was given, though the process has a stricter one."""

import os
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenex.configuration.mcp_launch import Launcher
from tenex.mcp.stdio import Program
from tenex.tools.git_commit import git_commit_tool
from tenex.tools.sandbox import RunPolicy
from tenex.tools.shell import check_tool
from tenex.tools.shell_runner import ShellRules
from tenex.tools.umask import make_folders, process_umask
from tenex.tools.workspace import Workspace
from tests.mcp.conftest import config
from tests.programs import needs_bubblewrap, needs_git

from .conftest import SANDBOXED, Bench, every_tool, git, make_context, put, shell_only

PRIVATE = 0o077
UMASKS = pytest.mark.parametrize("umask", [0o022, 0o002, 0o027, 0o077, 0o000], ids="{:03o}".format)
COMMAND = "mkdir d && echo > d/f && echo 'print()' > d/m.py && python3 -m compileall -q d && mkfifo p"

ACL_VERSION = 2
OWNER, NAMED_USER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
"""Tags of entries in an access control list, as the kernel keeps it (`linux/posix_acl.h`)."""
UNDEFINED_ID = 0xFFFFFFFF


@pytest.fixture(autouse=True)
def private() -> Iterator[None]:
    """The umask of the daemon."""
    before = os.umask(PRIVATE)
    yield
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """The rights of all that is in a folder, by their paths."""
    return {str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode) for path in root.rglob("*")}


def test_the_umask_of_the_process_is_read_and_holds_unless_another_is_given(root: Path) -> None:
    assert process_umask() == PRIVATE
    assert Workspace(root).umask == PRIVATE
    assert Workspace(root, umask=0o002).umask == 0o002
    assert os.umask(PRIVATE) == PRIVATE


@UMASKS
async def test_files_and_folders_of_the_file_tools(root: Path, umask: int) -> None:
    tools = every_tool(Workspace(root, umask=umask))
    assert (await tools.do("write_file", path="a/b/c", content="new")).ok
    assert (await tools.do("write_file", path="moved", content="new")).ok
    assert (await tools.do("move_file", path="moved", to="d/e/moved")).ok
    file = 0o666 & ~umask
    folder = 0o777 & ~umask
    assert modes(root) == {
        **dict.fromkeys(("a", "a/b", "d", "d/e"), folder),
        **dict.fromkeys(("a/b/c", "d/e/moved"), file),
    }


@pytest.mark.parametrize(
    "rules",
    [pytest.param(SANDBOXED, marks=needs_bubblewrap), ShellRules(policy=RunPolicy.UNSANDBOXED, timeout=30)],
    ids=["sandboxed", "unsandboxed"],
)
@UMASKS
async def test_files_and_folders_that_programs_make(root: Path, umask: int, rules: ShellRules) -> None:
    result = await shell_only(Workspace(root, umask=umask), rules).run(COMMAND)
    assert result.exit_status == 0, result.content
    made = modes(root)
    (compiled,) = (path for path in made if path.endswith(".pyc"))
    assert made == {
        **dict.fromkeys(("d", "d/__pycache__"), 0o777 & ~umask),
        **dict.fromkeys(("d/f", "d/m.py", "p", compiled), 0o666 & ~umask),
    }


async def test_files_of_a_check_outside_the_sandbox(root: Path) -> None:
    put(root, {"a.py": "open('made', 'w').close()"})
    tools = Bench([check_tool(Workspace(root, umask=0o022), RunPolicy.UNSANDBOXED)])
    assert (await tools.do("check", make_context(touched=frozenset({"a.py"})), path="a.py")).ok
    assert modes(root)["made"] == 0o644


@needs_git
@needs_bubblewrap
async def test_objects_of_a_commit(root: Path) -> None:
    put(root, {"a": "one"})
    git(root, "init", "-q")
    before = set(root.rglob("*"))
    tools = Bench([git_commit_tool(Workspace(root, umask=0o002))])
    result = await tools.do("git_commit", make_context(touched=frozenset({"a"})), message="Begin")
    assert result.ok, result.content
    made = [path for path in root.rglob("*") if path not in before]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o775}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} <= {0o664, 0o444}


def test_servers_of_mcp_are_started_with_it(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    launch = Launcher(tmp_path / "workspace", tmp_path, has_sandbox=False, umask=0o022)
    program: Program = launch(config(command=sys.executable, sandbox=False))
    assert program.umask == 0o022


async def test_an_existing_file_keeps_its_rights(root: Path) -> None:
    put(root, {"a": "one"})
    (root / "a").chmod(0o640)
    Workspace(root, umask=0o022).update(root / "a", lambda _: b"two", 10)
    assert modes(root) == {"a": 0o640}


def test_new_folders_in_one_of_a_group_are_the_groups_too(root: Path) -> None:
    root.chmod(0o2770)
    workspace = Workspace(root, umask=0o007)
    workspace.update(root / "a/b", lambda _: b"", 10)
    workspace.update(root / "a/c", lambda _: b"new", 10)
    assert modes(root)["a"] == 0o2770


def test_a_default_access_control_list_takes_the_place_of_the_umask(root: Path) -> None:
    entries = [
        (OWNER, 7, UNDEFINED_ID),
        (NAMED_USER, 7, 1),
        (GROUP, 5, UNDEFINED_ID),
        (MASK, 7, UNDEFINED_ID),
        (OTHER, 0, UNDEFINED_ID),
    ]
    packed = struct.pack("<I", ACL_VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(root, "system.posix_acl_default", packed)
    except OSError:
        pytest.skip("this disk has no access control lists")
    Workspace(root, umask=0o022).update(root / "a/b", lambda _: b"new", 10)
    assert modes(root) == {"a": 0o770, "a/b": 0o660}


def test_missing_folders_are_made_as_mkdir_makes_them(tmp_path: Path) -> None:
    make_folders(tmp_path / "a" / "b", 0o022)
    make_folders(tmp_path / "a" / "b", 0o077)
    assert modes(tmp_path) == {"a": 0o755, "a/b": 0o755}
