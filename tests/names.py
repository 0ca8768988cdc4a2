"""Names of files that hold more than ASCII, on machines whose locale knows ASCII alone too."""

import os


def on_disk(name: str) -> str:
    """Return what Python calls a file here that has this name in UTF-8: the name, or its bytes escaped."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))
