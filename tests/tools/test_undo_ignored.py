"""What a command did in a folder that git ignores is named by an undo, and what it moved out of there stays."""

from pathlib import Path

import pytest

from tenex.tools import displaced
from tenex.tools.checkpoints import Checkpoints
from tests.programs import needs_bubblewrap, needs_git

from .conftest import put
from .undo_kit import Work, said

pytestmark = [needs_bubblewrap, needs_git]

OVERWRITTEN = "changed, and is ignored by git: what it was is not in the checkpoints"
IGNORED = "was ignored by git and is not in the checkpoints"
SECRET = "may hold what was build/secret"


@pytest.fixture
def work(folder: Path, root: Path) -> Work:
    put(
        root, {".gitignore": "build/\n.env\n", ".env": "of env\n", "app.py": "1\n", "src/app.py": "1\n", "src/b": "b\n"}
    )
    put(root, {"build/out": "out\n", "build/secret": "secret\n", "build/dir/app.py": "hidden\n", "build/link": "l\n"})
    made = Work(Checkpoints(folder, root), root)
    made.turn()
    return made


EXCHANGE = "import ctypes; ctypes.CDLL(None).renameat2(-100, b'build/secret', -100, b'src/app.py', 2)"

ROWS: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    # what a command did, what is put back, and what stays with its reason
    "overwritten": ("echo x > build/out", (), {"build/out": OVERWRITTEN}),
    "overwritten, and an edit": ("echo x > build/out; echo 2 > app.py", ("app.py",), {"build/out": OVERWRITTEN}),
    "appended to": ("echo x >> build/out", (), {"build/out": OVERWRITTEN}),
    "edited": ("sed -i s/o/p/ build/out", (), {"build/out": OVERWRITTEN}),
    "cut": ("truncate -s 1 build/out", (), {"build/out": OVERWRITTEN}),
    "removed": ("rm build/out", (), {"build/out": IGNORED}),
    "renamed": ("mv build/out build/o2", (), {"build/out": IGNORED}),
    "replaced": ("echo x > build/n; mv build/n build/out", (), {"build/out": OVERWRITTEN}),
    "replaced by a folder": ("rm build/out; mkdir build/out; touch build/out/f", (), {"build/out": IGNORED}),
    "replaced by a link": ("ln -sf secret build/out", (), {"build/out": OVERWRITTEN}),
    "overwritten through a link": (
        "ln -s build b; echo x > b/out",
        (),
        {"build/out": OVERWRITTEN, "b": "new; may hold what was build/out"},
    ),
    "a folder renamed": ("mv build/dir build/d2", (), {"build/dir": IGNORED}),
    "a folder renamed, and a file in it written": (
        "mv build/dir build/d2; echo x > build/d2/app.py; mv build/d2 build/dir",
        (),
        {"build/dir/app.py": OVERWRITTEN},
    ),
    "a folder removed": ("rm -r build/dir", (), {"build/dir/app.py": IGNORED}),
    "all removed": ("rm -r build", (), {"build": IGNORED}),
    "all removed but one": (
        "rm -r build/dir build/out; rm build/link",
        (),
        dict.fromkeys(("build/dir/app.py", "build/link", "build/out"), IGNORED),
    ),
    "renamed there and back": (
        "mv build/out t; mv t build/out; touch -r build/out build/link; true",
        (),
        {"build/link": OVERWRITTEN},
    ),
    "only read": (
        "cat build/out; exec 3<> build/out; chmod 755 build/*; ln build/out build/o",
        (),
        {},
    ),
    "made": ("echo x > build/new; mkdir build/d3; echo x > build/new", (), {}),
    "over a file": ("mv build/secret src/app.py", (), {"build/secret": IGNORED, "src/app.py": SECRET}),
    "over a file, while another changes": (
        "mv build/secret src/app.py; echo 2 > app.py",
        ("app.py",),
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "over a file, in steps": (
        "mv build/secret t1; mv t1 src/t2; mv src/t2 src/app.py",
        (),
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "over a file, and written again": (
        "mv build/secret src/app.py; echo x > build/secret",
        (),
        {"build/secret": OVERWRITTEN, "src/app.py": SECRET},
    ),
    "over a file, by a link": (
        "ln -f build/secret src/app.py; rm build/secret",
        (),
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "over a file, by an exchange": (
        f'python3 -c "{EXCHANGE}"',
        (),
        {"build/secret": OVERWRITTEN, "src/app.py": SECRET},
    ),
    "a link of which the file stays": ("ln -f build/secret src/app.py", ("src/app.py",), {}),
    "copied, and removed": (
        "cp build/secret src/app.py; rm build/secret",
        (),
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "copied by way of another disk, and overwritten": (
        "mv build/secret /tmp/s; echo 2 > app.py; cp /tmp/s src/app.py; rm /tmp/s; echo x > build/secret",
        ("app.py",),
        {"build/secret": OVERWRITTEN, "src/app.py": SECRET},
    ),
    "copied, and another of its size": (
        "cp build/secret app.py; echo SECRET > src/app.py; rm build/secret",
        ("src/app.py",),
        {"build/secret": IGNORED, "app.py": SECRET},
    ),
    "copied": ("cp build/secret src/app.py", ("src/app.py",), {}),
    "new": ("mv build/secret new; echo 2 > app.py", ("app.py",), {"build/secret": IGNORED, "new": f"new; {SECRET}"}),
    "a folder in place of one": (
        "rm -r src; mv -T build/dir src",
        ("src/b",),
        {"build/dir": IGNORED, "src/app.py": "may hold what was build/dir/"},
    ),
    "a file in a folder that was moved out": (
        "mv build/dir d; mv d/app.py src/app.py; rmdir d",
        (),
        {"build/dir": IGNORED, "src/app.py": "may hold what was build/dir/app.py"},
    ),
    "within a folder that takes the place": (
        "mkdir n; mv build/secret n/app.py; rm -r src; mv n src",
        ("src/b",),
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "an ignored file that is written again": (
        "mv .env t; echo x > .env; mv t app.py",
        (),
        {".env": OVERWRITTEN, "app.py": "may hold what was .env"},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_a_command_did_where_git_looks_away_is_named(work: Work, root: Path, row: str) -> None:
    script, files, left = ROWS[row]
    before = work.files()
    work.commands(script)
    held = {path: text for path, text in work.files().items() if path in left}
    listed = work.lists()
    assert (set(listed.files), {path.rstrip("/"): why for path, why in listed.left.items()}) == (set(files), left)
    assert all(reason in said(listed) for reason in left.values())
    to = work.records[-1].seq
    done = work.undoes()
    if files or left:
        assert (set(done.files), done.left, done.is_as_before) == (set(files), listed.left, not left)
    kept = {path: text for path, text in work.files().items() if path in left}
    assert kept == held, "what stays is as it was"
    if not left:
        assert {path: work.files().get(path) for path in before} == before
    assert set(work.goes_back(to).files) == set(files)
    back = work.goes_back(1)
    assert (set(back.files), back.left) == (set(files), listed.left), "a rollback leaves the same"


TOOLS: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...], dict[str, str]]] = {
    # what file tools did, what is put back, and what stays with its reason
    "written": ([("writes", "build/out", "x")], (), {"build/out": OVERWRITTEN}),
    "written, and an edit": (
        [("writes", "build/out", "x"), ("writes", "app.py", "2")],
        ("app.py",),
        {"build/out": OVERWRITTEN},
    ),
    "written with what it held": ([("writes", "build/out", "out\n")], (), {}),
    "written through a link": ([("writes", "b/out", "x")], (), {"build/out": OVERWRITTEN}),
    "made": ([("writes", "build/new", "x"), ("writes", "build/new", "y")], (), {}),
    "deleted": ([("deletes", "build/out")], (), {"build/out": IGNORED}),
    "deleted, and made again": (
        [("deletes", "build/out"), ("writes", "build/out", "x")],
        (),
        {"build/out": OVERWRITTEN},
    ),
    "moved within the folder": ([("moves", "build/out", "build/o2")], (), {"build/out": IGNORED}),
    "moved there and back": ([("moves", "build/out", "t"), ("moves", "t", "build/out")], (), {}),
    "moved out": ([("moves", "build/secret", "new")], (), {"build/secret": IGNORED, "new": f"new; {SECRET}"}),
    "written elsewhere, and deleted": (
        [("writes", "app.py", "secret\n"), ("deletes", "build/secret")],
        (),
        {"build/secret": IGNORED, "app.py": SECRET},
    ),
    "moved over a file": (
        [("deletes", "app.py"), ("moves", "build/secret", "app.py")],
        (),
        {"build/secret": IGNORED, "app.py": SECRET},
    ),
    "a file by itself": ([("writes", ".env", "x")], (), {".env": OVERWRITTEN}),
    "a file by itself, deleted": ([("deletes", ".env")], (), {".env": IGNORED}),
}


@pytest.mark.parametrize("row", TOOLS)
def test_what_file_tools_did_where_git_looks_away_is_named(work: Work, root: Path, row: str) -> None:
    calls, files, left = TOOLS[row]
    (root / "b").symlink_to("build")
    before = work.files()
    for name, *arguments in calls:
        getattr(work, name)(*arguments)
    there = work.files()
    listed = work.lists()
    assert (listed.files, listed.left) == (files, left)
    done = work.undoes()
    if files or left:
        assert (done.files, done.left, done.is_as_before) == (files, left, not left)
    assert work.files() == there | {path: before[path] for path in files}
    back = work.goes_back(1)
    assert back.left == left, "a rollback leaves the same"


def test_each_name_of_a_file_is_named(work: Work, root: Path) -> None:
    (root / "build/twin").hardlink_to(root / "src/app.py")
    work.writes("src/app.py", "2")
    assert (work.lists().files, work.lists().left) == (("src/app.py",), {"build/twin": OVERWRITTEN})


CHAINS: dict[str, tuple[list[str], dict[str, str]]] = {
    "over a file": (["mv build/secret t", "mv t src/app.py"], {"build/secret": IGNORED, "src/app.py": SECRET}),
    "over a file, in three calls": (
        ["mv build/secret t", "mv t src/t2", "mv src/t2 src/app.py"],
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "over a file, within the folder first": (
        ["mv build/secret build/x", "mv build/x src/app.py"],
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "an ignored file": (["mv .env t", "mv t app.py"], {".env": IGNORED, "app.py": "may hold what was .env"}),
    "an ignored file and a folder, and new ones": (
        ["mv .env t; mv build b", "echo x > .env; mkdir build; echo x > build/x"],
        {".env": OVERWRITTEN, "build": OVERWRITTEN, "t": "new; may hold what was .env"}
        | {f"b/{path}": "new; may hold what was build/" for path in ("dir/app.py", "link", "out", "secret")},
    ),
    "there and back": (["mv build/secret t; echo 2 > app.py", "mv t build/secret"], {}),
    "a copy of what goes then": (
        ["cp build/secret src/app.py", "rm build/secret"],
        {"build/secret": IGNORED, "src/app.py": SECRET},
    ),
    "made by the work in a folder that was there": (
        ["echo 1 > build/x; echo x > build/out", "mv build/x build/y", "echo 2 > build/y; echo y > build/out"],
        {"build/out": OVERWRITTEN},
    ),
    "of a copy of the work's own": (["cp app.py build/x; echo 2 > app.py", "cp build/x app.py; rm build/x"], {}),
    "made by the work": (
        ["rm -r build", "mkdir build; echo 1 > build/x", "echo 2 > build/x"],
        dict.fromkeys(("build/dir/app.py", "build/link", "build/out", "build/secret"), IGNORED),
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_what_several_calls_did_where_git_looks_away_is_named_too(work: Work, root: Path, chain: str) -> None:
    scripts, left = CHAINS[chain]
    for script in scripts:
        work.commands(script)
    listed = work.lists()
    assert {path.rstrip("/"): why for path, why in listed.left.items()} == left
    secrets = [text for text in work.files().values() if text in ("secret\n", "of env\n")]
    assert work.undoes().left == listed.left
    assert [text for text in work.files().values() if text in ("secret\n", "of env\n")] == secrets


def test_what_was_moved_over_a_file_goes_back_by_its_name_and_is_not_left_after_a_tool_wrote_it(work: Work) -> None:
    work.commands("mv build/secret src/app.py; mv build/out app.py")
    assert work.lists().by_name == ("app.py", "src/app.py")
    assert work.undoes("src/app.py").files == ("src/app.py",)
    work.writes("app.py", "by the model")
    assert work.undoes().files == ("app.py",)


def test_a_build_is_one_line_with_the_number_of_its_files(work: Work, root: Path) -> None:
    put(root, {f"build/o/{number}.o": "1" for number in range(2_000)})
    work.commands("for f in build/o/*; do echo 2 > $f; done; echo 2 > app.py")
    several = "2,000 files in it changed or went, and are ignored by git: what they were is not in the checkpoints"
    assert work.lists().left == {"build/": several}
    assert f"Left as they are: build/ ({several})." in said(work.lists())
    work.commands("rm build/o/*; echo x > build/out")
    assert work.undoes().left == {"build/": several.replace("2,000", "2,001")}


def test_a_copy_of_one_of_many_files_that_are_gone_stays(work: Work, root: Path) -> None:
    put(root, {f"build/o/{number}": f"{number} of many" for number in range(10)})
    work.commands("cp build/o/7 app.py; echo 17 of many > src/app.py; rm build/o/*")
    several = "10 files in it changed or went, and are ignored by git: what they were is not in the checkpoints"
    assert work.undoes().left == {"app.py": "may hold what was in build/", "build/": several}
    assert (root / "app.py").read_text() == "7 of many"


def test_a_cache_that_can_be_made_again_is_not_named(work: Work, root: Path) -> None:
    """Each run of tests writes there; what is moved out of one is kept like anything else."""
    put(
        root,
        {
            "src/__pycache__/app.pyc": "old",
            "src/__pycache__/b.pyc": "b",
            ".gitignore": ".cache/\nbuild/\n.env\n",
            ".cache/x": "1",
        },
    )
    tag = "Signature: 8a477f597d28d172789f06886806bc55\n"
    put(root, {".cache/CACHEDIR.TAG": tag, "build/CACHEDIR.TAG": "no tag"})
    work.commands("echo x > src/__pycache__/app.pyc; rm .cache/x; echo 2 > app.py")
    assert work.undoes().is_as_before
    work.turn(2)
    work.commands("mv src/__pycache__/app.pyc app.py")
    assert work.undoes(scope="turn").left == {"app.py": "may hold what was src/__pycache__/app.pyc"}
    work.turn(3)
    work.commands(f"echo '{tag.strip()}' > build/CACHEDIR.TAG; echo x > build/out")
    assert set(work.lists("turn").left) == {"build/CACHEDIR.TAG", "build/out"}, "it was no cache before"


def test_a_turn_that_only_built_hides_none_that_can_go_back(work: Work) -> None:
    work.commands("echo 2 > app.py")
    work.turn(2)
    work.commands("echo x > build/out")
    listed = work.lists("turn")
    assert (listed.since, listed.files, listed.left) == ("turn-1 (execute)", ("app.py",), {"build/out": OVERWRITTEN})
    assert work.undoes(scope="turn").files == ("app.py",)
    assert work.lists("turn").left == {"build/out": OVERWRITTEN}


def test_of_many_files_that_came_from_there_all_that_the_call_wrote_stays(
    work: Work, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(displaced, "MOST_TARGETS", 1)
    work.commands("mv build/secret src/app.py; mv build/out src/b; echo 2 > app.py")
    assert set(work.undoes().left) == {"build/secret", "build/out", "src/app.py", "src/b", "app.py"}


def test_a_folder_that_is_moved_into_itself_in_steps_is_followed_to_an_end(work: Work, root: Path) -> None:
    moves = (
        "mv build/dir d; mkdir build/dir; mv d build/dir/d; mv build/dir src/; mkdir build/dir; mv src/dir build/dir/"
    )
    work.commands(f"{moves}; echo 2 > app.py")
    assert set(work.lists().left) == {"build/dir/", "app.py"}, "all that the call wrote may hold it"


def test_a_name_that_is_no_text_is_named(work: Work, root: Path) -> None:
    put(root, {"build/\udcff \n": "1"})
    work.commands("echo x > build/$'\\xff \\n'")
    assert work.lists().left == {"build/\ufffd \n": OVERWRITTEN}
