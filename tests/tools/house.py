"""The product in figures: files and lines a folder, circles of imports, and the files that a command enters.

python -m tests.tools.house                          all of it, for one continued bar
python -m tests.tools.house --walk train mine.yaml    the files that this command enters

A room is a folder of modules. A module beside folders is a room of its own, so that what stands on top of a package
(`musicgen/playable.py`) is not taken for what lies at its bottom. Imports count wherever they stand: at the top of a
file, inside a function, and for types alone.
"""

import argparse
import ast
import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import networkx  # torch's

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenization", "musicgen", "training", "evaluation", "app")
Arrows = dict[str, set[str]]


def sources() -> list[Path]:
    """Return all files of the product's code."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """Return the dotted name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path: Path) -> set[str]:
    """Return the full names of all that a file imports, also inside functions; of `from a import b`, both a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            assert all(alias.name != "*" for alias in node.names), f"{path} imports a star"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@cache
def module_arrows() -> Arrows:
    """Return which modules of the house each module imports."""
    modules = {module_of(path): path for path in sources()}
    found = {}
    for name, path in modules.items():
        reached = imported(path) & set(modules)
        # `from a import b` of a module b is an arrow to b, not to the package a.
        inner = {full.rpartition(".")[0] for full in reached}
        plain = {full for full in reached if full not in inner or not _is_package(modules[full])}
        found[name] = plain - {name}
    return found


def _is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def room_of(name: str) -> str:
    """Return the room of a module: its folder, or the module itself where it stands beside folders."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir():
        return f"{name}.__init__" if _holds_folders(path) else name
    return name if _holds_folders(path.parent) else name.rpartition(".")[0]


def _holds_folders(folder: Path) -> bool:
    return any(path.parent != folder for path in folder.rglob("*.py"))


def room_arrows() -> Arrows:
    """Return which rooms each room imports from."""
    found: Arrows = {}
    for name, reached in module_arrows().items():
        own = room_of(name)
        found.setdefault(own, set()).update({room_of(other) for other in reached} - {own})
    return found


def circles(arrows: Arrows) -> list[list[str]]:
    """Return the sets of two or more that all reach one another."""
    found = networkx.strongly_connected_components(networkx.DiGraph(arrows))
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def walked(words: Sequence[str]) -> Counter[str]:
    """Run a command of the program; return how many functions of each file it enters, in all threads.

    What runs while a module is imported is not counted, nor what numba has compiled.
    """
    from app.cli import main as program

    entered: set[CodeType] = set()
    importing = threading.local()
    folders = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)

    def note(frame: FrameType, event: str, argument: object) -> None:
        code, depth = frame.f_code, getattr(importing, "depth", 0)
        if code.co_name == "<module>":
            importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and depth == 0 and code.co_filename.startswith(folders):
            entered.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        assert program(words) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return Counter(os.path.relpath(code.co_filename, ROOT) for code in entered)


def print_walk(words: Sequence[str]) -> None:
    """Print which files a command enters, without options that of continuing a groove by one bar."""
    with TemporaryDirectory() as folder:
        groove = str(ROOT / "tests" / "seeds" / "groove_short.mid")
        functions = walked(words or ["continue", groove, "--bars", "1", "-o", folder])
    for file, count in sorted(functions.items()):
        print(f"{file:56}{count:4}")
    print(f"{len(functions)} files, {functions.total()} functions")


def print_figures() -> None:
    """Print files and lines by folder, and circles."""
    files, lines = Counter[str](), Counter[str]()
    for path in sources():
        folder = str(path.parent.relative_to(ROOT))
        files[folder] += path.name != "__init__.py"
        lines[folder] += len(path.read_text(encoding="utf-8").splitlines())
    print(f"{'folder':36}{'files':>6}{'lines':>8}")
    for folder in sorted(files):
        print(f"{folder:36}{files[folder]:6}{lines[folder]:8}")
    print(f"{'together':36}{sum(files.values()):6}{sum(lines.values()):8}\n")
    for kind, arrows in (("files", module_arrows()), ("rooms", room_arrows())):
        print(f"circles of {kind}: {circles(arrows)}")


def main() -> None:
    """Print the figures of the tree, or a walk."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--walk", nargs=argparse.REMAINDER, metavar="WORD", help="print a walk")
    words = parser.parse_args().walk
    if words is None:
        print_figures()
    print_walk(words or [])


if __name__ == "__main__":
    main()
