"""The command that installs a missing package, for messages."""

import shlex
import sys
from typing import Final

DISTRIBUTION: Final = "tenexd"
"""The name to install it by; `tenex` is another project on PyPI."""


def pip_install(*, extra: str = "", requirement: str = "") -> str:
    """The command, for a shell, that installs an extra of ours or another requirement for the running Python."""
    wanted = f"{DISTRIBUTION}[{extra}]" if extra else requirement
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(wanted)}"
