"""The page as a folder of static files, with all that the browser needs to compose by itself, offline too.

Browsers run the same Python in Pyodide, and the kernel beside it (app/web/tab.py, app/assets/worker). All files but the
first page and the service worker have addresses that change with the content of the folder.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.web.browser_python import NOT_OF_NUMPY, NOT_OF_STDLIB, archives, numpys_licence
from app.web.offered_models import OfferedModels
from app.web.page import ASSETS, POLICY, TITLE, html, page_facts
from musicgen import playable
from musicgen.checkpoint import Card, base_of, folder_of, read_card, weights_path
from musicgen.critic import FILE as CRITIC
from musicgen.kernel.packing import lacking
from tokenization.whole_file import write_whole

OWN = "sw.js"  # by which a folder is known to be a page
LICENCES = "LICENCES.txt"
PYTHON = "pyodide.asm.wasm"
PACKED = ".packed"  # not .gz, which some servers unpack
# What servers compress, GitHub Pages among them; the rest is compressed here.
COMPRESSED = (".html", ".css", ".js", ".mjs", ".json", ".webmanifest", ".svg", ".txt", ".wasm")
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
    numpy: bytes,
    soundfont: Path | None,
    compiles: bool,
) -> Made:
    """Write the page with some models; `pyodide` are the files of its distribution, and `numpy` is its wheel.

    With `compiles`, node compiles Python's sources; otherwise, browsers do so at each start.
    """
    if not _is_free(folder):
        raise ValueError(
            f"{folder} has other files; name an empty folder, or one that this command wrote"
        )
    found = [_Model.of(name) for name in models]
    program = [
        *(
            Content(f"python/{name}", data)
            for name, data in archives(pyodide, numpy, compiles=compiles).items()
        ),
        # A style and its base may both be models of the page.
        *{one.address: one for model in found for one in model.files}.values(),
    ]
    packed = [Content(one.address + PACKED, _gzipped(one.data)) for one in program]
    everything = [
        *packed,
        *(
            Content(path.relative_to(ASSETS).as_posix(), path.read_bytes())
            for path in _files(ASSETS)
        ),
        *(
            Content(f"pyodide/{name}", data)
            for name, data in pyodide.items()
            if name[-4:] != ".zip"
        ),
        Content("python/LICENSE.numpy", numpys_licence(numpy)),
        *([Content("soundfont.sf2", _gzipped(soundfont.read_bytes()))] if soundfont else []),
    ]
    everything.sort(key=lambda one: one.address)
    digest = hashlib.sha256(b"".join(one.address.encode() + one.data for one in everything))
    address = f"musicgen/{digest.hexdigest()[:12]}"
    page = _page(address, found, packed, pyodide[PYTHON], soundfont is not None)
    texts = {
        "index.html": page,
        "manifest.webmanifest": _manifest(address),
        LICENCES: _licences(address, found, soundfont),
        OWN: _service(address, everything, page),
    }
    shutil.rmtree(folder / "musicgen", ignore_errors=True)
    for one in everything:
        path = folder / address / one.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(one.data)
    for place, text in texts.items():  # the last step: all that they need is there
        write_whole(folder / place, text.encode())
    written = [*everything, *(Content(place, text.encode()) for place, text in texts.items())]
    return Made(
        files=len(written),
        bytes=sum(len(one.data) for one in written),
        packed=sum(map(_loaded, written)),
        models=", ".join(one.name for one in found),
    )


def _gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _loaded(one: Content) -> int:
    """Return the bytes that a browser loads of a file, where the server compresses what servers compress."""
    return len(gzip.compress(one.data, 6) if one.address.endswith(COMPRESSED) else one.data)


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
        "Pyodide": "MPL-2.0; the sources are at github.com/pyodide/pyodide",
        "CPython": "PSF-2.0, see docs.python.org/3/license.html; the standard library is compiled, without "
        + ", ".join(NOT_OF_STDLIB.split()),
        "numpy": f"BSD-3-Clause, see {address}/python/LICENSE.numpy; without {', '.join(NOT_OF_NUMPY.split())}",
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


def _model_files(folder: Path, card: Card) -> list[Content]:
    """Return the files of a model, in a folder of the package."""
    paths = {
        "config.json": folder / "config.json",
        "model.safetensors": weights_path(folder, card),
        CRITIC: folder / CRITIC,
    }
    return [
        Content(f"musicgen/pretrained/{card.name}/{place}", path.read_bytes())
        for place, path in paths.items()
        if path.is_file()
    ]


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
        own = _model_files(folder, card)
        if card.base:
            base = base_of(card)
            own += _model_files(base, read_card(base)[1])
        return cls(given, card.name, own, str(card.training.get("licence", "as its maker says")))


def _page(
    address: str, models: list[_Model], program: list[Content], python: bytes, has_sound: bool
) -> str:
    """Return the HTML of the page, with the list of files that the worker loads."""
    offered = OfferedModels(models[0].given)
    offered.languages = {one.name: playable.language_of(one.given) for one in models}
    facts = {**page_facts(offered, address), "licences": LICENCES}
    if not has_sound:
        facts["lacks"] = {"sound": SILENT}
    facts["program"] = {
        "worker": f"{address}/worker/worker.js",
        "model": models[0].name,
        "python": {
            "address": f"{address}/pyodide/{PYTHON}",
            "integrity": f"sha256-{base64.b64encode(hashlib.sha256(python).digest()).decode()}",
        },
        "files": [
            {
                "path": one.address.removesuffix(PACKED),
                "address": f"{address}/{one.address}",
                "bytes": len(one.data),
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
    digest = hashlib.sha256(page.encode()).hexdigest()[:12]
    files = json.dumps(
        ["./", "manifest.webmanifest", LICENCES, *(f"{address}/{one.address}" for one in contents)]
    )
    script = (ASSETS / "worker/service.js").read_text(encoding="utf-8")
    return f"const VERSION = {json.dumps(digest)},\n  FILES = {files};\n{script}"
