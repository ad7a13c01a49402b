"""A daemon with packages and files that bring tools, some faulty: it starts, names them, and serves the rest."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.kits.own_tools import tenex_with

from .kit import ROOT, TENEX, Folder, running, tenex_here

MODULE = '''
from tenex.plugins import tool

@tool(access="read")
async def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
'''
HEAD = "from tenex.plugins import tool\n"
FUNCTION = '@tool(access="read")\ndef {name}() -> str:\n    """A tool."""\n    return "done"\n'
FILES = {
    "fails.py": f"{HEAD}{FUNCTION.format(name='fails')}import no_such_library\n",
    "prints.py": f"{HEAD}print('hello')\n{FUNCTION.format(name='prints')}",
    "read_file.py": f"{HEAD}{FUNCTION.format(name='read_file')}",
    "no_access.py": f"{HEAD}@tool()\ndef no_access() -> str:\n    'A tool.'\n    return ''\n",
    "leaves.py": f"{HEAD}{FUNCTION.format(name='leaves')}raise SystemExit(1)\n",
}
ADDED = '[tools.agents.executor]\nadd = ["word_count", "fails", "prints", "no_access", "leaves"]\n'


def wheel(place: Path) -> Path:
    """A wheel of a package with one tool, as a builder makes it."""
    name, about = "tenex_word_count-1.2-py3-none-any.whl", "tenex_word_count-1.2.dist-info"
    files = {
        "tenex_word_count.py": MODULE,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: tenex-word-count\nVersion: 1.2\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[tenex.tools]\nword_count = tenex_word_count:word_count\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(place / name, "w") as archive:
        for path, text in {**files, f"{about}/RECORD": record}.items():
            archive.writestr(path, text)
    return place / name


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder into which pip has installed the package."""
    words = ["install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--target"]
    line = [sys.executable, "-m", "pip", *words, str(tmp_path / "site"), str(wheel(tmp_path))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return tmp_path / "site"


async def test_a_package_and_faulty_files_beside_it(folder: Folder, site: Path) -> None:
    (folder.data / "tools").mkdir(mode=0o700)
    for name, text in FILES.items():
        (folder.data / "tools" / name).write_text(text)
    folder.edit("", f'{ADDED}[plugins]\nallow = ["tenex-word-count"]\n')
    async with running([*TENEX, "run", "--data", str(folder.data)], PYTHONPATH=f"{ROOT}:{site}") as process:
        await process.until("runtime.ready")
        left_out = {Path(log["source"]).name for log in process.logs if log["event"] == "plugin.left_out"}
        assert left_out == {"fails.py", "read_file.py", "no_access.py", "leaves.py"}
        shown = {one["source"]: one for one in (await folder.facts("status"))["configuration"]["ownTools"]}
        assert shown["tenex-word-count 1.2"] == {
            "source": "tenex-word-count 1.2",
            "tools": ["word_count"],
            "faults": [],
        }
        faults = {Path(source).name: " ".join(one["faults"]) for source, one in shown.items()}
        assert "No module named 'no_such_library'" in faults["fails.py"]
        assert "has the name of a tool of the daemon's" in faults["read_file.py"]
        assert "@tool on a function needs `access`" in faults["no_access.py"]
        assert "SystemExit" in faults["leaves.py"]
        assert faults["prints.py"] == ""
        name = await folder.write("Create hello.py that prints hello")
        await folder.until(name, "ended")
        code, found = await tenex_with(site, "doctor", "--data", folder.data)
        assert code == 3
        text = json.dumps(found)
        for word in (
            "no_such_library",
            "no_access.py",
            "leaves.py",
            "prints to the standard output",
            "all rights of the daemon",
        ):
            assert word in text
        code, listed = await tenex_with(site, "agents", "show", "executor", "--data", folder.data)
        assert (code, {"word_count", "prints"} <= set(listed["tools"])) == (0, True)


async def test_without_the_package_the_daemon_starts_and_names_what_is_missing(folder: Folder) -> None:
    folder.edit("", '[tools.agents.executor]\nadd = ["word_count"]\n[plugins]\nallow = ["tenex-word-count"]\n')
    async with running([*TENEX, "run", "--data", str(folder.data)]) as process:
        await process.until("runtime.ready")
        shown = (await folder.facts("status"))["configuration"]["ownTools"]
        assert [one["source"] for one in shown] == ["plugins.allow tenex-word-count", "tools.agents.executor.add"]
        code, out, _ = await tenex_here("status", "--data", folder.data)
        assert (code, "no package of this name is installed here" in out) == (0, True)
    async with running([*TENEX, "run", "--data", str(folder.data)], TENEX_PLUGINS="none") as process:
        await process.until("runtime.ready")
        assert "plugin.left_out" not in process.events()
