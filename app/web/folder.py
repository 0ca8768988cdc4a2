"""The page as a folder of static files, with all that the browser needs to compose by itself, offline too.

Browsers run the same Python in Pyodide, and the kernel beside it (app/web/tab.py, app/assets/worker). All files but the
first page and the service worker have addresses that change with the content of the folder.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from app.web.offered_models import OfferedModels
from app.web.page import ASSETS, POLICY, TITLE, html, page_facts
from app.web.tab import NO_SOUND
from musicgen import playable
from musicgen.checkpoint import folder_of, read_card, weights_path
from musicgen.kernel.packing import lacking
from tokenization.whole_file import write_whole

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenization", "musicgen", "app/web")  # that the browser runs, or could
OWN = "sw.js"  # by which a folder is known to be a page
OLD_ZIP = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive
GPL_FONT = "TimGM6mb.sf2: GPL-2.0, see {address}/vendor/LICENSE.GPL-2; `musicgen page --soundfont` takes another."
LICENCES = """\
What this folder holds, and under which licences:

musicgen: MIT, see LICENSE
its model: {model}
scripts of others: see {address}/vendor/LICENCES.txt
Pyodide (pyodide/): MPL-2.0, with CPython, PSF-2.0; the sources are at github.com/pyodide/pyodide
numpy: BSD-3-Clause, see its licence in the wheel
{font}
"""


@dataclass(frozen=True)
class Content:
    """A file of the page: its address below the folder of a version, and its content."""

    address: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Made:
    """A folder as it was written."""

    files: int
    bytes: int
    name: str  # of the model


def write(
    folder: Path, *, model: str, pyodide: dict[str, bytes], numpy: tuple[str, bytes], soundfont: Path | None
) -> Made:  # fmt: skip
    """Write the page with a model; `pyodide` are the files of its distribution, and `numpy` is its wheel."""
    if (
        folder.exists()
        and (not folder.is_dir() or any(folder.iterdir()))
        and not (folder / OWN).is_file()
    ):
        raise ValueError(
            f"{folder} has other files; name an empty folder, or one that this command wrote"
        )
    name, own, licence = _model_files(model)
    program = [
        *own,
        Content("python/musicgen.zip", _archive()),
        Content(f"python/{numpy[0]}", numpy[1]),
        Content("musicgen/kernel/kernel.wasm", (ROOT / "musicgen/kernel/kernel.wasm").read_bytes()),
    ]
    fixed = [
        *(
            Content(path.relative_to(ASSETS).as_posix(), path.read_bytes())
            for path in _files(ASSETS)
        ),
        *(Content(f"pyodide/{name}", data) for name, data in pyodide.items()),
        *([Content("soundfont.sf2", soundfont.read_bytes())] if soundfont else []),
    ]
    everything = sorted([*program, *fixed], key=lambda one: one.address)
    digest = hashlib.sha256(b"".join(one.address.encode() + one.data for one in everything))
    address = f"musicgen/{digest.hexdigest()[:12]}"
    page = _page(address, name, model, program)
    font = (
        GPL_FONT
        if soundfont and soundfont.name == "TimGM6mb.sf2"
        else "the soundfont: as its maker says"
    )
    texts = {
        "index.html": page,
        "manifest.webmanifest": _manifest(address),
        "LICENCES.txt": LICENCES.format(
            model=licence, font=font if soundfont else "", address=address
        ).replace("{address}", address),
        "LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8")
        if (ROOT / "LICENSE").is_file()
        else "MIT\n",
        OWN: _service(
            address, [one.address for one in everything if _is_needed(one.address)], page
        ),
    }
    shutil.rmtree(folder / "musicgen", ignore_errors=True)
    for one in everything:
        path = folder / address / one.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.data)
    for place, text in texts.items():  # the page last appears when all that it needs is there
        write_whole(folder / place, text.encode())
    total = sum(len(one.data) for one in everything) + sum(
        len(text.encode()) for text in texts.values()
    )
    return Made(files=len(everything) + len(texts), bytes=total, name=name)


def _files(root: Path) -> Iterator[Path]:
    return (
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )


def _is_needed(address: str) -> bool:
    """Return whether the page needs a file to work offline."""
    return not address.split("/")[-1].startswith(("LICEN", "."))


def _model_files(model: str) -> tuple[str, list[Content], str]:
    """Return the name of a model, its files, and its licence."""
    if model.startswith(playable.UNTRAINED):
        raise ValueError(f"{model} has no files; name a model of the package or a folder")
    folder = folder_of(model)
    config, card = read_card(folder)
    if lack := lacking(config):
        raise ValueError(
            f"{card.name} cannot play in a browser, since the kernel does not know {lack}"
        )
    own = [
        Content(f"musicgen/pretrained/{card.name}/{place}", path.read_bytes())
        for place, path in (
            ("config.json", folder / "config.json"),
            ("model.safetensors", weights_path(folder, card)),
        )
    ]
    return card.name, own, str(card.training.get("licence", "as its maker says"))


def _archive() -> bytes:
    """Return the Python sources that the browser runs, and the examples, as a zip file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(place: str, data: bytes) -> None:
            archive.writestr(zipfile.ZipInfo(place, OLD_ZIP), data, zipfile.ZIP_DEFLATED)

        add("app/__init__.py", (ROOT / "app/__init__.py").read_bytes())
        for package in PACKAGES:
            for path in _files(ROOT / package):
                if path.suffix == ".py":
                    add(path.relative_to(ROOT).as_posix(), path.read_bytes())
        for path in _files(ROOT / "app/examples"):
            add(path.relative_to(ROOT).as_posix(), path.read_bytes())
        try:
            number = version("symbolic-musicgen")
            told = f"Metadata-Version: 2.1\nName: symbolic-musicgen\nVersion: {number}\n"
            add(f"symbolic_musicgen-{number}.dist-info/METADATA", told.encode())
        except PackageNotFoundError:
            pass  # files that are made here say "musicgen from source", as at home
    return packed.getvalue()


def _page(address: str, name: str, model: str, program: list[Content]) -> str:
    """Return the HTML of the page, with the list of files that the worker loads."""
    facts = page_facts(OfferedModels(model), address)
    facts["models"] = [{**facts["models"][0], "name": name}]
    facts["lacks"] = {"sound": NO_SOUND}
    facts["program"] = {
        "worker": f"{address}/worker/worker.js",
        "model": name,
        "files": [
            {
                "path": one.address,
                "address": f"{address}/{one.address}",
                "bytes": len(one.data),
                "integrity": f"sha256-{base64.b64encode(hashlib.sha256(one.data).digest()).decode()}",
            }
            for one in program
        ],
    }
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<link rel="manifest" href="manifest.webmanifest"><meta name="theme-color" content="#1c1a17">',
        f'<link rel="icon" href="{address}/worker/icon.svg">',
        f'<link rel="apple-touch-icon" href="{address}/worker/icon-180.png">',
    )
    return html(address, facts, *head)


def _manifest(address: str) -> str:
    """Return the description by which the page can be installed."""
    icons = [
        {"src": f"{address}/worker/icon.svg", "sizes": "any", "type": "image/svg+xml"},
        *(
            {
                "src": f"{address}/worker/icon-{size}.png",
                "sizes": f"{size}x{size}",
                "type": "image/png",
            }
            for size in (180, 512)
        ),
    ]
    return json.dumps(
        {
            "name": TITLE, "short_name": TITLE, "start_url": "./", "scope": "./", "display": "standalone",
            "background_color": "#1c1a17", "theme_color": "#1c1a17", "icons": icons,
        }
    )  # fmt: skip


def _service(address: str, addresses: list[str], page: str) -> str:
    """Return the service worker with its list of files, which changes with any of them."""
    kept = ["./", "manifest.webmanifest", *(f"{address}/{one}" for one in addresses)]
    digest = hashlib.sha256(page.encode()).hexdigest()[:12]
    told = f"const VERSION = {json.dumps(digest)},\n  FILES = {json.dumps(kept)};\n"
    return told + (ASSETS / "worker/service.js").read_text(encoding="utf-8")
