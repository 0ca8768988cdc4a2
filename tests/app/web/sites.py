"""Pages without a server, for tests: written by `musicgen page` and served as static files.

They need Pyodide and a numpy for it: pyodide-*.tgz and numpy-*.whl in the folder that MUSICGEN_PYODIDE names, or in
build/pyodide. Without those, the tests are skipped.
"""

import inspect
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from musicgen.checkpoint import Card
from musicgen.playable import find
from musicgen.weights import save
from tests.app.web.browser import MODEL
from tests.musicgen.kernel import same_music

ROOT = Path(__file__).parents[3]
DOWNLOADS = Path(os.environ.get("MUSICGEN_PYODIDE") or ROOT / "build/pyodide")
PYODIDE, NUMPY = "pyodide-*.tgz", "numpy-*.whl"
# Runs a test with the page of a server, and with one that composes by itself.
BOTH = pytest.mark.parametrize(
    "address", ["server", pytest.param("site", marks=pytest.mark.long)], indirect=True
)

SCRIPT = Path(__file__).parent / "scripts/hashes.js"
# The hashes of known requests, by a worker of the page.
HASHES = """([script, facts, source]) => new Promise((done, failed) => {
  const at = (address) => new URL(address, document.baseURI).href;
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const worker = new Worker(url, { type: "module" });
  worker.onmessage = ({ data }) => done(JSON.parse(data));
  worker.onerror = ({ message }) => failed(new Error(message));
  const files = facts.files.map((one) => ({ ...one, address: at(one.address) }));
  worker.postMessage({ pyodide: at(facts.python.address.replace(/[^/]*$/, "pyodide.mjs")), files, source });
})"""


def write_site(folder: Path, *more: object) -> None:
    """Write a page with the command."""
    found = [next(DOWNLOADS.glob(name), None) for name in (PYODIDE, NUMPY)]
    if None in found:
        pytest.skip(f"a page without a server is tested with {PYODIDE} and {NUMPY} in {DOWNLOADS}")
    given = (folder, "--downloads", DOWNLOADS, "--numpy", found[1], *more)
    assert main(["page", *map(str, given)]) == 0


def save_small(folder: Path) -> Path:
    """Save the untrained model of the tests of the page."""
    model = find(MODEL)
    card = Card(name=folder.name, language=model.language.spec(), trained_length=0)
    save(folder, model.performer, card)
    return folder


class Files(SimpleHTTPRequestHandler):
    """Serves a folder silently."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def hashes_in(evaluate: Callable[[str, Any], Any], folder: Path) -> dict[str, list[str]]:
    """Return the hashes of known requests in a browser that has opened a file of the page."""
    html = (folder / "index.html").read_text(encoding="utf-8")
    facts = json.loads(html.split('id="mg-facts">')[1].split("</script>")[0])["program"]
    script = SCRIPT.read_text(encoding="utf-8")
    return evaluate(HASHES, [script, facts, inspect.getsource(same_music)])
