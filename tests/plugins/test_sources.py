"""Files and packages with tools: found without being run, loaded when an agent has one, left out if faulty."""

import os
import re
import sys
from pathlib import Path

import pytest

from tenex.plugins import loading
from tenex.plugins.names import fault_of_name
from tenex.plugins.sources import tool_names
from tenex.workflows.kit.loading import changed_since

from .conftest import Own, call, package

GOOD = '''
@tool(access="read")
def {name}() -> str:
    """Good."""
    return "{name}"
'''


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "from tenex.plugins import tool\n@tool()\ndef a(): ...\n@tool()\nasync def b(): 0\ndef c(): 0\n",
            "a b",
        ),
        ("from tenex.plugins import tool as t\n@t\ndef a(): ...\n", "a"),
        ("import tenex.plugins\n@tenex.plugins.tool()\ndef a(): ...\n", "a"),
        ("import tenex.plugins as p\n@p.tool()\ndef a(): ...\n", "a"),
        ("from tenex import plugins as p\n@other\n@p.tool()\ndef a(): ...\n", "a"),
        ("from tenex import tool\n@tool('of an agent')\ndef a(): ...\n", ""),
        ("def tool(f): ...\n@tool\ndef a(): ...\n", ""),
        ("from tenex.plugins import tool\nclass A:\n    @tool()\n    def a(self): ...\n", ""),
        ("", ""),
    ],
)
def test_the_names_of_a_file_are_read_from_its_syntax(text: str, names: str) -> None:
    assert tool_names(text) == names.split()


async def test_nothing_runs_before_an_agent_has_it(own: Own) -> None:
    mark = own.folder / "ran"
    own.put("first.py", f"with open({str(mark)!r}, 'a') as file: file.write('first ')\n" + GOOD.format(name="first"))
    own.put("second.py", f"with open({str(mark)!r}, 'a') as file: file.write('second ')\n" + GOOD.format(name="second"))
    (own.folder / "script.py").write_text(f"with open({str(mark)!r}, 'a') as file: file.write('script ')\n")
    os.mkfifo(own.folder / "pipe.py")
    (own.folder / "_shared.py").write_text(f"with open({str(mark)!r}, 'a') as file: file.write('shared ')\n")
    plugins = own.find()
    assert plugins.names == {"first", "second"}
    assert not mark.exists()
    (tool,) = plugins.load(["second", "no such tool"], own.workspace)
    assert (tool.name, mark.read_text()) == ("second", "second ")
    assert plugins.faults() == []
    script = own.folder / "script.py"
    assert plugins.remarks() == [f"{script}: no function of it has `@tool` of tenex.plugins, so it is not loaded"]


BROKEN = {
    "raises.py": ("1 / 0", "line 2: ZeroDivisionError: division by zero"),
    "imports.py": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "leaves.py": ("raise SystemExit(0)", "SystemExit: 0"),
    "access.py": (
        "@tool()\ndef other(): ...",
        '@tool on a function needs `access`, such as @tool(access="read").',
    ),
    "bare.py": ("@tool\ndef other(): ...", "line 2: UsageError: @tool on other needs `access`"),
    "agents.py": ("@tool('Text')\ndef other(): ...", "line 2: UsageError: @tool of tenex.plugins takes no description"),
    "version.py": ("TENEX_API = 2", "it needs version 2 of tenex.plugins, and this is 1."),
    "renamed.py": ("", "broken is no function with `@tool`"),
    "syntax.py": ("def broken(:", "line 2: it is not valid Python"),
    "null.py": ("a = '\0'", ""),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_file_that_cannot_be_loaded_is_named_and_left_out_and_others_are_not(own: Own, name: str) -> None:
    text, fault = BROKEN[name]
    after = "\nbroken = 5\n" if name == "renamed.py" else ""
    path = own.put(name, text + "\n" + GOOD.format(name="broken") + after)
    own.put("zgood.py", GOOD.format(name="good"))
    tools, faults = own.load("broken", "good")
    assert set(tools) == {"good"}
    (sentence,) = faults
    assert sentence.startswith(f"{path}: ")
    assert fault in sentence
    assert (await call(tools["good"])).content == "good"


@pytest.mark.parametrize(
    ("head", "body", "fault"),
    [
        (
            '@tool(access="rnu")\ndef sample() -> str:',
            '"""S."""',
            "`access` is 'rnu'; it must be one of read, change, run",
        ),
        ('@tool(access="speak")\ndef sample() -> str:', '"""S."""', "`access` is 'speak'"),
        ('@tool(access="read", replay="never")\ndef sample() -> str:', '"""S."""', "`replay` is 'never'"),
        ('@tool(access="read", approve="yes")\ndef sample() -> str:', '"""S."""', "`approve` is 'yes'"),
        ('@tool(access="read", timeout=0)\ndef sample() -> str:', '"""S."""', "`timeout` is 0"),
        ('@tool(access="read")\ndef sample() -> str:', "...", "has no description"),
        ('@tool(access="read")\ndef sample(a) -> str:', '"""S."""', "`a` has no annotation; give its type."),
        ('@tool(access="read")\ndef sample(*a: int) -> str:', '"""S."""', "cannot be given by name"),
        ('@tool(access="read")\ndef sample(a: object, b: type) -> str:', '"""S."""', "a parameter is no JSON"),
        ('@tool(access="read")\ndef sample(a: int, c: ToolContext) -> str:', '"""S."""', "must be the first"),
        ('@tool(access="read")\ndef sample(a: "Nothing") -> str:', '"""S."""', "its annotations cannot be read"),
        ('@tool(access="read")\ndef sample() -> str:', '"""S."""\n    yield "a"', "yields; it must return its result"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_named(own: Own, head: str, body: str, fault: str) -> None:
    own.put("sample.py", f"{head}\n    {body}\n" + GOOD.format(name="other"))
    tools, faults = own.load()
    assert set(tools) == {"other"}
    (sentence,) = faults
    assert sentence.startswith(f"{own.folder / 'sample.py'}: the tool sample")
    assert fault in sentence


def test_one_that_takes_long_to_load_is_given_up(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SECONDS", 0.05)
    path = own.put("slow.py", "import threading\nthreading.Event().wait(30)\n" + GOOD.format(name="slow"))
    busy = own.put("busy.py", "while True: pass\n" + GOOD.format(name="busy"))
    tools, faults = own.load()
    assert tools == {}
    end = "it was not loaded within 0.05 s and was given up; load what is slow later."
    assert sorted(faults) == sorted([f"{path}: {end}", f"{busy}: {end}"])


def test_one_that_prints_is_used_and_named(own: Own, capsys: pytest.CaptureFixture[str]) -> None:
    path = own.put("loud.py", "print('hello')\n" + GOOD.format(name="loud"))
    plugins = own.find()
    assert [tool.name for tool in plugins.load(["loud"], own.workspace)] == ["loud"]
    assert capsys.readouterr().out == ""
    assert plugins.remarks() == [f"{path}: it prints to the standard output while it is loaded, which is not shown"]


def test_of_two_that_claim_one_name_neither_is_used_and_none_takes_a_tool_of_the_daemon(own: Own, site: Path) -> None:
    one = own.put("one.py", GOOD.format(name="twice") + GOOD.format(name="once"))
    two = own.put("two.py", GOOD.format(name="twice") + GOOD.format(name="read_file"))
    package(
        site,
        "pack",
        "from tenex.plugins import tool\n" + GOOD.format(name="f"),
        {"once": "f", "ask_b": "f", "a__b": "f"},
    )
    tools, faults = own.load(allowed=("pack",))
    assert tools == {}
    assert sorted(faults) == sorted([
        f"{one}: the tool once is claimed by pack 1.0 too, and neither is used. Remove one of them.",
        f"{one}: the tool twice is claimed by {two} too, and neither is used. Remove one of them.",
        f"{two}: the tool twice is claimed by {one} too, and neither is used. Remove one of them.",
        f"{two}: the tool read_file has the name of a tool of the daemon's. Call it by another name.",
        f"pack 1.0: the tool once is claimed by {one} too, and neither is used. Remove one of them.",
        f"pack 1.0: the tool ask_b {fault_of_name('ask_b')}",
        "pack 1.0: the tool a__b cannot be called so: `__` is kept for tools of servers. Call it by another name.",
    ])  # fmt: skip


@pytest.mark.parametrize("how", ["world", "group", "folder", "link", "gone"])
def test_a_file_that_others_may_change_or_that_lies_elsewhere_is_not_loaded(
    own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("tenex.settings.file_rights.is_own_group", lambda *_: False)
    mark = tmp_path / "ran"
    text = f"with open({str(mark)!r}, 'a'): pass\n" + GOOD.format(name="sample")
    path = own.put("sample.py", text)
    path.chmod(0o600)
    own.folder.chmod(0o700)
    match how:
        case "world" | "group":
            path.chmod(0o606 if how == "world" else 0o660)
            fault = f"others may change {path}. Run `chmod go-w {path}`."
        case "folder":
            own.folder.chmod(0o777)
            fault = f"others may change {own.folder}. Run `chmod go-w {own.folder}`."
        case "link":
            path.rename(tmp_path / "elsewhere.py")
            path.symlink_to(tmp_path / "elsewhere.py")
            fault = f"it is a link that leads out of {own.folder}. Copy the file to there."
        case _:
            path.unlink()
            path.symlink_to(own.folder / "nothing.py")
            fault = "it cannot be read (No such file or directory). Check its rights."
    tools, faults = own.load("sample")
    assert (tools, faults) == ({}, [f"{path}: it is not loaded: {fault}"])
    assert "sample" in own.find().names, "an agent that names it is not disabled"
    assert not mark.exists()


def test_a_group_that_is_the_users_own_may_write(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenex.settings.file_rights.is_own_group", lambda *_: True)
    own.put("sample.py", GOOD.format(name="sample")).chmod(0o664)
    assert set(own.load()[0]) == {"sample"}


def test_a_variable_starts_without_any(own: Own, site: Path) -> None:
    own.put("sample.py", GOOD.format(name="sample"))
    package(site, "pack", "from tenex.plugins import tool\n" + GOOD.format(name="f"), {"packed": "f"})
    assert own.load(allowed=("pack",))[0].keys() == {"sample", "packed"}
    for word in ("none", "None"):
        off = {"TENEX_PLUGINS": word}
        assert own.load(allowed=("pack",), env=off) == ({}, [])
        assert own.find("pack", env=off).names == {"sample", "packed"}, "agents may still name them"
    assert own.load(code_refusal="no code runs from the workspace")[1] == [
        f"{own.folder / 'sample.py'}: it is not loaded: no code runs from the workspace."
    ]


async def test_files_of_the_folder_may_import_each_other_and_a_reload_reads_them_again(own: Own) -> None:
    shared = own.folder / "_words.py"
    shared.write_text("WORD = 'old'\n")
    own.put(
        "sample.py",
        'from _words import WORD\n@tool(access="read")\ndef sample() -> str:\n    """S."""\n    return WORD\n',
    )
    assert (await call(own.load()[0]["sample"])).content == "old"
    shared.write_text("WORD = 'new'\n")
    assert (await call(own.load()[0]["sample"])).content == "new"
    assert "_words" not in sys.path
    assert str(own.folder) not in sys.path


async def test_a_package_brings_tools_once_the_operator_allows_it(own: Own, site: Path) -> None:
    module = "from tenex.plugins import tool\n" + GOOD.format(name="f") + "def factory(): return f\nNUMBER = 5\n"
    package(site, "Word_Count", module, {"word_count": "f", "made": "factory", "number": "NUMBER", "gone": "missing"})
    assert own.load() == ({}, [])
    assert "Word_Count_module" not in sys.modules
    plugins = own.find("word-count")
    assert plugins.names == {"word_count", "made", "number", "gone"}
    assert "Word_Count_module" not in sys.modules
    tools = {tool.name: tool for tool in plugins.load(["word_count", "made"], own.workspace)}
    assert (await call(tools["word_count"])).content == (await call(tools["made"])).content == "f"
    assert plugins.faults() == []
    assert changed_since(plugins.references()) == []
    (site / "Word_Count_module.py").write_text(f"{module}\n# longer\n")
    assert changed_since(plugins.references()) == ["Word_Count_module"]


def test_a_package_with_faults_or_that_is_not_installed_is_named(own: Own, site: Path) -> None:
    head = "from tenex.plugins import tool\n"
    package(
        site, "odd", head + GOOD.format(name="f") + "NUMBER = 5\n", {"number": "NUMBER", "gone": "missing", "good": "f"}
    )
    package(site, "bad", "import no_such_library\n", {"first": "f", "second": "f"})
    _, faults = own.load(allowed=("odd", "bad", "absent"))
    assert "absent" in faults[-1]
    assert "no package of this name is installed here" in faults[-1]
    of_bad = [fault for fault in faults if fault.startswith("bad 1.0: ")]
    assert len(of_bad) == 1, "one module, one fault"
    assert "needs no_such_library, which is not installed" in of_bad[0]
    assert any("number is no function with `@tool`" in fault for fault in faults)


async def test_the_tool_that_the_documentation_shows_works_as_it_is(own: Own) -> None:
    text = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (own.folder / "word_count.py").write_text(block)
    (own.workspace / "README.md").write_text("read me now")
    tools, faults = own.load()
    assert faults == []
    assert (await call(tools["word_count"], {"path": "README.md"})).content == "3"
    assert len(block.splitlines()) <= 12
