"""Play seeds again: `python -m tests.simulation SEED [UNTIL] [--keep FOLDER]`.

Prints what happens in one, or which of many fail. What a seed leaves on disk is kept in FOLDER/<seed>/<64 hex>, for
`python -m tests.histories.record NAME FOLDER/<seed>/<64 hex>` to make a history of.
"""

import argparse
import hashlib
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

import structlog

from .story import Story, simulate


def _digest(story: Story) -> str:
    """The same for the same seed, or a seed is worth nothing."""
    files = sorted(story.world.root.glob("*/journal*.jsonl"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _print_journals(root: Path) -> None:
    for path in sorted(root.glob("*/journal*.jsonl")):
        print(f"---- {path.relative_to(root)}")
        for line in path.read_bytes().splitlines():
            print(line[:400].decode(errors="replace"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed", type=int)
    parser.add_argument("until", type=int, nargs="?", help="play all from SEED up to this one, which is left out")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep there what is on disk at the end")
    chosen = parser.parse_args()
    is_many = chosen.until is not None
    seeds = range(chosen.seed, chosen.until if is_many else chosen.seed + 1)
    if is_many:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed: list[int] = []
    began = time.monotonic()
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            try:
                story = simulate(seed, Path(folder), (lambda _line: None) if is_many else print)
                if not is_many:
                    print(f"its journals are {_digest(story)}")
            except AssertionError as fault:
                failed.append(seed)
                print(fault)
                if not is_many:
                    _print_journals(Path(folder))
                    raise
            finally:
                if chosen.keep is not None:
                    shutil.copytree(folder, chosen.keep / str(seed))
    print(f"{len(seeds)} seeds, {len(failed)} failed, {time.monotonic() - began:.0f} s: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
