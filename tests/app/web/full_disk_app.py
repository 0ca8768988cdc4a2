"""`musicgen app` where no file may have more than 1,000 bytes, which stands for a disk that is full."""

import resource
import sys

from app.cli import main

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    sys.exit(main())
