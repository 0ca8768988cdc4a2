"""The rules of the code base: imports go downwards, files are short and documented, CONTRIBUTING.md shows the tree."""

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.tools.house import (
    ROOT,
    circles,
    imported,
    imported_at_once,
    module_arrows,
    module_of,
    room_arrows,
    sources,
)

# The packages, ours and torch, that each package may import.
FLOORS = {
    "tokenization": set(),
    "musicgen": {"tokenization", "torch"},  # tokenization only at its top, see below
    "training": {"tokenization", "musicgen", "torch"},
    "evaluation": {"tokenization", "musicgen", "torch"},
    "app": {"tokenization", "musicgen", "training", "evaluation", "torch"},
}
# The layers of `musicgen` from the bottom up: each imports only from those before it.
MUSICGEN_FLOORS = (
    "common", "parts", "config", "checkpoint", "kernel", "recall", "linear", "attention", "features", "position",
    "metre", "guesses", "performer", "weights", "generation", "eager", "pieces", "critic", "continuation", "completion",
    "playable",
)  # fmt: skip
# The modules of `musicgen` that learn, with torch. The others play, without it.
LEARN = {
    "musicgen.performer", "musicgen.attention", "musicgen.features", "musicgen.metre", "musicgen.position",
    "musicgen.linear", "musicgen.fused", "musicgen.guesses", "musicgen.weights", "musicgen.eager",
    "musicgen.common.learning",
}  # fmt: skip
# Modules of the lowest layer that are not about music, for all to use.
WITHOUT_MUSIC = {
    "tokenization.analysis.notated", "tokenization.grammar", "tokenization.processes", "tokenization.records",
    "tokenization.whole_file",
}  # fmt: skip
MOST_LINES = 500  # of a file
SOURCES = sources()
TOOLS = [path for path in (ROOT / "tests/tools").rglob("*.py") if "test_" not in path.name]


def test_imports_go_down_only():
    """`tokenization` does not import torch."""
    offenders = []
    for path in SOURCES:
        own = path.relative_to(ROOT).parts[0]
        packages = {name.split(".")[0] for name in imported(path)} & {*FLOORS, "tests", "torch"}
        if not packages <= FLOORS[own] | {own}:
            offenders.append((_named(path), packages))
    assert offenders == []


def test_imports_go_down_inside_musicgen():
    height = {f"musicgen.{name}": level for level, name in enumerate(MUSICGEN_FLOORS)}
    found = {
        (own, other)
        for own, reached in module_arrows().items()
        for other in reached
        if (floor := height.get(_floor(own))) is not None and height.get(_floor(other), 99) > floor
        if other.startswith("musicgen.")
    }
    assert not found
    knowing = {own for own, reached in module_arrows().items() if own.startswith("musicgen.")
               for other in reached - WITHOUT_MUSIC if other.startswith("tokenization.")}  # fmt: skip
    knows_music = {*MUSICGEN_FLOORS[MUSICGEN_FLOORS.index("pieces") :]}
    assert {_floor(name).rpartition(".")[2] for name in knowing} <= knows_music
    assert not any(module_arrows()[name] for name in WITHOUT_MUSIC)


def test_what_plays_does_not_import_what_learns():
    """Functions may import it when they run."""
    found = {
        (own, other)
        for path in SOURCES
        if (own := module_of(path)).split(".")[0] in {"tokenization", "musicgen", "app"}
        if not _within(own, LEARN)
        for other in imported_at_once(path)
        if _within(other, LEARN | {"torch"})
    }
    assert not found


@pytest.mark.parametrize(
    "program",
    [
        "import musicgen; musicgen.find('ensemble')",
        "from app import cli; assert not cli.main(['continue', PIECE, '--bars', '1', '-o', OUT])",
        "from app import cli; assert not cli.main(['tokenize', PIECE])",
        "import app.web.launch, app.web.composing.composer",
    ],
    ids=lambda program: program[:40],
)
def test_what_plays_does_not_load_what_learns(program: str, tmp_path: Path):
    given = f"PIECE, OUT = 'app/examples/trio-jazz.mid', {str(tmp_path)!r}\n"
    learns = "\nassert not {'torch', 'numba'} & sys.modules.keys()"
    command = [sys.executable, "-c", f"import sys; {given}{program}{learns}"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    assert ("'-o'" in program) == bool([*tmp_path.rglob("*.mid")])


def _within(name: str, modules: set[str]) -> bool:
    """Return whether a name is one of these modules, or in one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _floor(name: str) -> str:
    return ".".join(name.split(".")[:2])


def test_no_import_goes_in_a_circle():
    assert circles(module_arrows()) == []
    assert circles(room_arrows()) == []


def test_files_are_documented_and_at_most_500_lines():
    offenders = []
    for path in [*SOURCES, *TOOLS]:
        source = path.read_text(encoding="utf-8")
        lines = len(source.splitlines())
        if lines > MOST_LINES or not ast.get_docstring(ast.parse(source)):
            offenders.append(f"{_named(path)}: {lines} lines, or no docstring")
    assert offenders == []


def test_the_tree_of_the_guide_is_the_tree_on_disk():
    """It lists each folder, and each file in a folder with subfolders."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"```\n(tokenization/.*?)```", text, re.S)
    assert block, "CONTRIBUTING.md draws the tree in a code block that starts with tokenization/"
    named, package = set(), ""
    for line in block[1].splitlines():
        if top := re.match(r"(\w+/)", line):
            package = top[1]
        names = re.match(r" +((?:[\w/]+(?:/|\.py) *)+)", line)
        named |= {package + name for name in names[1].split()} if names else set()
    ours = set()
    for path in SOURCES:
        parts = path.relative_to(ROOT).parts
        if path.name != "__init__.py":
            ours.add("/".join(parts) if len(parts) == 2 else f"{parts[0]}/{parts[1]}/")
    assert named == ours


def test_nothing_unpickles_but_the_restricted_reader():
    for path in SOURCES:
        if path.name == "restricted_pickle.py":
            continue
        source = path.read_text(encoding="utf-8")
        assert not re.search(
            r"\bimport pickle|pickle\.loads?\(|(?<!safetensors\.)torch\.load\(|allow_pickle=True",
            source,
        ), path


def test_dependencies_are_those_that_are_used():
    """Each dependency is imported, and every import belongs to a dependency."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared: dict[str, set[str]] = {}
    for group in ("dependencies", "app", "train"):
        block = re.search(rf"^{group} = \[\n(.*?)^\]", text, re.S | re.M)
        assert block
        lines = [
            re.fullmatch(r' +"([\w-]+)[^"]*", +# \S.+', line) for line in block[1].splitlines()
        ]
        assert all(lines), "each line has a comment with its purpose"
        declared[group] = {canonicalize_name(line[1]) for line in lines if line}
    everything = set[str]().union(*declared.values())
    assert len(everything) == sum(map(len, declared.values())), "each is in one group"
    providers = packages_distributions()
    used = {package: _distributions(package, providers) for package in FLOORS}
    with_gradio, optional = (
        {"fastapi"},
        {"distributed", "pytorch-fast-transformers", "muspy", "triton"},
    )
    within = {"python-multipart"}  # used by starlette
    together = set[str]().union(*used.values())
    assert together - everything - optional == with_gradio
    assert everything - together == within
    for_intervals = {"scipy"}  # of what training and evaluation measure
    assert used["tokenization"] <= declared["dependencies"] | optional | for_intervals
    assert not used["musicgen"] & (declared["app"] | with_gradio)
    assert not (used["training"] | used["evaluation"]) & (declared["app"] | with_gradio)


def _distributions(package: str, providers: Mapping[str, list[str]]) -> set[str]:
    """Return the names of the distributions that one of our packages imports."""
    paths = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == package]
    tops = {name.split(".")[0] for path in paths for name in imported(path)}
    foreign = tops - set(FLOORS) - sys.stdlib_module_names
    return {canonicalize_name(providers[name][0]) for name in foreign if name in providers}
