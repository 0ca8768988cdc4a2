"""Measure the code base: files and lines per folder, import cycles, and the code that a continued bar enters.

A room is a folder of modules. A module in a folder with subfolders is a room of its own, because it may be the top of
a package (`musicgen/playable.py`) or its bottom. All imports count: at the top of a file, inside functions, and for
types only.
"""

import ast
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import networkx  # torch's

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenization", "musicgen", "training", "evaluation", "app")
FOLDERS = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)
Arrows = dict[str, set[str]]


def sources() -> list[Path]:
    """Return the product's source files."""
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path: Path) -> set[str]:
    """Return the full names that a file imports anywhere; for `from a import b`, both a and a.b."""
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
    """Return the product's modules that each module imports."""
    modules = {module_of(path): path for path in sources()}
    found = {}
    for name, path in modules.items():
        reached = imported(path) & set(modules)
        # `from a import b` of a module b is an import of b, not of the package a.
        inner = {full.rpartition(".")[0] for full in reached}
        plain = {full for full in reached if full not in inner or not _is_package(modules[full])}
        found[name] = plain - {name}
    return found


def _is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def room_of(name: str) -> str:
    """Return the room of a module: its folder, or the module itself if its folder has subfolders."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir():
        return f"{name}.__init__" if _holds_folders(path) else name
    return name if _holds_folders(path.parent) else name.rpartition(".")[0]


def _holds_folders(folder: Path) -> bool:
    return any(path.parent != folder for path in folder.rglob("*.py"))


def room_arrows() -> Arrows:
    """Return the rooms that each room imports from."""
    found: Arrows = {}
    for name, reached in module_arrows().items():
        own = room_of(name)
        found.setdefault(own, set()).update({room_of(other) for other in reached} - {own})
    return found


def circles(arrows: Arrows) -> list[list[str]]:
    """Return the cycles: the sets of two or more nodes that all reach one another."""
    found = networkx.strongly_connected_components(networkx.DiGraph(arrows))
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def walk(run: Callable[[], object]) -> Counter[str]:
    """Return how many of the product's functions in each file a call enters, in all threads.

    Code that runs at import and code that numba compiles do not count.
    """
    entered: set[tuple[str, str, int]] = set()  # file, function, line
    importing = threading.local()

    def record(frame: FrameType, event: str, _: object) -> None:
        code, depth = frame.f_code, getattr(importing, "depth", 0)
        if code.co_name == "<module>":
            importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not depth and code.co_filename.startswith(FOLDERS):
            entered.add((code.co_filename, code.co_name, code.co_firstlineno))

    threading.setprofile(record)
    sys.setprofile(record)
    run()
    sys.setprofile(None)
    return Counter(file for file, _, _ in entered)


def continue_a_bar() -> None:
    """Continue four bars of a groove by one, with the default model."""
    from app.cli import main as musicgen

    song = str(ROOT / "tests" / "seeds" / "groove_short.mid")
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert musicgen(["continue", song, "--bars", "1", "-o", folder]) == 0


def main() -> None:
    """Print files and lines by folder, import cycles, and the code that a continued bar enters."""
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
        print(f"import cycles of {kind}: {circles(arrows)}")
    entered = walk(continue_a_bar)
    print(f"a continued bar enters {len(entered)} files and {entered.total()} functions")


if __name__ == "__main__":
    main()
