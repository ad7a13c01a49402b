"""Play seeds again: `python -m tests.simulation SEED [UNTIL]`; prints what happens in one, or which of many fail.

Never: stop at the first of many that fails.
"""

import hashlib
import logging
import sys
import tempfile
import time
from pathlib import Path

import structlog

from tests.simulation.story import Story, simulate


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
    """Play one seed aloud, or many quietly."""
    first, *rest = (int(word) for word in sys.argv[1:])
    seeds = range(first, rest[0] if rest else first + 1)
    if rest:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failed: list[int] = []
    began = time.monotonic()
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            try:
                story = simulate(seed, Path(folder), (lambda _line: None) if rest else print)
                if not rest:
                    print(f"its journals are {_digest(story)}")
            except AssertionError as fault:
                failed.append(seed)
                print(fault)
                if not rest:
                    _print_journals(Path(folder))
                    raise
    print(f"{len(seeds)} seeds, {len(failed)} failed, {time.monotonic() - began:.0f} s: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
