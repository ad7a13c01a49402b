"""Mutates a copy of the repository and runs the core's tests against each mutant: `make mutants`.

    python -m tests.mutation --count 60 --seed 1 --under tenex/core --under tenex/workflows

Mutants come from cosmic-ray, chosen at random by the seed, the same number from each folder. A mutant is killed when a
test fails or the run takes four times as long as one of the unchanged code. Survivors are printed as diffs:
each is a missing test, dead code, or a change without effect.
"""

import argparse
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).resolve().parents[2]
UNDER = ("tenex/core", "tenex/workflows")
TESTS = ("tests/core", "tests/properties", "tests/histories", "tests/workflows")
LEFT_OUT = (".git", ".venv", "node_modules", "__pycache__")
# `X | None` in annotations and decorators such as @dataclass fail at import; `is` for `==` of an enum changes nothing.
SKIPPED = ("core/ReplaceBinaryOperator_BitOr", "core/RemoveDecorator", "core/ReplaceComparisonOperator_Is")

Mutant = tuple[str, str, int]
"""Path of the module, name of the operator, occurrence."""


def mutants(folder: Path, under: str) -> Iterator[Mutant]:
    """List every mutant of the modules below a folder of the checkout."""
    for path in sorted((folder / under).rglob("*.py")):
        module = get_ast(path.read_text())
        for name in sorted(operator_names()):
            if name.startswith(SKIPPED):
                continue
            operator = get_operator(name)
            if operator.arguments():
                continue
            positions = sum(1 for node in ast_nodes(module) for _ in operator().mutation_positions(node))
            yield from ((path.relative_to(folder).as_posix(), name, occurrence) for occurrence in range(positions))


def passes(folder: Path, tests: list[str], limit: float | None) -> bool:
    """Run the tests in the copy until the first failure; a run beyond the limit (s) is a failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Run the sample and print a table; exit status 1 if the unchanged code does not pass."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="mutants per folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the repository to mutate a copy of")
    parser.add_argument("--under", action="append", help="a folder of modules, relative; may be repeated")
    parser.add_argument("--tests", action="append", help="a folder of tests, relative; may be repeated")
    options = parser.parse_args()
    tests = options.tests or [name for name in TESTS if (options.checkout / name).is_dir()]
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "checkout"
        shutil.copytree(options.checkout, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        began = time.monotonic()
        if not passes(copy, tests, None):
            print("the unchanged code does not pass its tests")
            return 1
        limit = 4 * (time.monotonic() - began)
        for under in options.under or UNDER:
            every = list(mutants(copy, under))
            chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
            survivors = sum(not _is_killed(copy, mutant, tests, limit) for mutant in chosen)
            killed = len(chosen) - survivors
            print(
                f"{under}: killed {killed} of {len(chosen)} ({killed / len(chosen):.0%}), of {len(every)} possible",
                flush=True,
            )
    return 0


def _is_killed(copy: Path, mutant: Mutant, tests: list[str], limit: float) -> bool:
    name, operator, occurrence = mutant
    path = copy / name
    source = path.read_text()
    mutated = mutate_code(source, get_operator(operator)(), occurrence)
    try:
        path.write_text(mutated)
        if not passes(copy, tests, limit):
            return True
    finally:
        path.write_text(source)
    print(
        *difflib.unified_diff(source.split("\n"), mutated.split("\n"), name, operator, lineterm="", n=1),
        sep="\n",
        flush=True,
    )
    return False


if __name__ == "__main__":
    sys.exit(main())
