"""Measure the code base: files and lines per folder, import cycles, and the code that four requests enter.

A room is a folder of modules. A module in a folder with subfolders is a room of its own, because it may be the top of
a package (`musicgen/playable.py`) or its bottom. All imports count: at the top of a file, inside functions, and for
types only. Each walk runs in a process of its own, so that only files are cached: `--walk NAME` prints its files.
"""

import ast
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType, SimpleNamespace
from typing import Any

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
    return _names(ast.walk(ast.parse(path.read_text(encoding="utf-8"))), path)


def imported_at_once(path: Path) -> set[str]:
    """Return the full names that a file imports when it is itself imported: not in functions, nor for types only."""
    return _names(_run_at_import(ast.parse(path.read_text(encoding="utf-8"))), path)


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_at_import(child)


def _names(nodes: Iterable[ast.AST], path: Path) -> set[str]:
    """Return the full names in the import statements among the nodes of a file."""
    names = set()
    for node in nodes:
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


Request = Callable[[], object]  # ready to run


def walk(prepare: Callable[[], Request]) -> Counter[str]:
    """Return how many of the product's functions in each file a request enters, in all threads.

    Code that runs at import does not count.
    """
    entered: set[tuple[str, str, int]] = set()  # file, function, line
    importing, recording = threading.local(), threading.Event()

    def record(frame: FrameType, event: str, _: object) -> None:
        code, depth = frame.f_code, getattr(importing, "depth", 0)
        if code.co_name == "<module>":
            importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
        elif recording.is_set() and event == "call" and not depth:
            entered.add((code.co_filename, code.co_name, code.co_firstlineno))

    threading.setprofile(record)
    sys.setprofile(record)
    run = prepare()
    recording.set()
    run()
    sys.setprofile(None)
    return Counter(file for file, _, _ in entered if file.startswith(FOLDERS))


def continue_a_bar(folder: Path) -> Request:
    """Continue four bars of a groove by one, with the default model."""
    return _command(
        "continue", ROOT / "tests" / "seeds" / "groove_short.mid", "--bars", 1, "-o", folder
    )


def train_three_steps(folder: Path) -> Request:
    """Train a toy model for three steps with one validation and one checkpoint."""
    from tests.training.makers import prepared_set, toy_file

    data = prepared_set(folder / "set", "remi")
    return _command(
        "train", toy_file(folder, data, optimiser={"steps": 3}, validation={"every": 3})
    )


def evaluate_form(folder: Path) -> Request:
    """Continue two small pieces by three bars and measure their form, in one process."""
    from tests.training.makers import prepared_set

    data = prepared_set(folder / "set", "ensemble", train=2)
    given = ("untrained:tiny:ensemble", "--data", data, "--prompt-bars", 1, "--bars", 3)
    return _command("evaluate", "form", *given, "--workers", 1)


def click_on_continue(folder: Path) -> Request:
    """Continue a groove by one bar as the page does, from the request's values to the last view of the take.

    gradio is left out. A thread replaces the composing process, and the server's process reads the file, so that their
    work is counted too.
    """
    from app.web import actions
    from app.web.composing import composer
    from app.web.composing.alone import read_here
    from app.web.composing.opened_files import FileReader
    from app.web.composing.requests import request_from
    from app.web.offered_models import OfferedModels

    class Composing(threading.Thread):
        def __init__(self, target: Any, args: Any, daemon: bool) -> None:
            pipe, share = args  # the caller closes the original
            args = (Connection(os.dup(pipe.fileno())), share)
            super().__init__(target=target, args=args, daemon=daemon)

    composer.CONTEXT = SimpleNamespace(Pipe=composer.CONTEXT.Pipe, Process=Composing)
    composer.end_with_parent = lambda: None
    made = composer.Composer()
    made.start()
    page = actions.PageActions(OfferedModels("ensemble"), made, FileReader(read_here))
    groove = (ROOT / "tests" / "seeds" / "groove_short.mid").read_bytes()
    sampling = {"temperature": 1, "top_p": 0.95, "top_k": 0, "min_p": 0.02, "seed": 3}
    values = {
        "model": "ensemble",
        "bars": 1,
        "variations": 1,
        "sampling": sampling,
        "promptBars": 2,
    }

    def click() -> None:
        for _ in page.write("", request_from(values), groove, "groove.mid", "job"):
            pass

    return click


WALKS = {
    "continue one bar": continue_a_bar,
    "train three steps": train_three_steps,
    "evaluate form": evaluate_form,
    "a click on Continue": click_on_continue,
}


def _command(*words: object) -> Request:
    def run() -> None:
        from app.cli import main as program

        assert program([str(word) for word in words]) == 0

    return run


def print_walk(name: str) -> None:
    """Print the files that a request enters, each with the number of its functions."""
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        entered = walk(lambda: WALKS[name](Path(folder)))
    for file, functions in sorted(entered.items()):
        print(f"{functions:5} {Path(file).relative_to(ROOT)}")
    sys.stdout.flush()
    os._exit(0)  # the composing thread is still waiting


def main() -> None:
    """Print files and lines by folder, import cycles, and the code that each request enters."""
    if sys.argv[1:2] == ["--walk"]:
        print_walk(sys.argv[2])
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
    for name in WALKS:
        command = [sys.executable, "-m", "tests.tools.house", "--walk", name]
        printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        functions = [int(line.split()[0]) for line in printed.stdout.splitlines()]
        print(f"{name:20} enters {len(functions):3} files and {sum(functions):4} functions")


if __name__ == "__main__":
    main()
