"""Builds the site into build/site: `make site`. A link that leads nowhere is an error.

    python -m tests.site
    python -m http.server --directory build/site --bind 127.0.0.1 8000    reads it

The pictures are drawn in the browser by mermaid, which is copied from the npm packages of tests/interop: a page of the
site asks no other server for anything.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.interop.scripts import install

from .source import ROOT, lay_out

MERMAID: Final = ROOT / "tests" / "interop" / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"
TIMEOUT: Final = 300
"""Seconds for the build, which takes ten."""


class SiteNotBuilt(Exception):
    """What the generator reported."""


def build(folder: Path = ROOT / "build") -> Path:
    """Build the site below a folder and return where it is.

    Raises:
        SiteNotBuilt: the generator reported an error or a warning.
    """
    install()
    source = folder / "site-source"
    site = folder / "site"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    lay_out(source)
    scripts = source / "scripts"
    scripts.mkdir()
    shutil.copyfile(MERMAID, scripts / "mermaid.min.js")
    for name in ("extra.css", "extra.js"):
        shutil.copy(Path(__file__).with_name(name), scripts)
    configuration = shutil.copy(ROOT / "mkdocs.yml", folder)
    words = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean", "-f", str(configuration)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise SiteNotBuilt(done.stdout + done.stderr)
    return site


if __name__ == "__main__":
    try:
        print(build())
    except (SiteNotBuilt, pytest.skip.Exception) as error:  # a skip: npm packages that cannot be installed
        print(error, file=sys.stderr)
        sys.exit(1)
