import os
import pickle
import subprocess
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.training.data.sources.on_disk import events
from training.data.sources.restricted_pickle import MOST_BYTES, RestrictedPickleError, read_pickle


@pytest.fixture
def saved(tmp_path: Path):
    def save(content: object, protocol: int = 4) -> Path:
        path = tmp_path / "piece.pkl"
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol))
        return path

    return save


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_read_with_python_numbers(saved, protocol: int):
    numbers = [np.int64(-5), np.uint8(200), np.float32(2.5), np.bool_(True)]
    content = {
        "numbers": (1, -5, 2.5, True, None, 1 << 70),
        "texts": ["a", "ü", b"\xff"],
        "sets": {1, 2},
        "numpy": [*numbers, np.dtype(">i2").type(7)],
    }
    assert read_pickle(saved(content, protocol)) == content
    found = read_pickle(saved(events(), protocol))
    assert found == events()
    assert type(found[1][4]["value"]) is int


class Calls:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_no_import_of_a_pickle_is_run(saved, tmp_path: Path, protocol: int):
    marker = tmp_path / "ran"
    imports = [
        Calls(os.system, f"touch {marker}"),
        Calls(subprocess.Popen, ["touch", str(marker)]),
        Calls(eval, f"open('{marker}', 'w')"),
        Calls(np.load, str(marker)),
    ]
    written = b"c__builtin__\ngetattr\n(cos\nsystem\nS'x'\ntR."
    objects = (Counter("ab"), Fraction(1, 2), np.arange(3), Path("x"), object())
    message = r"piece\.pkl imports [\w.]+.*only containers, numbers and strings"
    for content in (*([one] for one in imports), written, *objects):
        path = saved(content, protocol)
        with pytest.raises(RestrictedPickleError, match=message):
            read_pickle(path)
        assert not marker.exists()


def test_numpy_data_other_than_numbers_are_refused(saved):
    with pytest.raises(RestrictedPickleError, match="type 'O8', not numbers"):
        read_pickle(saved(b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR."))


def test_truncated_or_altered_pickles_are_read_or_refused_cleanly(saved):
    whole = pickle.dumps(events())
    cut = [whole[:length] for length in range(0, len(whole), 7)]
    for data in (*cut, b"MThd\0\0\0\6", b"\x80\x04", b"\x80\xff.", b"(" * 99 + b"."):
        with pytest.raises(RestrictedPickleError, match=r"piece\.pkl is not a readable pickle"):
            read_pickle(saved(data))
    random = np.random.default_rng(0)
    for _ in range(300):
        mutant = bytearray(whole)
        mutant[random.integers(len(mutant))] = random.integers(256)
        try:
            read_pickle(saved(bytes(mutant)))
        except RestrictedPickleError:
            continue


def test_huge_file_is_not_read(tmp_path: Path):
    path = tmp_path / "huge.pkl"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(RestrictedPickleError, match="67 MB"):
        read_pickle(path)
