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
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from app.web.offered_models import OfferedModels
from app.web.page import ASSETS, POLICY, TITLE, html, page_facts
from musicgen import playable
from musicgen.checkpoint import folder_of, read_card, weights_path
from musicgen.kernel.packing import lacking
from tokenization.whole_file import write_whole

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenization", "musicgen", "app/web")  # that the browser runs, or could
OWN = "sw.js"  # by which a folder is known to be a page
OLD_ZIP = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive
GPL_FONT = "TimGM6mb.sf2"  # that of pretty_midi
SILENT = "This page was made without a soundfont, so that it has no sound; save the piece as MIDI to hear it."


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
    packed: int  # bytes to load where the server compresses
    models: str


def write(
    folder: Path,
    *,
    models: list[str],
    pyodide: dict[str, bytes],
    numpy: tuple[str, bytes],
    soundfont: Path | None,
) -> Made:
    """Write the page with some models; `pyodide` are the files of its distribution, and `numpy` is its wheel."""
    if not _is_free(folder):
        raise ValueError(
            f"{folder} has other files; name an empty folder, or one that this command wrote"
        )
    found = [_Model.of(name) for name in models]
    kernel = "musicgen/kernel/kernel.wasm"
    program = [
        *(one for model in found for one in model.files),
        Content("python/musicgen.zip", _archive()),
        Content(f"python/{numpy[0]}", numpy[1]),
        Content(kernel, (ROOT / kernel).read_bytes()),
    ]
    everything = [
        *program,
        *(
            Content(path.relative_to(ASSETS).as_posix(), path.read_bytes())
            for path in _files(ASSETS)
        ),
        *(Content(f"pyodide/{name}", data) for name, data in pyodide.items()),
        *([Content("soundfont.sf2", soundfont.read_bytes())] if soundfont else []),
    ]
    everything.sort(key=lambda one: one.address)
    digest = hashlib.sha256(b"".join(one.address.encode() + one.data for one in everything))
    address = f"musicgen/{digest.hexdigest()[:12]}"
    page = _page(address, found, program, soundfont is not None)
    texts = {
        "index.html": page,
        "manifest.webmanifest": _manifest(address),
        "LICENCES.txt": _licences(address, found, soundfont),
        OWN: _service(address, everything, page),
    }
    shutil.rmtree(folder / "musicgen", ignore_errors=True)
    for one in everything:
        path = folder / address / one.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.data)
    for place, text in texts.items():  # the last step: all that they need is there
        write_whole(folder / place, text.encode())
    written = [*(one.data for one in everything), *(text.encode() for text in texts.values())]
    return Made(
        files=len(written),
        bytes=sum(map(len, written)),
        packed=sum(len(zlib.compress(one)) for one in written),
        models=", ".join(one.name for one in found),
    )


def _is_free(folder: Path) -> bool:
    """Return whether a folder is missing or empty, or has a page."""
    return (
        not folder.exists()
        or (folder / OWN).is_file()
        or (folder.is_dir() and not any(folder.iterdir()))
    )


def _licences(address: str, models: list[_Model], soundfont: Path | None) -> str:
    """Return the licences of all parts of the page, one a line."""
    lines = {
        "musicgen": "MIT",
        **{f"the model {one.name}": one.licence for one in models},
        "scripts of others": f"see {address}/vendor/LICENCES.txt",
        "Pyodide, with CPython": "MPL-2.0 and PSF-2.0; the sources are at github.com/pyodide/pyodide",
        "numpy": "BSD-3-Clause, see its licence in the wheel",
    }
    if soundfont is not None:
        gpl = f"GPL-2.0, see {address}/vendor/LICENSE.GPL-2"
        own = gpl if soundfont.name == GPL_FONT else "as its maker says"
        lines[f"the soundfont {soundfont.name}"] = own
    return "".join(f"{name}: {licence}\n" for name, licence in lines.items())


def _files(root: Path) -> Iterator[Path]:
    return (
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )


@dataclass(frozen=True)
class _Model:
    given: str
    name: str
    files: list[Content]
    licence: str

    @classmethod
    def of(cls, given: str) -> _Model:
        """Find a model that the kernel plays, with its files."""
        if given.startswith(playable.UNTRAINED):
            raise ValueError(f"{given} has no files; name a model of the package or a folder")
        folder = folder_of(given)
        config, card = read_card(folder)
        if lack := lacking(config):
            raise ValueError(
                f"{card.name} cannot play in a browser, since the kernel does not know {lack}"
            )
        paths = {
            "config.json": folder / "config.json",
            "model.safetensors": weights_path(folder, card),
        }
        own = [
            Content(f"musicgen/pretrained/{card.name}/{place}", path.read_bytes())
            for place, path in paths.items()
        ]
        return cls(given, card.name, own, str(card.training.get("licence", "as its maker says")))


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


def _page(address: str, models: list[_Model], program: list[Content], has_sound: bool) -> str:
    """Return the HTML of the page, with the list of files that the worker loads."""
    offered = OfferedModels(models[0].given)
    offered.languages = {one.name: playable.language_of(one.given) for one in models}
    facts = page_facts(offered, address)
    if not has_sound:
        facts["lacks"] = {"sound": SILENT}
    facts["program"] = {
        "worker": f"{address}/worker/worker.js",
        "model": models[0].name,
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
        '<link rel="manifest" href="manifest.webmanifest"><meta name="theme-color" content="#0d1117">',
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
            "background_color": "#0d1117", "theme_color": "#0d1117", "icons": icons,
        }
    )  # fmt: skip


def _service(address: str, contents: list[Content], page: str) -> str:
    """Return the service worker with its list of files, which changes with any of them."""
    kept = [one.address for one in contents if "LICEN" not in one.address]
    digest = hashlib.sha256(page.encode()).hexdigest()[:12]
    files = json.dumps(["./", "manifest.webmanifest", *(f"{address}/{one}" for one in kept)])
    script = (ASSETS / "worker/service.js").read_text(encoding="utf-8")
    return f"const VERSION = {json.dumps(digest)},\n  FILES = {files};\n{script}"
