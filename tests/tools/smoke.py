"""Build the wheel, install it into a fresh environment, and use it from another folder: python -m tests.tools.smoke.

pip installs the newest versions that pyproject.toml allows, with the extra `app`. Models play with the tested torch,
for which a local index may have only a CPU build (--torch torch takes the newest, --torch none leaves it out). It needs
only Python and a package index: make smoke PYTHON=python3.13.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

from tests.tools.options import options

ROOT = Path(__file__).parents[2]
PACKAGES = ("musicgen", "tokenization", "training", "evaluation", "app", "bridges")
# Files in the packages' folders for readers of the source, not in the wheel.
FOR_READERS = {
    "app/page.png", "bridges/README.md", "bridges/musescore.png", "evaluation/README.md",
    "evaluation/benchmarks/README.md", "musicgen/position/README.md", "training/configs/README.md",
}  # fmt: skip
READY_SECONDS = 180
LISTED = """
import json, sys
from importlib.metadata import files
print(json.dumps([str(path) for path in files("symbolic-musicgen") if not str(path).endswith(".pyc")]))
"""
CALLS = """
import json, sys
from gradio_client import Client, handle_file
client = Client(sys.argv[1], verbose=False)
paths, facts = client.predict(handle_file(sys.argv[2]), bars=1, seed=7, api_name="/continue")
print(json.dumps([paths, facts, client.predict(handle_file(paths[0]), api_name="/sound")]))
"""


def built(place: Path) -> Path:
    """Build the wheel from a clean copy, so that leftovers of old builds are not packed."""
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(place / "dist")]
    subprocess.run([*pip, str(source)], check=True)
    (wheel,) = (place / "dist").iterdir()
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MB", flush=True)
    return wheel


def installed(place: Path, *packages: str) -> Path:
    """Install packages into a new environment and return its folder of programs."""
    venv.create(place / "environment", with_pip=True)
    programs = place / "environment" / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    for package in packages:
        subprocess.run([*pip, "--quiet", package], check=True)
    return programs


def tested_torch() -> str:
    """Return the requirement of torch in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


class Smoke:
    """An installed musicgen, used from a folder without the source."""

    def __init__(self, programs: Path, place: Path) -> None:
        place.mkdir()
        shutil.copy(ROOT / "app" / "examples" / "trio-jazz.mid", place / "song.mid")
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        known = {name: value for name, value in os.environ.items() if name not in hidden}
        self.programs, self.place, self.around = programs, place, {"cwd": place, "env": known}

    def run(self, program: str, *arguments: str) -> str:
        """Return the output of a program of the environment, or exit with its error."""
        words = [str(self.programs / program), *arguments]
        done = subprocess.run(words, **self.around, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{program} {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def holds_all(self) -> None:
        """Compare the installed files with the source."""
        ours = {
            path.relative_to(ROOT).as_posix()
            for name in PACKAGES
            for path in (ROOT / name).rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
        theirs = {path.replace("\\", "/") for path in json.loads(self.run("python", "-c", LISTED))}
        strange = {p for p in theirs if not p.startswith((*PACKAGES, "symbolic_musicgen-", ".."))}
        missing = ours - theirs - FOR_READERS
        if strange or missing:
            sys.exit(f"the wheel has unexpected files {sorted(strange)} or lacks {sorted(missing)}")
        print(f"files: all {len(ours - FOR_READERS)} installed", flush=True)

    def names_what_is_missing(self) -> None:
        """Call a command whose extra is not installed."""
        words = [str(self.programs / "musicgen"), "compare", "pop-piano-ape", "pop-piano-sine-spe"]
        done = subprocess.run(words, **self.around, capture_output=True, text=True, check=False)
        wanted = 'pip install "symbolic-musicgen[train]"\n'
        if done.returncode != 2 or not done.stderr.endswith(wanted) or done.stderr.count("\n") > 1:
            sys.exit(
                f"without the extra, musicgen compare ended with {done.returncode}: {done.stderr}"
            )
        print(done.stderr.strip(), flush=True)

    def continues(self) -> None:
        """Continue a song with each model, with sound."""
        for model in json.loads(self.run("musicgen", "models", "--json")):
            name = model["name"]
            asked = ("--model", name, "--bars", "2", "--audio", "-o", name, "--json")
            made = json.loads(self.run("musicgen", "continue", "song.mid", *asked))
            sounds = [p for p in (self.place / name).glob("*.wav") if p.read_bytes()[:4] == b"RIFF"]
            if not made or not sounds:
                sys.exit(f"{name} wrote {made}, and these sounds: {sounds}")
            told = f"{made[0]['tokens']} tokens, {len(sounds)} sounds"
            print(f"musicgen continue --model {name}: {told}", flush=True)

    def answers(self) -> None:
        """Load the page with its files, and call the endpoints of Continue and sound."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        command = [str(self.programs / "musicgen"), "app", "--port", str(port), "--no-browser"]
        server = subprocess.Popen(command, **self.around)
        try:
            page = _page(server, address)
            parts = sorted(set(re.findall(r"musicgen/[\w/]+\.(?:js|css)", page)))
            sizes = [len(_read(f"{address}/{part}")) for part in parts]
            made = json.loads(self.run("python", "-c", CALLS, address, "song.mid"))
        finally:
            server.terminate()
            server.wait(60)
        if not sizes or not all(sizes):
            sys.exit(f"the page names no scripts, or empty ones: {parts}, of {sizes} bytes")
        print(f"musicgen app: a page of {len(page)} characters and {len(sizes)} files answers; "
              f"/continue wrote {made[1][0]['notes']} notes, and /sound played them")  # fmt: skip


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


def _page(server: subprocess.Popen, address: str) -> str:
    """Wait for the page and return it."""
    late = time.monotonic() + READY_SECONDS
    while server.poll() is None and time.monotonic() < late:
        try:
            return _read(address).decode()
        except OSError:
            time.sleep(0.2)
    sys.exit("the page did not start; see the server's output above")


def main() -> None:
    """Build, install and use the wheel."""
    torch = options(__doc__, torch=tested_torch()).torch
    with tempfile.TemporaryDirectory(prefix="musicgen-smoke-") as folder:
        place = Path(folder)
        first = [] if torch == "none" else [torch]
        smoke = Smoke(installed(place, *first, f"{built(place)}[app]"), place / "elsewhere")
        print(
            smoke.run("python", "--version"), smoke.run("python", "-m", "pip", "freeze"), flush=True
        )
        smoke.holds_all()
        smoke.names_what_is_missing()
        smoke.continues()
        smoke.answers()
    print("everything works")


if __name__ == "__main__":
    main()
