"""`musicgen page`: the web app as a folder of static files, which needs no server of ours and works offline."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from app import output
from app.audio import default_soundfont

EXAMPLES = """\
examples:
  musicgen page site
  musicgen page site --soundfont FluidR3Mono_GM.sf3
  python -m http.server --directory site
"""

# Python for browsers: the npm package, without its types and consoles. numpy comes from the same distribution.
PYODIDE = "0.29.0"
PYODIDE_SHA512 = (
    "39b22fb1399caf10162a0f854f51a37d274399073909a6e761efe79f9042ba1a"
    "fd0555484de436e0305d66e1b9076b4888067d6289c1a670c1edc98767277647"
)
LOCK = "pyodide-lock.json"
PARTS = (
    "pyodide.mjs",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    LOCK,
)
SLOWER = "Without node, Python is not compiled here, so that browsers do it at each start."
PACKAGES = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full/"


def add(parser: argparse.ArgumentParser) -> None:
    from musicgen.playable import DEFAULT

    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="the folder to write; it may be one of before"
    )
    parser.add_argument(
        "--model", action="append", metavar="MODEL",
        help=f"a model of the page, a name or a folder; repeatable, the first is selected (default: {DEFAULT})",
    )  # fmt: skip
    font = parser.add_mutually_exclusive_group()
    font.add_argument(
        "--soundfont", type=Path, metavar="FILE",
        help="the soundfont to play with, .sf2 or .sf3 (default: that of pretty_midi, which is GPL-2.0)",
    )  # fmt: skip
    font.add_argument("--no-soundfont", action="store_true", help="a page without sound")
    parser.add_argument(
        "--numpy", type=Path, metavar="FILE.whl",
        help=f"a numpy for Pyodide {PYODIDE} of another build (default: the official one)",
    )  # fmt: skip
    parser.add_argument(
        "--downloads", type=Path, metavar="FOLDER", default=_kept(),
        help="where Pyodide and numpy are kept (default: %(default)s)",
    )  # fmt: skip


def _kept() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "musicgen"


def run(arguments: argparse.Namespace) -> None:
    """Write the folder."""
    from app.web.folder import write
    from musicgen.playable import DEFAULT

    font = None if arguments.no_soundfont else arguments.soundfont or default_soundfont()
    if font is not None and not font.is_file():
        raise ValueError(f"there is no soundfont {font}; name an .sf2 or .sf3 file")
    if arguments.numpy is not None and not arguments.numpy.is_file():
        raise ValueError(f"there is no wheel {arguments.numpy}")
    arguments.downloads.mkdir(parents=True, exist_ok=True)
    pyodide = _pyodide(arguments.downloads)
    lock = json.loads(pyodide[LOCK])
    numpy = _numpy(arguments.downloads, lock, arguments.numpy)
    pyodide[LOCK] = json.dumps({**lock, "packages": {}}).encode()  # browsers load none of them
    made = write(
        arguments.folder,
        models=arguments.model or [DEFAULT],
        pyodide=pyodide,
        numpy=numpy,
        soundfont=font,
        compiles=(compiles := shutil.which("node") is not None),
    )
    output.remark(
        [
            f"{arguments.folder} has the page with {made.models}: {made.files} files, {made.bytes / 1e6:.1f} MB, "
            f"{made.packed / 1e6:.1f} MB where a server compresses them.",
            *(() if compiles else (SLOWER,)),
            "Put it on any web server with HTTPS, or try it: "
            f"python -m http.server --bind localhost --directory {arguments.folder}",
        ]
    )


def _pyodide(downloads: Path) -> dict[str, bytes]:
    """Return the files of Pyodide, from the npm package."""
    path = downloads / f"pyodide-{PYODIDE}.tgz"
    if not path.is_file():
        if shutil.which("npm") is None:
            raise ValueError(
                f"Pyodide comes by npm, which is missing; or put pyodide-{PYODIDE}.tgz into {downloads}"
            )
        with TemporaryDirectory() as folder:
            command = [
                "npm",
                "pack",
                "--silent",
                f"pyodide@{PYODIDE}",
                "--pack-destination",
                folder,
            ]
            if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
                raise ValueError(
                    f"npm could not load pyodide@{PYODIDE}; or put pyodide-{PYODIDE}.tgz into {downloads}"
                )
            shutil.move(Path(folder) / path.name, path)
    data = path.read_bytes()
    if hashlib.sha512(data).hexdigest() != PYODIDE_SHA512:
        raise ValueError(f"{path} is not Pyodide {PYODIDE}, or damaged; delete it to load it again")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {name: archive.extractfile(f"package/{name}") for name in PARTS}
        return {name: file.read() for name, file in found.items() if file is not None}


def _numpy(downloads: Path, lock: dict, given: Path | None) -> bytes:
    """Return numpy's wheel; the official one has the hash of Pyodide's list."""
    if given is not None:
        return given.read_bytes()
    told = lock["packages"]["numpy"]
    path = downloads / told["file_name"]
    if not path.is_file():
        try:
            with urllib.request.urlopen(PACKAGES + path.name, timeout=60) as answer:
                path.write_bytes(answer.read())
        except OSError as error:
            raise ValueError(
                f"{PACKAGES}{path.name} cannot be loaded ({error}); put that file into {downloads}, "
                "or name another build with --numpy"
            ) from None
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise ValueError(f"{path} is damaged; delete it to load it again")
    return data
