"""`python -m tenex`: the same as `tenex`, where the script is not on the path."""

import os
import sys

try:
    current = os.getcwd()  # noqa: PTH109 - `pathlib` could be its own
except OSError:  # it was deleted
    current = ""

if not sys.flags.safe_path and sys.path and sys.path[0] == current:
    del sys.path[0]  # `-m` puts the current folder first, whose modules would be taken for libraries

from tenex.main import main

if __name__ == "__main__":
    sys.exit(main())
