"""The compiled kernel is that of the source, and its structures are those that Python writes."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from musicgen import recall
from musicgen.eager import network_of
from musicgen.generation.sampling import DRAW
from musicgen.kernel.network import ITEM, STATE, KernelNetwork
from tests.musicgen.kernel.test_network import KNOWN
from tests.musicgen.toys import toy_model

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "musicgen" / "kernel"
FILES = ("kernel.c", "draw.h", "recall.h")
SOURCE = re.sub(r"//.*", "", "".join((FOLDER / name).read_text(encoding="utf-8") for name in FILES))
TYPES = {"i16": "<i2", "i32": "<i4", "u64": "<u8", "f32": "<f4", "f64": "<f8"}


@pytest.mark.skipif(find_spec("ziglang") is None, reason="clang, as ziglang, is not installed")
def test_the_compiled_kernel_is_that_of_the_source(tmp_path: Path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    flags = re.search(r"^WASM = (.*)$", makefile, re.M)
    recipe = re.search(r"-m ziglang cc \$\(WASM\) -o \S+ \S+ (\$\(KERNEL\)\.c)$", makefile, re.M)
    assert flags
    assert recipe
    made = tmp_path / "kernel.wasm"
    command = [sys.executable, "-m", "ziglang", "cc", *shlex.split(flags[1]), "-o", str(made)]
    subprocess.run([*command, "musicgen/kernel/kernel.c"], check=True, cwd=ROOT)
    assert made.read_bytes() == (FOLDER / "kernel.wasm").read_bytes(), "run `make kernel`"
    assert made.stat().st_size <= 30_000


def members(structure: str) -> list[tuple[str, str]]:
    """Return the names and types of a structure's members, in order; the type of addresses is "*"."""
    body = re.search(rf"struct {{([^}}]*)}} {structure};", SOURCE)
    assert body, structure
    found = []
    for declaration in body[1].split(";")[:-1]:
        type_, names = re.fullmatch(r"\s*(?:const )?(\w+)\s(.*)", declaration, re.S).groups()  # type: ignore[union-attr]
        for name in names.split(","):
            found.append((name.strip(" \n*"), "*" if "*" in name else type_))
    return found


def dtype_of(structure: str) -> np.dtype:
    types = {**TYPES, "*": "<u4", "Sequence": "<u4"}
    return np.dtype([(name, types[type_]) for name, type_ in members(structure)], align=True)


@pytest.mark.parametrize("changes", [{}, KNOWN["all"]], ids=["least", "all"])
def test_the_fields_of_a_packed_model_are_those_of_the_structure(changes: dict[str, Any]):
    network = network_of(toy_model(**changes))
    assert isinstance(network, KernelNetwork)
    wanted = []
    for name, type_ in members("model"):
        if type_ in ("Matrices", "Rows"):
            wanted += [(f"{name}_{inner}", type_) for inner, type_ in members(type_)]
        else:
            wanted.append((name, type_))
    assert [*network.fields] == [name for name, _ in wanted]
    floats = {name for name, value in network.fields.items() if isinstance(value, np.float32)}
    assert floats == {name for name, type_ in wanted if type_ == "f32"}
    assert {type_ for _, type_ in wanted} == {"i32", "f32", "*"}  # of one word each


def test_the_structures_of_python_are_those_of_c():
    assert dtype_of("Sequence") == STATE
    assert dtype_of("Draw") == DRAW
    assert dtype_of("Recall") == np.dtype([(name, kind) for name, kind in zip(
        recall._FIELDS, ["<u4"] * 7 + ["<i4"] * (len(recall._FIELDS) - 7), strict=True)])  # fmt: skip
    item = dtype_of("Item")
    guesses = ("planned", "planned_level", "matched", "matched_level")
    assert [name for name in item.names or () if name not in guesses] == [
        "sequence",
        "token",
        "strength",
    ]
    places = [item.fields[name][1] for name in ("sequence", "token", *guesses, "strength")]  # type: ignore[index]
    first = ITEM.fields["guesses"][1]  # type: ignore[index]
    assert places == [
        0,
        ITEM.fields["token"][1],
        *range(first, first + 8, 2),
        ITEM.fields["strength"][1],
    ]  # type: ignore[index]
    assert item.itemsize == ITEM.itemsize
