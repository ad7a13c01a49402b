"""Work is undone without removing what may be the only copy of something, or what somebody else changed.

What cannot be brought back is named, before and after, with the reason.
"""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from tenex.core.records import ToolCallCompleted
from tenex.core.undo.sentences import CHANGED_BY_OTHERS, UNCLEAR
from tenex.tools import snapshots, undo_plan
from tenex.tools.checkpoints import Checkpoints
from tests.programs import needs_bubblewrap, needs_git

from .conftest import put
from .undo_kit import Work, said

pytestmark = needs_git

LARGE = "row\n" * 100
"""Of 400 bytes, where 100 are kept."""
LOST = "was 400 bytes and is not in the checkpoints"
OVERWRITTEN = "changed, and is ignored by git: what it was is not in the checkpoints"
IGNORED = "was ignored by git and is not in the checkpoints"
NEVER_IN = "is 400 bytes and is not in the checkpoints"


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LARGEST_KEPT", 100)


@pytest.fixture
def work(folder: Path, root: Path) -> Work:
    put(
        root,
        {
            "a.csv": LARGE,
            "app.py": "1\n",
            ".env": "secret\n",
            "node_modules/x/i.js": "js\n",
            "node_modules/k": "k\n",
            "d/b.py": "b\n",
        },
    )
    put(root, {".gitignore": ".env\n*.log\nout/\n", "app.log": "log\n", "out/data": "data\n", "out/k": "k\n"})
    put(root, {"part/out/x": "x\n"})
    made = Work(Checkpoints(folder, root), root)
    made.turn()
    return made


ROWS: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    # what a program did, what is put back, and what stays with its reason
    "ignored file renamed": ("mv .env env", (), {".env": IGNORED, "env": "new; may hold what was .env"}),
    "ignored file copied and removed": (
        "cat .env > env; rm .env",
        (),
        {".env": IGNORED, "env": "new; may hold what was .env"},
    ),
    "ignored folder renamed": (
        "mv node_modules nm",
        (),
        {"node_modules/": IGNORED, **dict.fromkeys(("nm/k", "nm/x/i.js"), "new; may hold what was node_modules/")},
    ),
    "out of an ignored folder": ("mv node_modules/x src", (), {"src/i.js": "new; may hold what was in node_modules/"}),
    "out of a folder of the project's": ("mv out/data here", (), {"here": "new; may hold what was in out/"}),
    "an ignored file overwritten": (
        "cp .env env; echo x > .env",
        (),
        {".env": OVERWRITTEN, "env": "new; may hold what was .env"},
    ),
    "an ignored file appended to": ("echo x >> .env; echo 2 > app.py", ("app.py",), {".env": OVERWRITTEN}),
    "an ignored file over a kept one": (
        "mv .env app.py",
        (),
        {".env": IGNORED, "app.py": "may hold what was .env"},
    ),
    "packed": ("gzip a.csv", (), {"a.csv": LOST, "a.csv.gz": "new; may hold what was a.csv"}),
    "split": (
        "split -b 90 a.csv part.; rm a.csv",
        (),
        {"a.csv": LOST, **dict.fromkeys((f"part.a{x}" for x in "abcde"), "new; may hold what was a.csv")},
    ),
    "large removed": ("rm a.csv", (), {"a.csv": LOST}),
    "large edited in place": ("sed -i s/row/ROW/ a.csv", (), {"a.csv": LOST}),
    "large cut in place": ("truncate -s 200 a.csv", (), {"a.csv": LOST}),
    "large cut below the limit": ("truncate -s 50 a.csv", (), {"a.csv": LOST}),
    "large renamed": ("mv a.csv b.csv", (), {"a.csv": LOST, "b.csv": "new; may hold what was a.csv"}),
    "large renamed in other case": ("mv a.csv A.csv", (), {"a.csv": LOST, "A.csv": "new; may hold what was a.csv"}),
    "large copied sparsely": ("cp --sparse=always a.csv b.csv", (), {"b.csv": NEVER_IN}),
    "large over small": ("mv a.csv app.py", (), {"a.csv": LOST, "app.py": "may hold what was a.csv"}),
    "a folder with large ones renamed": (
        "mkdir n; mv d a.csv n/",
        ("d/b.py",),
        {"a.csv": LOST, "n/a.csv": "new; may hold what was a.csv", "n/d/b.py": "new; may hold what was a.csv"},
    ),
    "time set back": (
        "touch -r a.csv ../ref; sed s/row/ROW/ a.csv > t; cat t > a.csv; rm t; touch -r ../ref a.csv; echo 1 > new",
        (),
        {"new": "new; may hold what was a.csv"},
    ),
    "edited": ("echo 2 > app.py", ("app.py",), {}),
    "removed": ("rm -r d app.py", ("app.py", "d/b.py"), {}),
    "renamed": ("mv app.py z.py; mv d e", ("app.py", "d/b.py", "e/b.py", "z.py"), {}),
    "made beside what is ignored": ("echo 1 > part/new.py", ("part/new.py",), {}),
    "made": ("mkdir -p n/m; echo 1 > n/m/f; ln -s nowhere dangling", ("dangling", "n/m/f"), {}),
    "a folder in place of a file": ("rm app.py; mkdir app.py; echo 1 > app.py/x", ("app.py", "app.py/x"), {}),
    "a file in place of a folder": ("rm -r d; echo 1 > d", ("d", "d/b.py"), {}),
    "a link in place of a folder": ("rm -r d; ln -s node_modules d", ("d", "d/b.py"), {}),
    "rights": ("chmod 600 app.py; chmod 700 d", ("app.py", "d"), {}),
    "rights and bytes": ("chmod 755 app.py; echo 2 > app.py", ("app.py",), {}),
    "odd names": (r"echo 1 > $'\xff\xfe'; echo 2 > $'new\nline'", ("new\nline", "\ufffd\ufffd"), {}),
    "no longer ignored": ("rm .gitignore; echo 1 > other.log", (".gitignore", "other.log"), {}),
    "ignored from now on": ("echo '*.py' > .gitignore", (".gitignore",), {}),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_a_program_did_is_undone_as_far_as_nothing_is_lost(work: Work, root: Path, row: str) -> None:
    script, files, left = ROWS[row]
    before = work.files()
    work.runs(script)
    contents = set(work.files().values())
    listed = work.lists()
    assert (set(listed.files), listed.left) == (set(files), left)
    if left:
        assert all(reason in said(listed) for reason in left.values())
    to = work.records[-1].seq
    done = work.undoes()
    assert (set(done.files), done.left) == (set(files), left)
    assert done.is_as_before == said(done).startswith("Files are as before") == (not left)
    if not left:
        assert work.files() == before
        assert said(work.lists()) == "There is nothing to undo."
    assert contents - set(work.files().values()) <= {"1\n", "2\n", "*.py\n", "x\n"}, (
        "only what the program wrote is gone"
    )
    # a rollback forward brings what was undone, and one back says the same
    assert set(work.goes_back(to).files) == set(files)
    back = work.goes_back(1)
    assert (set(back.files), back.left) == (set(files), left)


def test_a_file_in_the_way_of_a_folder_keeps_its_rights(work: Work, root: Path) -> None:
    work.runs("rm -r d; mv .env d")
    for _ in range(2):
        assert work.goes_back(1).left == {
            ".env": IGNORED,
            "d": "new; may hold what was .env",
            "d/b.py": "not a directory",
        }
        assert stat.S_IMODE((root / "d").stat().st_mode) == 0o644


def test_what_got_only_its_rights_back_may_still_be_an_only_copy(work: Work, root: Path) -> None:
    to = work.runs("mv .env env")
    work.runs("chmod 755 env")
    assert work.goes_back(to).files == ("env",)
    assert work.undoes().left == {".env": IGNORED, "env": "new; may hold what was .env"}
    assert (root / "env").read_text() == "secret\n"


def test_a_second_name_of_a_large_file_that_went_is_named(work: Work, root: Path) -> None:
    os.link(root / "a.csv", root / "twin")
    work.runs("rm twin")
    assert work.undoes().left == {"twin": LOST}
    assert (root / "a.csv").read_text() == LARGE


def test_what_a_file_tool_wrote_is_removed_though_something_else_was_lost(work: Work, root: Path) -> None:
    """Its bytes came from the model; those that a program changed then did not."""
    work.writes("mine.py", "by the model")
    work.writes("then.py", "by the model")
    work.runs("mv a.csv x; cat .env >> then.py; rm .env")
    done = work.undoes()
    assert done.files == ("mine.py",)
    assert done.left["then.py"] == "new; may hold what was .env"
    assert "secret" in (root / "then.py").read_text()


@pytest.mark.parametrize("path", [".env", "node_modules/x/i.js"])
def test_what_a_file_tool_moved_from_where_git_looks_away_stays(work: Work, root: Path, path: str) -> None:
    work.moves(path, "moved")
    done = work.undoes()
    assert done.left["moved"] == f"new; may hold what was {path}"
    assert (root / "moved").exists()
    assert not done.is_as_before


def test_what_a_file_tool_moved_from_a_kept_place_goes_back(work: Work) -> None:
    before = work.files()
    work.moves("app.py", "z.py")
    assert work.undoes().is_as_before
    assert work.files() == before


def test_what_the_work_itself_made_and_removed_is_no_reason_to_keep_files(work: Work) -> None:
    before = work.files()
    work.runs("cat a.csv a.csv > large; mkdir -p node_modules2; echo '!x' > build.log")
    work.runs("gzip large; rm build.log")
    done = work.undoes()
    assert (done.left, done.is_as_before) == ({}, True)
    assert work.files() == before


# ---- somebody else ---------------------------------------------------------------------------------------------------


def test_what_a_person_changed_between_calls_or_since_stays(work: Work, root: Path) -> None:
    work.runs("echo 2 > app.py; echo 2 > d/b.py; echo 2 > new; echo 2 > new2")
    work.person("echo mine > app.py; echo mine > notes; echo mine > new")
    work.runs("echo 3 > other")
    work.person("echo mine > d/b.py")
    done = work.undoes()
    assert done.files == ("new2", "other")
    assert done.left == dict.fromkeys(("app.py", "d/b.py", "new"), CHANGED_BY_OTHERS)
    assert not done.is_as_before
    assert said(done).startswith("Put back: new2, other. Left as they are: app.py, d/b.py, new (changed by somebody")
    assert {(root / name).read_text() for name in ("app.py", "d/b.py", "new", "notes")} == {"mine\n"}


def test_what_was_seen_to_be_a_persons_during_a_program_stays(work: Work, root: Path) -> None:
    work.runs("echo 2 > app.py", person="echo mine > d/b.py; echo mine > new.txt", seen=["d/b.py", "new.txt"])
    done = work.undoes()
    assert (done.files, done.left) == (("app.py",), {})
    assert (root / "new.txt").read_text() == (root / "d/b.py").read_text() == "mine\n"
    assert said(done) == "Put back: app.py.", "the folder is not as before"


def test_what_a_person_changed_during_a_file_tool_stays(work: Work, root: Path) -> None:
    seq = len(work.records) + 1
    work.writes("mine.py", "1")
    assert work.lists().files == ("mine.py",)
    completed = work.records[seq]
    assert isinstance(completed, ToolCallCompleted)
    work.records[seq] = replace(completed, touched=("another",))
    assert (work.lists().files, work.lists().left) == ((), {})


def test_what_a_program_did_with_a_persons_file_is_no_reason_to_remove_it(work: Work, root: Path) -> None:
    """It is in no checkpoint of before the work, so it would not come back."""
    work.runs("echo 1 > x")
    work.person("echo mine > notes; seq 200 > big.txt")
    work.runs("mv notes n2; gzip big.txt")
    done = work.undoes()
    assert (root / "n2").read_text() == "mine\n"
    assert (root / "big.txt.gz").exists()
    assert done.left["notes"] == CHANGED_BY_OTHERS
    assert done.left["big.txt"] == "was 692 bytes and is not in the checkpoints"
    assert done.left["n2"].startswith("new; may hold what was ")


def test_where_it_is_unclear_who_wrote_a_person_decides(work: Work, root: Path) -> None:
    before = work.files()
    work.runs("echo 2 > app.py; echo 1 > n1; echo 1 > n2", person="echo mine > d/b.py", witnessed=False)
    work.writes("tool.py", "1")
    listed = work.lists()
    assert listed.files == ("tool.py",)
    assert listed.left == dict.fromkeys(("app.py", "d/b.py", "n1", "n2"), UNCLEAR)
    assert listed.unclear == ("app.py", "d/b.py", "n1", "n2")
    assert work.undoes().files == ("tool.py",)
    assert (root / "d/b.py").read_text() == "mine\n"

    one = work.undoes("./n1", "app.py")
    assert (one.files, one.left) == (("app.py", "n1"), {})
    assert said(one) == "Put back: app.py, n1."
    assert not (root / "n1").exists()
    assert (root / "n2").exists()
    assert work.undoes(is_all=True).is_as_before
    assert work.files() == before


def test_a_name_that_no_work_changed_stops_all(work: Work, root: Path) -> None:
    work.writes("new.py", "1")
    done = work.undoes("new.py", "other.py")
    assert done.fault.startswith("no work here changed other.py.")
    assert (root / "new.py").exists()
    work.person("echo 1 > caf\u00e9.txt")
    work.runs("echo 2 > $'cafe\\u0301.py'")
    assert work.undoes("caf\u00e9.py").files == ("cafe\u0301.py",), "as it was typed, or as a disk has it"


def test_what_is_named_goes_back_though_it_may_be_an_only_copy_but_not_what_is_a_persons(
    work: Work, root: Path
) -> None:
    work.runs("mv .env env; echo 2 > app.py")
    work.person("echo mine > app.py")
    listed = work.lists()
    assert listed.by_name == ("env",)
    done = work.undoes("env", "app.py", ".env")
    assert (done.files, done.left) == (("env",), {".env": IGNORED, "app.py": CHANGED_BY_OTHERS})
    assert not (root / "env").exists()


def test_the_newest_work_that_changed_a_named_path_is_undone(work: Work, root: Path) -> None:
    work.writes("a.py", "1")
    work.turn(2)
    work.writes("a.py", "2")
    work.writes("b.py", "2")
    assert work.undoes("a.py", scope="turn").files == ("a.py",)
    assert (root / "a.py").read_text() == "1"
    assert work.lists("turn").since == "turn-1 (execute)", "what was asked for last is undone"


def test_an_undo_is_not_undone_by_another(work: Work) -> None:
    work.writes("first.py", "1")
    work.turn(2)
    work.writes("second.py", "2")
    assert work.undoes(scope="turn").files == ("second.py",)
    assert work.undoes(scope="turn").files == ("first.py",)
    assert said(work.lists("turn")) == said(work.lists("cycle")) == "There is nothing to undo."


# ---- rights, and what cannot be known --------------------------------------------------------------------------------


def test_files_and_folders_come_back_with_the_rights_they_had(work: Work, root: Path) -> None:
    put(root, {"deep/er/private": "1", "deep/er/run.sh": "1", "deep/plain": "1"})
    modes = {"deep": 0o755, "deep/er": 0o2750, "deep/er/private": 0o600, "deep/er/run.sh": 0o750, "deep/plain": 0o644}
    for path, mode in modes.items():
        (root / path).chmod(mode)
    work.runs("rm -r deep")
    umask = os.umask(0o077)
    try:
        assert work.undoes().is_as_before is False, "a folder does not get its set-group-id bit again"
    finally:
        os.umask(umask)
    assert {path: stat.S_IMODE((root / path).stat().st_mode) for path in modes} == modes | {"deep/er": 0o750}


def test_of_a_checkpoint_without_rights_they_are_what_the_umask_gives(
    folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"n/x": "1", "n/run.sh": "1"})
    (root / "n/run.sh").chmod(0o700)
    work = Work(Checkpoints(folder, root, umask=0o027), root)
    work.turn()
    with monkeypatch.context() as older:
        older.setattr(snapshots, "_listing", lambda *_: b"")
        work.runs("rm -r n")
    work.undoes()
    modes = [stat.S_IMODE((root / path).stat().st_mode) for path in ("n", "n/x", "n/run.sh")]
    assert modes == [0o750, 0o640, 0o750]


def test_a_folder_that_was_shut_is_shut_again_after_a_file_in_it_came_back(work: Work, root: Path) -> None:
    (root / "d").chmod(0o500)
    work.runs("chmod 700 d; rm d/b.py")
    assert work.undoes().is_as_before
    assert stat.S_IMODE((root / "d").stat().st_mode) == 0o500


def test_where_too_much_is_ignored_to_look_at_all_new_files_stay(
    work: Work, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.runs("echo 1 > new")
    assert work.lists().files == ("new",)
    monkeypatch.setattr(undo_plan, "MOST_VISITED", 1)
    assert "may hold what was" in work.lists().left["new"]


def test_of_a_list_of_ignored_files_that_was_cut_nothing_follows(
    work: Work, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_NAMED", 2)
    work.runs("echo 1 > new; echo 2 > app.py; rm -r out")
    listed = work.lists()
    assert listed.files == ("app.py",)
    assert listed.left["new"] == "new; may hold what git ignores"
    assert not work.undoes().is_as_before


@needs_bubblewrap
def test_a_file_that_a_command_wrote_by_another_name_is_its_own(work: Work, root: Path) -> None:
    put(root, {"one": "1\n", "two": "2\n"})
    for name in ("one", "two"):
        (root / f"{name}.link").hardlink_to(root / name)
    before = work.files()
    work.commands("echo x > one")
    (root / "two").write_text("by somebody else")
    assert work.lists().files == ("one", "one.link")
    work.undoes()
    assert work.files() == before | {"two": "by somebody else", "two.link": "by somebody else"}
