"""python -m tests.tools.fuzz; a separate file because worker processes do not import a package's __main__."""

import sys

from tests.tools.fuzz.run import main

if __name__ == "__main__":
    sys.exit(main())
