"""`musicgen app` where no file may have more than 1,000 bytes, which stands for a disk that is full."""

import os
import resource
import sys

from app.cli import main

if __name__ == "__main__":
    # Python would cut off the bytecode of what it imports from here on too, and trip over it another time.
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    sys.exit(main())
