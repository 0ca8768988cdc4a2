"""`musicgen app`, which takes its time between the end of its work and its own, as a busy machine does."""

import sys
import time

from app.cli import main
from app.web.composing.composer import Composer

close = Composer.close


def close_slowly(composer: Composer) -> None:
    """End all work, and let those whose work it was find out."""
    close(composer)
    time.sleep(2)


setattr(Composer, "close", close_slowly)  # noqa: B010  a method in place of another

if __name__ == "__main__":
    sys.exit(main())
