"""Python as browsers load it: compiled, and without what no page uses, so that it loads and starts faster.

The bytecode is for the Python that Pyodide has, so this file runs there, in node, with the standard library alone.
"""

from __future__ import annotations

import io
import marshal
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
OURS = ("tokenization", "musicgen", "app/web", "app/examples")  # that the browser runs or opens
STDLIB = "python_stdlib.zip"
# What is left out of the standard library: terminals, tests, debugging, packaging, processes, servers, mail.
NOT_OF_STDLIB = """
    _pyio _pyrepl antigravity bdb cProfile cmd code compileall configparser doctest fileinput filecmp ftplib getpass
    graphlib html http imaplib mailbox modulefinder multiprocessing netrc optparse pdb pickletools plistlib poplib
    profile pstats pty pyclbr pydoc pydoc_data rlcompleter sched shelve smtplib socketserver symtable tabnanny this
    timeit tomllib trace tracemalloc turtledemo unittest urllib/request urllib/robotparser wave webbrowser wsgiref
    xml/dom xml/sax xmlrpc zipapp zoneinfo
"""
# What is left out of numpy, beside its tests and types: what compiles against it, and what nothing here uses.
NOT_OF_NUMPY = """
    numpy/_core/include numpy/_core/lib numpy/_pyinstaller numpy/compat numpy/conftest numpy/core numpy/ctypeslib
    numpy/distutils numpy/doc numpy/f2py numpy/lib/recfunctions numpy/linalg/lapack_lite numpy/matlib
    numpy/polynomial numpy/random/lib numpy/testing
"""
OLD = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive
UNCHECKED = (1).to_bytes(4, "little")  # bytecode that no source is compared with
IN_NODE = """
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { loadPyodide } from "./pyodide.mjs";
const python = await loadPyodide({ env: { PYTHONHASHSEED: "0" } }), made = readdirSync("made");
python.FS.mkdir("made");
for (const one of ["browser_python.py", ...made.map((name) => `made/${name}`)])
  python.FS.writeFile(one, readFileSync(one));
python.pyimport("browser_python").compile_in("made");
for (const name of made) writeFileSync(`made/${name}`, python.FS.readFile(`made/${name}`));
"""

Files = Iterable[tuple[str, bytes]]


def archives(pyodide: dict[str, bytes], numpy: bytes, *, compiles: bool) -> dict[str, bytes]:
    """Return the zip files that a browser unpacks, by their names."""
    program = (*_without(_unzipped(numpy), NOT_OF_NUMPY), *_ours())
    made = {
        STDLIB: _zipped(_without(_unzipped(pyodide[STDLIB]), NOT_OF_STDLIB)),
        "program.zip": _zipped(program),
    }
    return _compiled_in_node(pyodide, made) if compiles else made


def numpys_licence(wheel: bytes) -> bytes:
    """Return the licences in the wheel of numpy."""
    named = (data for name, data in _unzipped(wheel) if "LICENSE" in name.rpartition("/")[2])
    return b"\n\n".join(named)


def _ours() -> Files:
    """Yield our packages, the kernel and the examples."""
    paths = [ROOT / "app/__init__.py", *(path for one in OURS for path in (ROOT / one).rglob("*"))]
    for path in sorted(paths):
        place = path.relative_to(ROOT).as_posix()
        if path.suffix in {".py", ".wasm"} or place.startswith("app/examples/"):
            yield place, path.read_bytes()
    try:
        number = version("symbolic-musicgen")
        told = f"Metadata-Version: 2.1\nName: symbolic-musicgen\nVersion: {number}\n"
        yield f"symbolic_musicgen-{number}.dist-info/METADATA", told.encode()
    except PackageNotFoundError:
        pass  # files that are made here say "musicgen from source", as at home


def _without(files: Files, left_out: str) -> Files:
    """Yield the files of a library that the page needs."""
    begins = tuple(f"{name}{end}" for name in left_out.split() for end in (".", "/"))
    for name, data in files:
        needless = name.endswith((".pyi", ".pxd", ".h", ".a", "RECORD")) or "/tests/" in name
        if not needless and not name.startswith(begins):
            yield name, data


def _unzipped(archive: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        yield from ((name, opened.read(name)) for name in opened.namelist() if name[-1] != "/")


def _zipped(files: Files) -> bytes:
    """Return files as a zip file, which is compressed as a whole later."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files:
            archive.writestr(zipfile.ZipInfo(name, OLD), data)
    return packed.getvalue()


def compile_in(folder: str) -> None:
    """Replace the sources in zip files by bytecode of this Python; that of the standard library has no docstrings."""
    for path in sorted(Path(folder).iterdir()):
        level = 2 if path.name == STDLIB else 0
        path.write_bytes(_zipped(_compiled(_unzipped(path.read_bytes()), level)))


def _compiled(files: Files, level: int) -> Files:
    for name, data in files:
        if not name.endswith(".py"):
            yield name, data
            continue
        level_here = 0 if "pyodide" in name else level  # which reads its docstrings
        code = marshal.dumps(compile(data, name, "exec", dont_inherit=True, optimize=level_here))
        yield f"{name}c", MAGIC_NUMBER + UNCHECKED + source_hash(data) + code


def _compiled_in_node(pyodide: dict[str, bytes], made: dict[str, bytes]) -> dict[str, bytes]:
    """Return zip files with bytecode in place of the sources, compiled by Pyodide in node."""
    with TemporaryDirectory() as name:
        folder, script = Path(name), Path(__file__)
        (folder / "made").mkdir()
        own = {script.name: script.read_bytes(), "compile.mjs": IN_NODE.encode()}
        given = {f"made/{file}": data for file, data in made.items()}
        for file, data in {**pyodide, **own, **given}.items():
            (folder / file).write_bytes(data)
        command = ["node", "compile.mjs"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ValueError(f"Pyodide failed in node: {ran.stderr.strip()[-400:]}")
        return {file: (folder / "made" / file).read_bytes() for file in made}
