"""What the words of a call say of the program that it ran: a trial, a look, or a change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core import programs
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest

TRIALS = r"""pytest -q
cd pkg && pytest -q
cat a.py; pytest -q
set -o pipefail; pytest -q | tail -3
set -euo pipefail\npytest -q | tee log\necho done
set -e; pytest; echo done
python hello.py | grep -q hi
[ "$(./prog)" = hi ]
test $(./prog) = 3
diff <(./prog) expected
FOO=1 timeout 30 python -m pytest
python - <<'EOF'\nimport a\nprint("it's", a.f())\nEOF
python -c "import a; print(a.f())"
bash -c "make test"
(cd x && npm test)
for f in a b; do python $f.py; done
./hello --version
make
env A=1 node x.js 2>&1
echo 3 | python prog.py
find . -name '*.py' -exec python -m py_compile {} +
ls *.py | xargs -n 1 python
pytest && echo ok
/usr/bin/env python hello.py
awk -f prog.awk data
pytest -q \\\n  tests
python tool.py --help"""

NONE = r"""cat a.py
ls -la
pytest -q | tail -3
pytest -q; echo $?
pytest || true
pytest -q\necho done
git diff
git -C x log -3 --oneline
echo ok
true
:
python --version
pytest --help
python -c "print('ok')"
python - <<EOF\nprint(1)\nEOF
cat > run.sh <<EOF\npytest\nEOF
bash -c true
sh -c 'cat a | grep b'
sed -n 1,5p a.py
grep -rn foo .
test -f a.py
[ -f a.py ]
cat a | grep b
head -5 x && wc -l x
cp a b
git push
sleep 1
find . -name x
sudo cat x
if pytest; then echo ok; else echo bad; fi
printf '%s' x > y
env
pip install x
command -v python
# pytest"""

READS = """cat a
git status
grep -rn x . | head
ls 2>/dev/null
cat a 2>&1
cat a > /dev/null
find . -name x
sed -n 1p a
cd x && git diff HEAD~1
python -c 'print(1)'"""

CHANGES = """git push
git commit -am x
curl https://example.org
echo a > b
echo a >> b
sed -i s/a/b/ x
find . -delete
find . -exec rm {} +
cat $(rm x)
cat <(rm x)
python x.py
cat a | tee b
bash -c 'git push'
cat a && rm a
ls | xargs rm
'unbalanced"""


def shell(line: str) -> CallRequest:
    return CallRequest(id=CallId(""), tool="shell", arguments={"command": line.replace("\\n", "\n")})


@pytest.mark.parametrize("line", TRIALS.splitlines())
def test_the_program_to_which_the_exit_status_belongs_is_a_trial(line: str) -> None:
    assert programs.is_trial(shell(line))
    assert not programs.only_reads(shell(line))


@pytest.mark.parametrize("line", NONE.splitlines())
def test_reading_printing_and_a_status_that_is_hidden_are_no_trial(line: str) -> None:
    assert not programs.is_trial(shell(line))


def test_what_only_reads_changes_nothing() -> None:
    assert [line for line in READS.splitlines() if not programs.only_reads(shell(line))] == []
    assert [line for line in CHANGES.splitlines() if programs.only_reads(shell(line))] == []


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    call = shell(text)
    assert programs.is_trial(call) in (True, False)
    assert not (programs.only_reads(call) and programs.is_trial(call))
    assert len(programs.line_of(call)) <= programs.LINE_CHARACTERS


@pytest.mark.parametrize(
    ("path", "is_text"),
    [("a.md", True), ("docs/b.RST", True), ("LICENSE", True), ("a.py", False), ("Makefile", False), ("a.json", False)],
)
def test_text_is_what_nothing_runs(path: str, is_text: bool) -> None:
    assert programs.is_text(path) is is_text
