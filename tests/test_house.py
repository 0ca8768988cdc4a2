"""The house stands as drawn: imports go down only, files stay small, and the README's tree is the tree on disk."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
# Each package and those it may import.
FLOORS = {
    "tokenization": set(),
    "musicgen": set(),
    "training": {"tokenization", "musicgen"},
    "evaluation": {"tokenization", "musicgen"},
    "app": {"tokenization", "musicgen", "training", "evaluation"},
}
SOURCES = sorted(path for package in FLOORS for path in (ROOT / package).rglob("*.py"))
TORCH_FREE = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == "tokenization"]


def imported(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            assert all(alias.name != "*" for alias in node.names), f"{path} imports a star"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path: Path):
    own = path.relative_to(ROOT).parts[0]
    reached = {name.split(".")[0] for name in imported(path)} & set(FLOORS)
    assert reached <= FLOORS[own] | {own}
    assert "tests" not in {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", TORCH_FREE, ids=lambda path: str(path.relative_to(ROOT)))
def test_tokenization_knows_no_torch(path: Path):
    assert "torch" not in {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_holds_one_idea(path: Path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 300, "past 300 lines: name the second idea, give it a room"
    assert ast.get_docstring(ast.parse(source)), "the docstring says which idea the file holds"


def test_the_tree_of_the_readme_is_the_tree_on_disk():
    block = re.search(
        r"```\n(tokenization/.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert block, "the README draws the tree in a code block that starts with tokenization/"
    named, folder = set(), ""
    for line in block[1].splitlines():
        if entry := re.match(r"([\w/]+/)", line):
            folder = entry[1]
        named |= {folder + name for name in re.findall(r"[\w/]+\.py\b", line)}
    ours = {str(p.relative_to(ROOT)) for p in SOURCES if p.name != "__init__.py"}
    assert named == ours


def test_nothing_unpickles_but_the_restricted_reader():
    for path in SOURCES:
        if path.name == "restricted_pickle.py":
            continue
        source = path.read_text(encoding="utf-8")
        assert not re.search(
            r"\bimport pickle|pickle\.loads?\(|torch\.load\(|allow_pickle=True", source
        ), path


def test_dependencies_are_those_that_are_used():
    """Each is imported, or kept for what its package holds; nothing is imported that comes with none of them."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.S | re.M)
    assert block
    lines = [re.fullmatch(r' +"([\w-]+)[^"]*", +# \S.+', line) for line in block[1].splitlines()]
    assert all(lines), "each line says why it is there"
    declared = {canonicalize_name(line[1]) for line in lines if line}
    tops = {name.split(".")[0] for path in SOURCES for name in imported(path)}
    foreign = tops - set(FLOORS) - sys.stdlib_module_names
    providers = packages_distributions()
    used = {canonicalize_name(providers[name][0]) for name in foreign if name in providers}
    with_gradio = {"anyio", "fastapi", "httpx", "orjson", "starlette", "uvicorn"}
    optional = {"pytorch-fast-transformers"}
    assert used - declared - optional == with_gradio
    assert declared - used <= {"pretty-midi", "muspy"}  # a soundfont; a yardstick of the tests
