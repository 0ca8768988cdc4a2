"""`musicgen app` with files limited to 1,000 bytes, to simulate a full disk."""

import os
import resource
import sys

from app.cli import main

if __name__ == "__main__":
    # Otherwise Python would write truncated bytecode, which fails at the next import.
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    sys.exit(main())
