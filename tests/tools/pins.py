"""The pinned packages: what moved since a revision, and the hashes of what is installed on this platform.

    python -m tests.tools.pins changed [REVISION]     what of constraints.txt is another than then (default: HEAD)
    python -m tests.tools.pins hashes                 write hashes.txt, for pip install --require-hashes -r hashes.txt

The second asks pip what it would install here, downloads what it needs to know that, and installs nothing. The file
that comes along is that of its first line; on another platform the command writes another.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS, HASHES = "constraints.txt", "hashes.txt"
COMMAND = "python -m tests.tools.pins hashes"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)\s*(?:;\s*(.*\S))?\s*$")

Pins = dict[tuple[str, str], str]  # name and condition → version


def read_pins(text: str) -> Pins:
    """Return the pins of a file of constraints; a line that is neither pin nor remark raises ValueError."""
    pins: Pins = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = PIN.match(line)
        if found is None:
            raise ValueError(f"line {number} of {PINS} is no pin: {line}")
        name, version, condition = found.groups()
        pins[re.sub(r"[-_.]+", "-", name).lower(), condition or ""] = version
    return pins


def changed(before: Pins, after: Pins) -> list[str]:
    """Return a line for each pin that moved, came or went."""
    lines = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old != new:
            name = f"{key[0]} ({key[1]})" if key[1] else key[0]
            lines.append(f"{name}: {old or 'new'} → {new or 'gone'}")
    return lines


def hashed(report: dict) -> list[str]:
    """Return requirements with hashes from what pip reports that it would install."""
    lines = []
    for one in report["install"]:
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        if name == "musicgen":
            continue
        sums = one["download_info"]["archive_info"]["hashes"]
        pinned = version.partition("+")[
            0
        ]  # +cpu names a build of the pinned version: the hash says which
        lines.append(f"{name.lower()}=={pinned} --hash=sha256:{sums['sha256']}")
    return sorted(lines)


def _pins_at(revision: str) -> Pins:
    command = ["git", "show", f"{revision}:{PINS}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        raise ValueError(f"git has no {PINS} of {revision}: {found.stderr.strip()}")
    return read_pins(found.stdout)


def _report() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        options = [
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--only-binary",
            ":all:",
            "--report",
            str(path),
        ]
        command = [sys.executable, "-m", "pip", "install", *options, "-c", PINS, ".[dev]"]
        subprocess.run(command, cwd=ROOT, check=True)
        return json.loads(path.read_text())


def main() -> int:
    """List, or print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("changed", "hashes"))
    parser.add_argument("revision", nargs="?", default="HEAD")
    given = parser.parse_args()
    try:
        if given.what == "hashes":
            lines = hashed(_report())
            python = ".".join(platform.python_version_tuple()[:2])
            where = f"Python {python} on {platform.system()} {platform.machine()}"
            head = f"# For {where}, torch for the CPU; made by {COMMAND}"
            (ROOT / HASHES).write_text("\n".join([head, *lines, ""]), encoding="utf-8")
            print(f"{HASHES}: {len(lines)} packages")
            return 0
        now = read_pins((ROOT / PINS).read_text())
        print("\n".join(changed(_pins_at(given.revision), now)) or "no pin has moved")
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"pins: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
