"""What runners of tests tell: the lines are theirs, shortened."""

import pytest

from tenex.core.cycle.checks import NAMES_KEPT
from tenex.tools.check_reports import (
    LARGEST_REPORT,
    LONGEST_NAME,
    UNKNOWN,
    TestCounts,
    from_junit,
    from_output,
    from_rspec,
    total,
)

XML = '<?xml version="1.0" encoding="utf-8"?>'


def junit(*cases: str) -> bytes:
    return f"{XML}<testsuites><testsuite name='s'>{''.join(cases)}</testsuite></testsuites>".encode()


PRINTED = {
    "unittest": (
        (
            "FAIL: test_b (test_u.T.test_b)\nTraceback\nERROR: test_c (test_u.T.test_c)\n"
            "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1, expected failures=1)\n"
        ),
        (4, 2, ("test_b (test_u.T.test_b)", "test_c (test_u.T.test_c)")),
    ),
    "unittest, green": ("Ran 5 tests in 0.001s\n\nOK (expected failures=1)\n", (5, 0, ())),
    "unittest, none": ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", (0, 0, ())),
    "pytest": (
        (
            "FAILED t/test_a.py::test_a[x y] - assert 0\nERROR t/test_b.py::test_b\n"
            "==== 1 failed, 907 passed, 2 skipped, 1 warning, 1 error in 1.52s ====\n"
        ),
        (909, 2, ("t/test_a.py::test_a[x y]", "t/test_b.py::test_b")),
    ),
    "pytest, quiet": ("908 passed in 62.10s (0:01:02)\n", (908, 0, ())),
    "pytest, none": ("=== no tests ran in 0.01s ===\n", (0, 0, ())),
    "cargo": (
        (
            "test tests::good ... ok\ntest tests::bad ... FAILED\n"
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.42s\n"
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        ),
        (5, 1, ("tests::bad",)),
    ),
    "go": (
        (
            "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/case (0.00s)\nFAIL\nFAIL\texample.com/x\t0.002s\n"
            "ok  \texample.com/y\t0.001s\n?   \texample.com/z\t[no test files]\nFAIL\texample.com/b [build failed]\n"
        ),
        (None, None, ("TestA", "TestA/case", "example.com/b [build failed]")),
    ),
    "go, none": ("?   \texample.com/z\t[no test files]\nok  \tx\t0.1s [no tests to run]\n", (0, 0, ())),
    "jest": (
        "  ● sums › adds\n  ● Console\n\nTests:       1 failed, 2 skipped, 5 passed, 8 total\n",
        (6, 1, ("sums › adds",)),
    ),
    "vitest": (
        " FAIL  a.test.ts > sums > adds\n Test Files  1 failed (1)\n      Tests  1 failed | 5 passed (6)\n",
        (6, 1, ("a.test.ts > sums > adds",)),
    ),
    "mocha": (
        "  sums\n    1) adds\n\n  3 passing (7ms)\n  1 pending\n  1 failing\n\n  1) sums\n       adds:\n",
        (4, 1, ("adds", "sums")),
    ),
    "ava": ("  ✘ [fail]: adds numbers\n  1 test failed\n  2 tests passed\n", (3, 1, ("adds numbers",))),
    "tap": ("TAP version 13\n1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no\nnot ok 4 d # TODO\n", (2, 1, ("b",))),
    "node": ("✖ old red (1.2ms)\n▶ suite\nℹ pass 3\nℹ fail 1\n✖ failing tests:\n", (4, 1, ("old red",))),
    "prove": ("t/a.t (Wstat: 0 Tests: 2 Failed: 1)\nFiles=2, Tests=3,  0 wallclock\n", (3, 1, ("t/a.t",))),
    "ctest": (
        "33% tests passed, 2 tests failed out of 3\n  4 - dis (Disabled)\n  2 - bad (Failed)\n  3 - gone (Not Run)\n",
        (3, 2, ("bad", "gone")),
    ),
    "ctest, none": ("No tests were found!!!\n", (0, 0, ())),
    "phpunit": (
        "1) App\\SumTest::testAdds\nFAILURES!\nTests: 5, Assertions: 8, Errors: 1, Failures: 1, Skipped: 1.\n",
        (4, 2, ("App\\SumTest::testAdds",)),
    ),
    "phpunit, green": ("OK (5 tests, 8 assertions)\n", (5, 0, ())),
    "rspec": ("5 examples, 1 failure, 1 pending\n\nrspec ./a_spec.rb:3 # Sum adds\n", (4, 1, ("Sum adds",))),
    "minitest": (
        "  1) Failure:\nSumTest#test_adds [a_test.rb:5]:\n5 runs, 8 assertions, 1 failures, 0 errors, 1 skips\n",
        (4, 1, ("SumTest#test_adds",)),
    ),
    "mix": ("  1) test adds (SumTest)\n1 doctest, 4 tests, 1 failure\n", (4, 1, ("test adds (SumTest)",))),
    "dotnet": (
        "  Failed Sum.Adds [3 ms]\nFailed!  - Failed:     1, Passed:     4, Skipped:     0, Total:     5, Duration\n",
        (5, 1, ("Sum.Adds",)),
    ),
    "deno": ("adds => ./a.ts:1:6\nFAILED | 5 passed | 1 failed (12ms)\n", (6, 1, ("adds => ./a.ts",))),
    "bun": ("(fail) sums > adds [0.10ms]\n 5 pass\n 1 fail\n", (6, 1, ("sums > adds",))),
    "automake": ("FAIL: a.sh\n# TOTAL: 3\n# PASS:  1\n# SKIP:  1\n# FAIL:  1\n# ERROR: 0\n", (2, 1, ("a.sh",))),
    "nothing that is known": ("all good\n3 files\nFAILED\n", (None, None, ())),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_end_of_what_a_runner_prints(name: str) -> None:
    text, (tests, failures, failed) = PRINTED[name]
    assert from_output(text) == TestCounts(tests=tests, failures=failures, failed=failed)


def test_a_runner_whose_report_is_known_is_left_out() -> None:
    text = PRINTED["pytest"][0] + PRINTED["cargo"][0]
    assert from_output(text, without={"pytest"}).tests == 5
    assert from_output(text).tests == 914
    assert from_output(PRINTED["pytest"][0], without={"pytest"}) == UNKNOWN


def test_names_in_reports_are_those_by_which_a_person_calls_the_tests() -> None:
    failure = "<failure message='no'/>"
    report = junit(
        f"<testcase classname='tests.test_a.TestA' file='tests/test_a.py' name='test[x y]'>{failure}</testcase>",
        "<testcase classname='tests.test_a' file='tests/test_a.py' name='test_b'><error/></testcase>",
        f"<testcase classname='com.example.SumTest' name='adds'>{failure}</testcase>",
        f"<testcase classname='test' name='adds'>{failure}</testcase>",
        f"<testcase classname='test' name='adds'>{failure}</testcase>",
        f"<testcase classname='x' name='known'><skipped/>{failure}</testcase>",
        "<testcase classname='x' name='good'><system-out>failure</system-out></testcase>",
    )
    names = ("com.example.SumTest::adds", "s > adds", "s > adds (2)")
    own = ("tests/test_a.py::TestA::test[x y]", "tests/test_a.py::test_b")
    assert from_junit(report) == TestCounts(tests=6, failures=5, failed=names + own)
    assert from_junit(report + b"\n" + junit()) == from_junit(report)


def test_a_report_that_is_not_whole_tells_nothing() -> None:
    good = junit("<testcase name='a'><failure/></testcase>")
    bomb = f"{XML}<!DOCTYPE x [<!ENTITY a 'aaaa'>]><testsuite><testcase name='&a;'><failure/></testcase></testsuite>"
    for report in (b"", b"x" + good, good[:-5], good + good[:40], good + b"\xff", bomb.encode(), b"{}"):
        assert from_junit(report) is None, report
    assert from_junit(good + b" " * LARGEST_REPORT) is None
    deep = f"{XML}{'<testsuite>' * 100_000}".encode()
    assert from_junit(deep) is None


def test_many_long_names_are_cut() -> None:
    cases = [
        f"<testcase classname='c' name='{number:03}&#9;{'x' * 999}'><failure/></testcase>" for number in range(300)
    ]
    counts = from_junit(junit(*cases))
    assert counts is not None
    assert (counts.tests, counts.failures, len(counts.failed)) == (300, 300, NAMES_KEPT)
    assert all(len(name) == LONGEST_NAME and name.isprintable() for name in counts.failed)


def test_rspec() -> None:
    examples = b'[{"full_description": "Sum adds", "status": "failed"}, {"full_description": "b", "status": "passed"}]'
    summary = b'{"example_count": 3, "failure_count": 1, "pending_count": 1}'
    report = b'{"examples": %s, "summary": %s}' % (examples, summary)
    one = TestCounts(tests=2, failures=1, failed=("Sum adds",))
    assert from_rspec(report) == one
    assert from_rspec(report + report) == TestCounts(tests=4, failures=2, failed=("Sum adds",))
    for broken in (b"", b"[]", b'{"summary": 1}', report[:-9], b"[" * 100_000, b"\xff"):
        assert from_rspec(broken) is None, broken


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert total([TestCounts(tests=1, failures=0), TestCounts(failed=("x",))]) == TestCounts(failed=("x",))
    assert total([]) == UNKNOWN
