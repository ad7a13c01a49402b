"""`Dockerfile`, `.dockerignore` and `config/compose.yaml`: they name what there is, and their steps work.

No engine is needed here. What one would do beyond these steps is to fetch the base image and packages of its system.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tenex.cli.root_command import command_table, load_command
from tenex.cli.run import CLOSING
from tenex.main import FEATURES
from tenex.settings import Settings
from tests.repository.tree import files

from .kit import ROOT


def instructions() -> Iterator[tuple[str, str]]:
    """(instruction, rest) of each line of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def copied() -> list[tuple[list[str], str]]:
    """(sources, target) of each COPY from the checkout."""
    found = []
    for name, rest in instructions():
        words = shlex.split(rest)
        if name == "COPY" and not words[0].startswith("--from"):
            found.append((words[:-1], words[-1]))
    return found


def value_of(wanted: str) -> str:
    (value,) = [rest for name, rest in instructions() if name == wanted]
    return value


def extras() -> list[str]:
    found = re.search(r"^ARG EXTRAS=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].split(",")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What the build stage has after its COPY lines, from what git knows: no file of the tester's own."""
    folder = tmp_path / "src"
    known = {path.relative_to(ROOT) for path in files()}
    for sources, target in copied():
        for name in sources:
            for path in known:
                if path == Path(name) or path.is_relative_to(name):
                    is_folder = (ROOT / name).is_dir()
                    to = folder / target / (path.relative_to(name) if is_folder else path.name)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / path, to)
    return folder


def test_what_it_copies_is_there_and_let_through() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]

    def is_sent(path: str) -> bool:
        sent = True
        parts = Path(path).parts
        for line in lines:
            pattern = line.removeprefix("!")
            tops = ["/".join(parts[: count + 1]) for count in range(len(parts))]
            if any(fnmatch(top, pattern) for top in tops):
                sent = line.startswith("!")
        return sent

    for sources, _ in copied():
        for name in sources:
            assert (ROOT / name).exists(), name
            assert is_sent(name if (ROOT / name).is_file() else f"{name}/__init__.py"), name
    for private in ("tenex.toml", "keys/owner.nsec", "conversations/a/journal.jsonl", "config/tenex.toml", ".git/HEAD"):
        assert not is_sent(private), private


def test_the_image_runs_as_any_user_on_one_volume_and_compiles_nothing() -> None:
    text = (ROOT / "Dockerfile").read_text()
    (base, name), (second, _) = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)
    assert (base, name) == (second, "build")
    assert not re.search(r"\bpip\b|gcc|build-essential|-dev\b", text.split("# ---- the image")[1])
    assert [value_of(name) for name in ("USER", "VOLUME", "STOPSIGNAL")] == ["10001:10001", "/data", "SIGTERM"]
    assert "TENEX_DATA=/data" in value_of("ENV")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras()) <= project["optional-dependencies"].keys()


def test_its_commands_exist() -> None:
    assert json.loads(value_of("ENTRYPOINT")) == ["tenex"]
    (command,) = json.loads(value_of("CMD"))
    check = json.loads(value_of("HEALTHCHECK").split(" CMD ")[1])
    assert check[0] == "tenex"
    assert {command, check[1]} <= command_table(FEATURES).keys()
    patience = re.search(r"--timeout=(\d+)s", value_of("HEALTHCHECK"))
    (option,) = [p for p in getattr(load_command("status", FEATURES), "params", ()) if p.name == "patience"]
    assert patience is not None
    assert int(patience[1]) > option.default, "the check must end by itself, with a sentence"


def test_compose_agrees_with_image_and_settings() -> None:
    service = yaml.safe_load((ROOT / "config" / "compose.yaml").read_text())["services"]["tenex"]
    assert (ROOT / "config" / service["build"]["context"] / "Dockerfile").is_file()
    assert service["volumes"] == ["data:/data"]
    assert int(service["stop_grace_period"].removesuffix("s")) > Settings().shutdown.deadline + CLOSING
    assert (service["init"], service["read_only"], service["cap_drop"]) == (True, True, ["ALL"])
    assert "no-new-privileges:true" in service["security_opt"]
    for variable in service["environment"]:
        section, _, name = variable.removeprefix("TENEX_").lower().partition("__")
        if variable.startswith("TENEX_"):
            assert hasattr(getattr(Settings(), section), name), variable


def test_compose_of_two_daemons_gives_each_a_folder_and_both_the_same_keys_and_database() -> None:
    text = (ROOT / "config" / "compose.postgres.yaml").read_text()
    compose = yaml.safe_load(text)
    database, *daemons = (compose["services"][name] for name in ("database", "one", "two"))
    assert database["healthcheck"]["test"][1] == "pg_isready"
    for daemon in daemons:
        assert daemon["extends"] == {"file": "compose.yaml", "service": "tenex"}
        assert "postgres" in daemon["build"]["args"]["EXTRAS"].split(",")
        assert daemon["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert daemon["environment"]["TENEX_STORE"].endswith("@database/tenex")
        assert f"keys:{daemon['environment']['TENEX_PATHS__KEYS']}" in daemon["volumes"]
    folders = [next(one for one in daemon["volumes"] if one.endswith(":/data")) for daemon in daemons]
    assert len(set(folders)) == 2
    used = {one.partition(":")[0] for service in (database, *daemons) for one in service["volumes"]}
    assert used == compose["volumes"].keys()
    assert "/keys" in (ROOT / "Dockerfile").read_text()
    for line in re.findall(r"dc exec one tenex ([a-z ]+)", text):
        assert line.split()[0] in command_table(FEATURES)


def test_what_is_copied_is_all_the_build_and_the_program_need(source: Path) -> None:
    project = tomllib.loads((source / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    named = [project["project"]["readme"], *project["project"]["license-files"], *wheel["packages"]]
    for name in [*named, *wheel["force-include"]]:
        assert (source / name).exists(), name
    for words in (["--version"], ["agents", "list", "--data", source / "data"], ["graph", "add"], ["config", "show"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tenex.main", *map(str, words)],
            cwd=source.parent,
            timeout=60,
            env={"PYTHONPATH": str(source), "PATH": os.environ["PATH"], "HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.soak
def test_the_steps_of_the_build_by_hand(source: Path, tmp_path: Path) -> None:
    prefix, wheels, data = tmp_path / "opt", tmp_path / "wheels", tmp_path / "data"
    env = {**os.environ, "HOME": str(tmp_path), "TENEX_DATA": str(data)}
    env.pop("PYTHONPATH", None)

    def run(*words: str | Path, within: float = 60) -> int:
        return subprocess.run(words, cwd=tmp_path, env=env, timeout=within, check=False, capture_output=True).returncode

    assert run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", wheels, source, within=600) == 0
    assert run(sys.executable, "-m", "venv", prefix) == 0
    (wheel,) = wheels.iterdir()
    assert run(prefix / "bin" / "pip", "install", "-q", f"{wheel}[{','.join(extras())}]", within=1200) == 0
    shutil.rmtree(source)

    program = prefix / "bin" / "tenex"
    assert run(program, "init", "--relay", "ws://127.0.0.1:9") == 0
    assert run(program, *json.loads(value_of("HEALTHCHECK").split(" CMD ")[1])[1:]) == 1, "no daemon runs"
