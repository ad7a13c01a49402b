"""Draws docs/pictures/demo.svg: what a terminal shows of one conversation of the demo.

python -m tests.site.picture    writes it; times and ids in it are those of the run
"""

import re
import subprocess
import tempfile
from io import StringIO
from typing import Final

from rich.console import Console
from rich.text import Text

from tests.service.kit import TENEX, environment

from .source import ROOT

PICTURE: Final = ROOT / "docs" / "pictures" / "demo.svg"
MESSAGE: Final = "Create hello.py that prints hello"
WIDTH: Final = 100
# As rich's own, without the fonts that it loads from another server.
SVG: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>A conversation of the demo in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}</defs>
<rect fill="#1f2430" x="0" y="0" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def conversation() -> str:
    """What the demo prints, from the message to the end."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*TENEX, "demo", "--data", f"{folder}/try", "--model", "offline", "--message", MESSAGE]
        env = environment(HOME=folder, COLUMNS=str(WIDTH))
        done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    shown = (done.stdout + done.stderr).partition("\nThe conversation:")[0].replace(folder, "~")
    return f"$ tenex demo --message '{MESSAGE}'\n" + shown.strip()


def draw(text: str) -> str:
    """The text as a picture, with its heads and its end in colour."""
    console = Console(record=True, width=WIDTH, file=StringIO())
    for line in text.splitlines():
        is_head = re.match(r"\$|== |\w[\w -]*  \d\d:", line) is not None
        console.print(Text(line, style="bold cyan" if is_head else "green" if "✓" in line or "■" in line else ""))
    return console.export_svg(code_format=SVG, unique_id="demo")


if __name__ == "__main__":
    PICTURE.write_text(draw(conversation()), "utf-8")
