"""Builds the sdist and the wheel, checks them, and installs the wheel in clean environments: `make release-check`.

    python -m tests.packaging                          every Python of `VERSIONS` that is found here
    python -m tests.packaging --python /opt/py/bin/python3

What is missing on this machine is named at the end and is no failure; what fails is, and the exit code is then 1.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
VERSIONS: Final = ("3.11", "3.12", "3.13")
PROGRAMS: Final = Path(sys.executable).parent
"""The folder with the programs of the extra `release`."""
TIMEOUT: Final = 900
"""Seconds for one command: an installation loads about 40 packages."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks and print a line for each; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging")
    parser.add_argument("--python", action="append", default=[], help="an interpreter to install with; may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the files are written; default: dist")
    given = parser.parse_args(arguments)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = _files(report, given.out)
        if wheel is None:
            return report.finish()
        interpreters = [Path(name) for name in given.python] or _interpreters(report)
        for interpreter in interpreters:
            _installations(report, interpreter, wheel, work)
        if interpreters:
            _bill_of_materials(report, interpreters[-1], wheel, work)
            _pages_and_scripts(report, interpreters[-1], wheel, work)
        _workflow_files(report)
    return report.finish()


class Report:
    """What was checked, as it is printed."""

    def __init__(self) -> None:
        self._failed = 0
        self._passed = 0
        self._missing: list[str] = []

    def check(self, name: str, work: Callable[[], str]) -> bool:
        """Do one check and print its line; returns whether it passed."""
        try:
            detail = work()
        except CheckFailed as error:
            self._failed += 1
            print(f"FAILED  {name}\n{error}", flush=True)
            return False
        self._passed += 1
        print(f"passed  {name}  {detail}".rstrip(), flush=True)
        return True

    def missing(self, what: str) -> None:
        """Note what this machine does not have."""
        self._missing.append(what)

    def finish(self) -> int:
        """Print the sums."""
        for what in self._missing:
            print(f"MISSING {what}")
        print(f"{self._passed} passed, {self._failed} failed")
        return 1 if self._failed else 0


class CheckFailed(Exception):
    """A command failed, or printed something else than it should."""


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command; returns its standard output.

    Raises:
        CheckFailed: its exit status is not 0, or its time is up.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=env, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise CheckFailed(f"{' '.join(words)}: not finished after {TIMEOUT} s") from error
    if done.returncode:
        raise CheckFailed(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def passes(*command: str | Path) -> str:
    """Run a command whose output is of no use if its exit status is 0."""
    run(*command)
    return ""


def _files(report: Report, out: Path) -> Path | None:
    """Build the sdist, and the wheel from it; returns the wheel."""
    shutil.rmtree(out, ignore_errors=True)

    def build() -> str:
        run(sys.executable, "-m", "build", "--outdir", out, ROOT)
        return ", ".join(f"{path.name} {path.stat().st_size / 1e6:.2f} MB" for path in sorted(out.iterdir()))

    if not report.check("build", build):
        return None
    files = sorted(out.iterdir())
    report.check("twine check", lambda: passes(PROGRAMS / "twine", "check", "--strict", *files))
    (wheel,) = out.glob("*.whl")
    report.check("check-wheel-contents", lambda: passes(PROGRAMS / "check-wheel-contents", wheel))
    return wheel


def _interpreters(report: Report) -> list[Path]:
    """The interpreters on PATH and among pyenv's, one for each version; what is not there is noted."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = []
    for version in VERSIONS:
        places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python3"))]
        usable = next((Path(place) for place in places if place and _is_of(Path(place), version)), None)
        if usable is None:
            report.missing(f"Python {version}: nothing was installed with it")
        else:
            found.append(usable)
    return found


def _is_of(interpreter: Path, version: str) -> bool:
    """Whether it starts, has venv and is of that version; a shim of pyenv may be there without its Python."""
    code = "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def _installations(report: Report, interpreter: Path, wheel: Path, work: Path) -> None:
    version = run(interpreter, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])").strip()
    for name, install in {"pip": _by_pip, "uv": _by_uv, "pipx": _by_pipx}.items():
        home = work / f"{version}-{name}"
        home.mkdir()
        report.check(f"Python {version}, {name}", partial(_install_and_try, install, interpreter, wheel, home))


def _install_and_try(install: Callable[[Path, Path, Path], Path], interpreter: Path, wheel: Path, home: Path) -> str:
    return _try(install(interpreter, wheel, home), home)


def clean(home: Path, **more: str) -> dict[str, str]:
    """An environment of a user who has nothing of ours: how packages are found stays as the machine has it."""
    dropped = ("TENEX_", "VIRTUAL_ENV", "PYTHON", "XDG_", "PIPX_", "UV_TOOL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if Path(part) != PROGRAMS)
    return {**kept, "HOME": str(home), **more}


def _by_pip(interpreter: Path, wheel: Path, home: Path) -> Path:
    run(interpreter, "-m", "venv", home / "venv")
    run(home / "venv/bin/python", "-m", "pip", "install", "--quiet", f"{wheel}[relay]", env=clean(home))
    run(home / "venv/bin/python", "-m", "pip", "check", env=clean(home))
    return home / "venv/bin"


def _by_uv(interpreter: Path, wheel: Path, home: Path) -> Path:
    uv = PROGRAMS / "uv"
    python = ("--python", interpreter)
    env = clean(home, UV_TOOL_BIN_DIR=str(home / "bin"), UV_TOOL_DIR=str(home / "tools"), UV_PYTHON_DOWNLOADS="never")
    run(uv, "tool", "install", "--quiet", *python, f"tenexd[relay] @ {wheel.as_uri()}", env=env)
    _expect("tenex ", run(uv, "tool", "run", *python, "--from", wheel, "tenexd", "--version", env=env))  # as `uvx`
    return home / "bin"


def _by_pipx(interpreter: Path, wheel: Path, home: Path) -> Path:
    env = clean(home, PIPX_HOME=str(home / "pipx"), PIPX_BIN_DIR=str(home / "bin"))
    run(PROGRAMS / "pipx", "install", "--quiet", "--python", interpreter, f"{wheel}[relay]", env=env)
    return home / "bin"


def _try(programs: Path, home: Path) -> str:
    """Use what was installed as on the first day: both commands, and a conversation with the offline model."""
    env = clean(home, PATH=f"{programs}:{os.environ['PATH']}", COLUMNS="100")
    printed = run(programs / "tenex", "--version", env=env, cwd=home)
    _expect(printed, run(programs / "tenexd", "--version", env=env, cwd=home))
    data = ("--data", home / "data")
    message = "Create hello.py that prints hello"
    run(programs / "tenex", "demo", *data, "--model", "offline", "--message", message, env=env, cwd=home)
    conversations = json.loads(run(programs / "tenex", "conversations", "list", *data, "--json", env=env))
    _expect("ended", json.dumps(conversations))
    written = home / "data/workspace/hello.py"
    _expect("hello", written.read_text() if written.exists() else "")
    return printed.strip()


def _expect(part: str, text: str) -> None:
    if part not in text:
        raise CheckFailed(f"expected {part!r}, found {text[:400]!r}")


def _bill_of_materials(report: Report, interpreter: Path, wheel: Path, work: Path) -> None:
    """Write what the extra `all` installs, in the form of CycloneDX, beside the files: of a clean environment."""

    def write() -> str:
        run(interpreter, "-m", "venv", work / "all")
        run(work / "all/bin/python", "-m", "pip", "install", "--quiet", f"{wheel}[all]", env=clean(work))
        run(work / "all/bin/python", "-m", "pip", "check", env=clean(work))
        run(work / "all/bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "pip", env=clean(work))
        out = wheel.parent / "sbom" / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        out.parent.mkdir(exist_ok=True)
        options = ("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--validate", "-o", out)
        run(PROGRAMS / "cyclonedx-py", "environment", *options, work / "all/bin/python")
        return f"{out.name}, {len(json.loads(out.read_text())['components'])} components"

    report.check("bill of materials", write)


def _pages_and_scripts(report: Report, interpreter: Path, wheel: Path, work: Path) -> None:
    """What a packager takes: the man page and the scripts of shells, read by the programs that are here."""
    readers: Mapping[str, tuple[str, ...]] = {
        "man": ("mandoc", "-Tlint", "-Werror"),
        "bash": ("bash", "-n"),
        "zsh": ("zsh", "-n"),
        "fish": ("fish", "--no-execute"),
    }
    for name, command in readers.items():
        if shutil.which(command[0]) is None:
            report.missing(f"{command[0]}: `tenex completion {name} --print` was not read by it")
            continue
        report.check(f"completion {name}", partial(_read_by, command, name, work))


def _read_by(command: tuple[str, ...], name: str, work: Path) -> str:
    file = work / f"tenex.{name}"
    file.write_text(run(work / "all/bin/tenex", "completion", name, "--print", env=clean(work)))
    run(*command, file)
    return f"{len(file.read_text().splitlines())} lines"


def _workflow_files(report: Report) -> None:
    """What is run elsewhere: it can only be read here."""
    files = sorted((ROOT / ".github/workflows").glob("*.yml"))
    schema = ("--builtin-schema", "vendor.github-workflows")
    report.check("workflow schema", lambda: passes(PROGRAMS / "check-jsonschema", *schema, *files) and "")
    report.check("zizmor", lambda: passes(PROGRAMS / "zizmor", "--offline", "--quiet", *files))


if __name__ == "__main__":
    sys.exit(main())
