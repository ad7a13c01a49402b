"""`python -m tenex`: the same as `tenex`, where the script is not on the path.

Never: more than that.
"""

import sys

from tenex.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
