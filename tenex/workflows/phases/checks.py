"""What the daemon has seen of a cycle's work: which checks are still to be run, and what those that have ended mean.

    a turn in execute changes something
      └► Inspect: what differs since the cycle began?     nothing: the gates are closed again
           └► Check, one after the other, on that tree    all passed: nothing more is to be known
                └► a check that did not pass runs once on the tree of the cycle's beginning:
                   what failed before fails as before, and is no fault of the work;
                   so does a check of tests that passed and tells of none, or was quick: there may have been more

A result belongs to a tree, so the same tree is never checked twice, and a change makes the results of before count no
more. Effects are derived from this part of the state: one that a kill has interrupted is wanted again, and one of a
stopped conversation is not. (ADR 81.)
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tenex.core.cycle.checks import CheckResult
from tenex.core.effects import Check, Effect, Inspect, Key, Work
from tenex.core.memory.window import in_a_line
from tenex.core.phases import Phase
from tenex.core.state import State
from tenex.core.text.amounts import count, duration

from .state import Phases, phases_of

NAMED: Final = 5
"""Failures that a sentence names."""
QUICK: Final = 60.0
"""Seconds of a run of tests that passed, up to which it is run on the tree of the cycle's beginning too: to know how
many tests there were may cost a minute, and not half an hour."""
NAME: Final = 120
"""Characters of one of them, and of a command."""


def effects(state: State) -> Iterator[Effect]:
    """What is to be looked at and run now."""
    part = phases_of(state)
    if state.cycle.status != "active":
        return
    if part.inspect_from and part.inspection is None:
        key = Key(Work.INSPECT, part.inspect_from)
        touched = tuple(sorted(state.cycle.touched))
        yield Inspect(key=key, conversation=state.id, cycle=state.cycle.number, touched=touched)
        return
    wanted = next_check(part)
    if wanted is None:
        return
    name, tree = wanted
    is_earlier = tree != part.tree
    key = Key(Work.CHECK, part.inspected_at, f"{name} before" if is_earlier else name)
    yield Check(key=key, conversation=state.id, name=name, tree=tree, is_earlier=is_earlier)


def next_check(part: Phases) -> tuple[str, str] | None:
    """The name of the check that is to be run next, and on which tree; None where all have ended."""
    if part.inspection is None or Phase.VERIFICATION in part.waived:
        return None
    for name in part.inspection.checks:
        now = part.result(name, part.inspection.tree)
        if now is None:
            return name, part.inspection.tree
        is_in_question = (now.has_run and not now.is_success) or now.is_uncounted or _is_quick(now)
        if is_in_question and part.inspection.base and part.earlier(now) is None:
            return name, part.inspection.base
    return None


def _is_quick(now: CheckResult) -> bool:
    return now.is_success and now.has_tests and now.seconds <= QUICK


def are_under_way(state: State) -> bool:
    """Whether the workspace is still to be looked at, or a check to be run."""
    part = phases_of(state)
    is_to_be_inspected = bool(part.inspect_from) and part.inspection is None
    return is_to_be_inspected or next_check(part) is not None


def changed_files(state: State) -> frozenset[str]:
    """The files that calls of the cycle have changed, that differ now, and that are there."""
    inspection = phases_of(state).inspection
    if inspection is None or inspection.fault:
        return state.cycle.touched
    return state.cycle.touched & frozenset(file.path for file in inspection.changed if file.kind != "deleted")


def differing(state: State) -> frozenset[str]:
    """As `changed_files`, with those that were deleted."""
    inspection = phases_of(state).inspection
    is_known = inspection is not None and not inspection.fault
    return state.cycle.touched & inspection.paths if inspection is not None and is_known else state.cycle.touched


def doing(state: State) -> str:
    """What the daemon does itself now, as a noun; "" for nothing."""
    effect = next(effects(state), None)
    if effect is None:
        return ""
    return f"the check {effect.name}" if isinstance(effect, Check) else "a look at what differs"


def results(state: State) -> tuple[CheckResult, ...]:
    """How the checks have ended on the present tree, in their order."""
    part = phases_of(state)
    if part.inspection is None:
        return ()
    found = (part.result(name, part.inspection.tree) for name in part.inspection.checks)
    return tuple(result for result in found if result is not None)


def not_run(state: State) -> tuple[str, ...]:
    """The names of the checks that were not run on the present tree, as where users left out the verification."""
    part = phases_of(state)
    if part.inspection is None:
        return ()
    return tuple(name for name in part.inspection.checks if part.result(name, part.inspection.tree) is None)


def has_ended_any(state: State) -> bool:
    """Whether a check has come to its end on the present tree, and tested something."""
    return any(result.outcome in ("passed", "failed") for result in results(state))


def before(state: State, result: CheckResult) -> CheckResult | None:
    """How the same check ended on the tree of the cycle's beginning; None where it was not run there."""
    return phases_of(state).earlier(result)


def worse(state: State) -> tuple[CheckResult, ...]:
    """The checks that are worse on the present tree than before the work."""
    return tuple(result for result in results(state) if is_worse(state, result))


def is_worse(state: State, result: CheckResult) -> bool:
    """Whether a check did not pass, and is not known to have failed so before the work; or tells of tests no more."""
    if result.is_success:
        return has_lost_tests(result, before(state, result))
    return result.has_run and not is_as_before(result, before(state, result))


def has_lost_tests(now: CheckResult, then: CheckResult | None) -> bool:
    """Whether a check passed without a test that is counted, and had some before."""
    return now.is_uncounted and then is not None and bool(then.tests) and is_comparable(now, then)


def has_fewer_tests(state: State) -> bool:
    """Whether a check has run fewer tests on the present tree than before the work."""
    for now in results(state):
        then = tests_of(before(state, now))
        here = tests_of(now)
        if then is not None and here is not None and here < then:
            return True
    return False


def tests_of(result: CheckResult | None) -> int | None:
    """How many tests a check has run; None where that is not known."""
    if result is None or not result.has_run:
        return None
    return 0 if result.outcome == "nothing" else result.tests


def is_as_before(now: CheckResult, then: CheckResult | None) -> bool:
    """Whether all that fails now has failed at the beginning of the cycle too, as far as the runs tell.

    By the names of failures where both runs have all of them, else by their number, else by the exit status.
    """
    if then is None or not then.has_run or then.is_success or not is_comparable(now, then):
        return False
    if now.outcome != "failed" or then.outcome != "failed":
        return now.outcome == then.outcome
    if now.has_all_names and then.has_all_names:
        return set(now.failed) <= set(then.failed)
    if now.failures is not None and then.failures is not None:
        return now.failures <= then.failures
    return now.status == then.status


def is_comparable(now: CheckResult, then: CheckResult) -> bool:
    """Whether both ran with the same packages, by their lock files."""
    return now.environment == then.environment


def sentence(state: State, result: CheckResult) -> str:
    """How a check ended on the present tree and at the beginning, without a full stop."""
    took = f"`{in_a_line(result.command, NAME)}`, {duration(result.seconds)}" if result.command else ""
    said = outcome_of(result)
    then = before(state, result)
    if then is not None and has_lost_tests(result, then):
        said += f", and tells of no test; before this work {_ended(then)}"
    elif result.has_run and not result.is_success:
        said += f"; {_compared(result, then)}"
    number = tests_of(then)
    if number is not None and tests_of(result) not in (None, number):
        ran = f", {number or 'none'} before this work"
        said += ran if result.is_success else f"; before this work {count(number, 'test')} ran"
    return f"{said} ({took})" if took else said


def statement(state: State, result: CheckResult) -> str:
    """The same as a whole sentence."""
    said = sentence(state, result)
    return f"{said[:1].upper()}{said[1:]}."


def failing(state: State) -> str:
    """What speaks against the files as they are, for users; "" where no check is worse than before."""
    return " ".join(statement(state, result) for result in worse(state))


def without_end(state: State) -> str:
    """Which checks tell nothing of the files as they are, and why, for users; "" for none."""
    against = worse(state)
    ended = ("passed", "failed")
    return " ".join(statement(state, one) for one in results(state) if one.outcome not in ended and one not in against)


def sentences(state: State) -> list[str]:
    """How each check ended, in their order."""
    return [sentence(state, result) for result in results(state)]


def outcome_of(result: CheckResult) -> str:
    """How a check ended on one tree."""
    return f"{result.name}: {_ended(result)}"


def _ended(result: CheckResult) -> str:
    match result.outcome:
        case "passed":
            return f"{count(result.tests, 'test')} passed" if result.tests else "passed"
        case "nothing":
            return "nothing was tested"
        case "timeout":
            return f"stopped after {duration(result.seconds)}, before its end"
        case "changed":
            return "not known, because the files were changed during each run"
        case "missing" | "uncontained":
            return f"not run: {result.reason}".rstrip(" .:")
        case "failed":
            return _failed(result)


def _failed(result: CheckResult) -> str:
    status = "" if result.status is None else f"exit status {result.status}"
    if not result.failures:
        return f"failed with {status}" if status else "failed"
    passed = f"{result.tests - result.failures:,} passed, " if result.tests is not None else ""
    return f"{passed}{result.failures:,} failed"


def _compared(now: CheckResult, then: CheckResult | None) -> str:
    """What is known of the same check before the work."""
    if then is None or not then.has_run:
        why = f" ({then.reason})" if then is not None and then.reason else ""
        return f"how it was before this work is not known{why}"
    if not is_comparable(now, then):
        return f"not comparable with before, because a lock file was changed{_named(now.failed)}"
    if is_as_before(now, then):
        if not (now.has_all_names and then.has_all_names):
            return f"before this work {_before(then)}"
        return f"the same {'one ' if now.failures == 1 else ''}failed before this work"
    new = [name for name in now.failed if name not in then.failed] if now.has_all_names else []
    return f"before this work {_before(then)}{_named(new, 'new')}"


def _named(failures: Sequence[str], what: str = "failed") -> str:
    """The end of a sentence that names failures."""
    if not failures:
        return ""
    more = f" and {len(failures) - NAMED:,} more" if len(failures) > NAMED else ""
    return f"; {what}: {', '.join(in_a_line(name, NAME) for name in failures[:NAMED])}{more}"


def _before(then: CheckResult) -> str:
    if then.outcome == "passed":
        return "0 failed" if then.tests else "it passed"
    if then.outcome == "failed" and then.failures:
        return f"{then.failures:,} failed"
    return _ended(then)


def report(state: State, room: int) -> str:
    """The results for a model, with the end of what failing checks printed, in that many characters."""
    parts: list[str] = []
    failing: Sequence[CheckResult] = worse(state)
    for result in results(state):
        parts.append(f"{sentence(state, result)}.")
        if result in failing and result.last_lines:
            left = max(0, room - sum(map(len, parts)))
            parts.append(result.last_lines[-left:] if left else "")
    return "\n".join(part for part in parts if part)[:room]
