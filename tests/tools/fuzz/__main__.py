"""python -m tests.tools.fuzz: apart from what it runs, since new processes do not import a package's __main__ again."""

import sys

from tests.tools.fuzz.run import main

if __name__ == "__main__":
    sys.exit(main())
