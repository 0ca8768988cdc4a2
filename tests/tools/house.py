"""The product in figures: files and lines a folder, circles of imports, and the files that one continued bar enters.

python -m tests.tools.house             all of it
python -m tests.tools.house --walk      the walk alone; with --list, also the files that it enters

A room is a folder of modules. A module beside folders is a room of its own, so that what stands on top of a package
(`musicgen/playable.py`) is not taken for what lies at its bottom. Imports count wherever they stand: at the top of a
file, inside a function, and for types alone. The walk is told by sys.setprofile, in all threads.
"""

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenization", "musicgen", "training", "evaluation", "app")
Arrows = dict[str, set[str]]


def sources(root: Path = ROOT) -> list[Path]:
    """Return all files of the product's code."""
    return sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))


def module_of(path: Path, root: Path = ROOT) -> str:
    """Return the dotted name under which a file is imported."""
    parts = path.relative_to(root).with_suffix("").parts
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
def module_arrows(root: Path = ROOT) -> Arrows:
    """Return which modules of the house each module imports."""
    modules = {module_of(path, root): path for path in sources(root)}
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


def room_of(name: str, root: Path = ROOT) -> str:
    """Return the room of a module: its folder, or the module itself where it stands beside folders."""
    path = root / name.replace(".", "/")
    if path.is_dir():
        return f"{name}.__init__" if _holds_folders(path) else name
    return name if _holds_folders(path.parent) else name.rpartition(".")[0]


def _holds_folders(folder: Path) -> bool:
    return any(path.parent != folder for path in folder.rglob("*.py"))


def room_arrows(root: Path = ROOT) -> Arrows:
    """Return which rooms each room imports from."""
    found: Arrows = {}
    for name, reached in module_arrows(root).items():
        own = room_of(name, root)
        found.setdefault(own, set()).update({room_of(other, root) for other in reached} - {own})
    return found


def circles(arrows: Arrows) -> list[list[str]]:
    """Return the sets of two or more that all reach one another."""
    reach = {}
    for start in arrows:
        seen, stack = set(), [start]
        while stack:
            for following in arrows.get(stack.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        reach[start] = seen
    found = {
        frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in arrows if a in reach[a]
    }
    return sorted(sorted(circle) for circle in found)


def sole_neighbours(arrows: Arrows) -> list[str]:
    """Return the modules that one other imports, which lies in the same folder."""
    users: Arrows = {}
    for own, reached in arrows.items():
        for other in reached:
            users.setdefault(other, set()).add(own)
    return sorted(
        name
        for name, by in users.items()
        if len(by) == 1 and {name.rpartition(".")[0]} == {user.rpartition(".")[0] for user in by}
    )


def walk() -> list[tuple[str, str]]:
    """Return the file and name of each function that `musicgen continue` enters for a bar.

    What runs while a module is imported is not counted, nor what numba has compiled.
    """
    entered: set[tuple[str, str, int]] = set()
    folders, importing = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES), Counter[int]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code, thread = frame.f_code, threading.get_ident()
        if code.co_name == "<module>":
            importing[thread] += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing[thread] and code.co_filename.startswith(folders):
            entered.add((code.co_filename, code.co_name, code.co_firstlineno))

    song = ROOT / "tests" / "seeds" / "groove_short.mid"
    with TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        threading.setprofile(note)
        sys.setprofile(note)
        from app.cli import main as program

        code = program(["continue", str(song), "--bars", "1", "-o", folder])
        sys.setprofile(None)
    assert code == 0
    return sorted((str(Path(file).relative_to(ROOT)), name) for file, name, _ in entered)


def print_walk(with_files: bool) -> None:
    """Print how many files and functions one continued bar enters, in a process of its own."""
    command = [sys.executable, "-m", "tests.tools.house", "--walked"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    functions = Counter(file for file, _ in json.loads(done.stdout))
    print(f"continue one bar: {len(functions)} files, {functions.total()} functions")
    for file, count in sorted(functions.items() if with_files else ()):
        print(f"  {file:56}{count:4}")


def main() -> None:
    """Print the figures of the tree given as an argument, or of this one; the walk is of this one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--walk", action="store_true", help="print the walk alone")
    parser.add_argument("--list", action="store_true", help="list the files that the walk enters")
    parser.add_argument("--walked", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.walked:
        print(json.dumps(walk()), flush=True)
        os._exit(0)  # a thread that composes still waits
    if not given.walk:
        print_figures(given.root.resolve())
    if given.root == ROOT:
        print_walk(given.list)


def print_figures(root: Path) -> None:
    """Print files and lines by folder, files with a single user beside them, and circles."""
    files, lines = Counter[str](), Counter[str]()
    for path in sources(root):
        folder = str(path.parent.relative_to(root))
        files[folder] += path.name != "__init__.py"
        lines[folder] += len(path.read_text(encoding="utf-8").splitlines())
    print(f"{'folder':36}{'files':>6}{'lines':>8}")
    for folder in sorted(files):
        print(f"{folder:36}{files[folder]:6}{lines[folder]:8}")
    print(f"{'together':36}{sum(files.values()):6}{sum(lines.values()):8}\n")
    modules = module_arrows(root)
    print(f"with one importer, in the same folder: {len(sole_neighbours(modules))} files")
    for kind, arrows in (("files", modules), ("rooms", room_arrows(root))):
        found = circles(arrows)
        print(f"circles of {kind}: {len(found)}")
        for circle in found:
            print("  " + " ".join(circle))


if __name__ == "__main__":
    main()
