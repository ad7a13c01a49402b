"""Commands that find a package with tools."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.service.kit import ROOT, TENEX, environment


async def tenex_with(site: Path, *words: str | Path) -> tuple[int, Any]:
    """What a command prints with `--json`, in a process that finds the package."""
    line = [*TENEX, *map(str, words), "--json"]
    env = environment(PYTHONPATH=f"{ROOT}:{site}")
    done = await asyncio.to_thread(
        lambda: subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    )
    return done.returncode, json.loads(done.stdout)
