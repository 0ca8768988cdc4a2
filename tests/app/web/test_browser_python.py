"""Python as browsers load it: what is left out, and bytecode in place of the sources."""

import importlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app.web.browser_python import NOT_OF_NUMPY, STDLIB, archives, compile_in

SOURCE = b'"""Words."""\n\n\ndef double(number):\n    """More words."""\n    assert number\n    return 2 * number\n'


def zipped(*names: str) -> bytes:
    """Return a zip file of modules."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, SOURCE)
    return data.getvalue()


def names(archive: bytes) -> set[str]:
    return {*zipfile.ZipFile(io.BytesIO(archive)).namelist()}


def test_what_no_page_uses_is_left_out():
    stdlib = zipped("json/__init__.py", "http/server.py", "pdb.py", "pdbs.py", "xml/dom/expat.py")
    parts = ("fft/__init__.py", "fft/tests/a.py", "__init__.pyi", "f2py/core.py")
    numpy = zipped(*(f"numpy/{name}" for name in parts))
    made = archives({STDLIB: stdlib}, numpy, compiles=False)
    assert names(made[STDLIB]) == {"json/__init__.py", "pdbs.py"}
    program = names(made["program.zip"])
    assert {name for name in program if name.startswith("numpy")} == {"numpy/fft/__init__.py"}
    assert {"app/web/tab.py", "musicgen/kernel/kernel.wasm", "app/examples/README.md"} <= program


@pytest.mark.parametrize(("file", "documented"), [(STDLIB, False), ("program.zip", True)])
def test_bytecode_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, documented: bool
):
    (tmp_path / file).write_bytes(zipped("a_module_of_this_test.py"))
    compile_in(str(tmp_path))
    assert names((tmp_path / file).read_bytes()) == {"a_module_of_this_test.pyc"}
    monkeypatch.syspath_prepend(tmp_path / file)
    module = importlib.import_module("a_module_of_this_test")
    del sys.modules["a_module_of_this_test"]
    assert module.double(4) == 8
    assert bool(module.__doc__) is documented


WITHOUT = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refused())
import io
import numpy as np

assert np.isnan(np.median([1.0, np.nan]))  # which looks into numpy.ma
np.percentile(np.arange(9.0), [5, 95]), np.unique(np.eye(3), axis=0), np.histogram(np.arange(9))
np.savez_compressed(made := io.BytesIO(), a=np.arange(3))
made.seek(0)
print(np.load(made)["a"].sum(), np.random.default_rng(0).random() < 1, np.linalg.norm([3, 4]))
"""


def test_numpy_works_without_what_is_left_out():
    left_out = [name.replace("/", ".") for name in NOT_OF_NUMPY.split()]
    script = WITHOUT.replace("{names!r}", repr({*left_out}))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "3 True 5.0\n", done.stderr
