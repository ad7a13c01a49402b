"""The files that a call names: found by looking, wherever and however they are named."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tenex.tools.named_files import named_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name in (
        *("deploy.sh", "my script.sh", "Makefile", "package.json", "app.js", "pkg/mod.py", "pkg/__main__.py"),
        *("scripts/run.sh", "scripts/package.json", "deploy", "data/a.json", "infra/compose.yaml"),
    ):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    (tmp_path / "outside.sh").write_text("x")
    return root


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("sh deploy.sh", {"deploy.sh"}),
        ("./deploy.sh --now", {"deploy.sh"}),
        (". ./deploy.sh", {"deploy.sh"}),
        ("bash < deploy.sh", {"deploy.sh"}),
        ("cat deploy.sh|sh", {"deploy.sh"}),
        ("sh deploy", {"deploy"}),
        ("sh 'my script.sh'", {"my script.sh"}),
        ("sh my\\ script.sh", {"my script.sh"}),
        ('bash -c "sh deploy.sh"', {"deploy.sh"}),
        ("bash -c 'sh \"my script.sh\"'", {"my script.sh"}),
        ("cd scripts && sh run.sh", {"scripts/run.sh"}),
        ("(cd scripts; ./run.sh)", {"scripts/run.sh"}),
        ("sh $(echo deploy.sh)", {"deploy.sh"}),
        ("sh dep*.sh", {"deploy.sh"}),
        ("sh deploy.s?", {"deploy.sh"}),
        ("curl -d @data/a.json x", {"data/a.json"}),
        ("curl --data=@data/a.json x", {"data/a.json"}),
        ("x --file=data/a.json", {"data/a.json"}),
        ("x -fdata/a.json", {"data/a.json"}),
        ("PYTHONPATH=pkg x", set()),
        ("python -m pkg.mod", {"pkg/mod.py"}),
        ("python3 -m pkg", {"pkg/__main__.py"}),
        ("node app", {"app.js", "package.json"}),
        ("make deploy", {"deploy", "Makefile"}),
        ("npm run deploy", {"deploy", "package.json"}),
        ("npm --prefix scripts run x", {"package.json", "scripts/package.json"}),
        ("docker compose -f infra/compose.yaml up", {"infra/compose.yaml"}),
        ("git push origin main", set()),
        ("sh ../outside.sh", set()),
        ("sh nothing.sh", set()),
        ("x \x00 deploy.sh", {"deploy.sh"}),
    ],
)
def test_files_that_the_words_of_a_command_name(root: Path, command: str, names: set[str]) -> None:
    assert named_files(root, "shell", {"command": command}).keys() == names


@pytest.mark.parametrize(
    ("tool", "arguments", "names"),
    [
        ("shell", {"command": "sh run.sh", "cwd": "scripts"}, {"scripts/run.sh"}),
        ("box__run", {"argv": ["sh", "deploy.sh"]}, {"deploy.sh"}),
        ("box__run", {"options": {"script": "deploy.sh"}}, {"deploy.sh"}),
        ("mail__send", {"attachments": ["my script.sh"]}, {"my script.sh"}),
        ("write_file", {"path": "deploy.sh", "content": "sh data/a.json"}, set()),
        ("python", {"code": "open('data/a.json')"}, {"data/a.json"}),
        ("box__run", {"count": 3}, set()),
    ],
)
def test_files_that_arguments_name(root: Path, tool: str, arguments: dict[str, Any], names: set[str]) -> None:
    assert named_files(root, tool, arguments).keys() == names


def test_the_digest_is_of_the_content(root: Path) -> None:
    call = {"command": f"sh {root}/deploy.sh"}
    assert named_files(root, "shell", call) == {"deploy.sh": hashlib.sha256(b"deploy.sh").hexdigest()}
    before = named_files(root, "shell", call)
    os.utime(root / "deploy.sh", (0, 0))
    assert named_files(root, "shell", call) == before
    (root / "deploy.sh").write_text("rm -rf x")
    assert named_files(root, "shell", call) != before


def test_a_link_is_known_by_itself_and_by_what_it_leads_to(root: Path) -> None:
    call = {"command": "sh link.sh"}
    (root / "link.sh").symlink_to("deploy.sh")
    before = named_files(root, "shell", call)
    assert before.keys() == {"link.sh"}
    (root / "deploy.sh").write_text("other")
    changed = named_files(root, "shell", call)
    assert changed != before
    (root / "link.sh").unlink()
    (root / "link.sh").symlink_to("../outside.sh")
    assert named_files(root, "shell", call) not in (before, changed)


def test_a_file_that_appears_and_one_that_goes_are_differences(root: Path) -> None:
    call = {"command": "sh later.sh deploy.sh"}
    before = named_files(root, "shell", call)
    (root / "later.sh").write_text("x")
    assert named_files(root, "shell", call).keys() == {"deploy.sh", "later.sh"} != before.keys()
    (root / "deploy.sh").unlink()
    assert named_files(root, "shell", call).keys() == {"later.sh"}


def test_what_is_no_regular_file_is_not_read(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert named_files(root, "shell", {"command": "cat pipe /dev/zero scripts"}) == {}


def test_many_words_are_looked_up_up_to_a_bound(root: Path) -> None:
    call = {"command": "deploy.sh " + " ".join(f"w{number}" for number in range(50_000))}
    assert named_files(root, "shell", call).keys() == {"deploy.sh"}
