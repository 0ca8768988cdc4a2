"""The files of the product, what they import, and circles among them.

A room is a folder of modules. A module beside folders is a room of its own, so that what stands on top of a package
(`musicgen/playable.py`) is not taken for what lies at its bottom. Imports count wherever they stand: at the top of a
file, inside a function, and for types alone.
"""

import ast
from functools import cache
from pathlib import Path

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
