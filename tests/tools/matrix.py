"""The tests on machines that are not at hand, imitated: python -m tests.tools.matrix [ROW …].

A row is an environment, and the part of the suite that may depend on it. One that passed is not run again before a
file of the tree changes, so an interrupted command goes on where it was.

    capability-*, mkl-*, onednn-*, threads-*   other kernels: all that computes with torch
    torch-alone                                the same without the loops that numba compiles
    lang-c, home, path, columns                other surroundings: all that reads, writes, starts or prints something
    order                                      another order of tests (--seed): all of them
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "matrix"
# What computes: no reading of MIDI files, no browser, and not the README's commands, whose parts are among these.
NUMERIC = (
    "tests/musicgen", "tests/evaluation", "tests/training", "tests/app/commands/test_train.py",
    "tests/app/commands/test_compare.py", "tests/app/commands/test_generate.py",
    "tests/app/web/test_actions.py",
)  # fmt: skip
# What talks to the machine and to people: no products of matrices, no fuzzing.
OUTWARD = (
    "tests/app", "tests/training", "tests/tokenization/midi/test_reading.py",
    "tests/tokenization/midi/test_writing.py", "tests/training/data/sources/test_annotated_song.py",
    "tests/musicgen/common/workers/test_pool.py", "tests/evaluation/study/test_jobs.py",
    "tests/evaluation/report/test_html.py", "tests/evaluation/plots/test_style.py",
    "tests/evaluation/continuation/test_prompts.py", "tests/musicgen/storage/test_checkpoint.py",
    "tests/musicgen/model/test_config.py", "tests/test_house.py", "tests/test_readme_commands.py",
)  # fmt: skip
ALL = ("tests",)


@dataclass(frozen=True, kw_only=True)
class Row:
    """An environment, and what is run in it."""

    tests: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    moved: bool = False  # into a folder with a difficult name


# Threads wait asleep in threads-*: where more of them run than there are cores, those that wait awake keep the others
# from working, and four on two cores did not come to an end.
# Python would take UTF-8 for the C locale: that it may not is what older systems and other languages' Windows do.
LANG_C = {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
ROWS = {
    "plain": Row(tests=ALL),
    "capability-default": Row(tests=NUMERIC, environment={"ATEN_CPU_CAPABILITY": "default"}),
    "capability-avx2": Row(tests=NUMERIC, environment={"ATEN_CPU_CAPABILITY": "avx2"}),
    "mkl-compatible": Row(tests=NUMERIC, environment={"MKL_CBWR": "COMPATIBLE"}),
    "onednn-avx2": Row(tests=NUMERIC, environment={"ONEDNN_MAX_CPU_ISA": "AVX2"}),
    "onednn-sse41": Row(tests=NUMERIC, environment={"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    **{
        f"threads-{n}": Row(
            tests=NUMERIC,
            environment={"OMP_NUM_THREADS": n, "MKL_NUM_THREADS": n, "OMP_WAIT_POLICY": "PASSIVE"},
        )
        for n in "124"
    },
    "torch-alone": Row(tests=NUMERIC, environment={"MUSICGEN_COMPILED": "0"}),
    "lang-c": Row(tests=OUTWARD, environment=LANG_C),
    "home": Row(tests=OUTWARD, environment={"HOME": "/sys"}),  # where not even root can make a folder
    "path": Row(tests=OUTWARD, moved=True),
    "columns": Row(tests=OUTWARD, environment={"COLUMNS": "40"}),
    "order": Row(tests=ALL),
}  # fmt: skip
# What CI has some minutes for: the products that kernels change, and the tests that leave the most behind.
QUICK = {
    "capability-default": (
        "tests/musicgen/layers/test_linear.py", "tests/musicgen/generation/test_fast_steps.py",
        "tests/musicgen/attention/test_linear_attention.py", "tests/musicgen/generation/test_generate.py",
        "tests/musicgen/model/test_performer.py", "tests/musicgen/metre/test_heads.py",
    ),
    "order": ("tests/training", "tests/evaluation/study"),
}  # fmt: skip
DIFFICULT = "a path with spaces, ümläuts & 'quotes'"
# At the top alone: there are packages called `data` further down.
LEFT_BEHIND = {".git", ".venv", "build", "runs", "data", "output", ".pytest_cache"}


def fingerprint() -> str:
    """Return a digest of all files that the tests read."""
    digest = hashlib.sha256()
    names = ("musicgen", "tokenization", "training", "evaluation", "app", "tests")
    paths = [path for name in names for path in sorted((ROOT / name).rglob("*")) if path.is_file()]
    for path in [*paths, ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml"]:
        if path.suffix != ".pyc":
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def left_behind(folder: str, names: list[str]) -> set[str]:
    """Return what is not copied of a folder."""
    return {"__pycache__", *(LEFT_BEHIND if Path(folder) == ROOT else ())} & {*names}


def run(name: str, tests: tuple[str, ...], seed: int, folder: Path) -> dict[str, object]:
    """Run a row; return how many tests passed and failed, the names of those that failed, and the seconds."""
    row, root = ROWS[name], ROOT
    environment = {**os.environ, **row.environment, "PYTHONHASHSEED": str(seed)}
    if row.moved:
        root = folder / DIFFICULT / "musicgen"
        shutil.copytree(ROOT, root, ignore=left_behind)
        (folder / DIFFICULT / "tmp").mkdir()
        environment |= {"TMPDIR": str(folder / DIFFICULT / "tmp"), "PYTHONPATH": str(root)}
    if name == "home":
        environment = {k: v for k, v in environment.items() if not k.startswith("XDG_")}
    if name == "order":
        environment["TESTS_SHUFFLED"] = str(seed)
    log = KEPT / f"{name}.log"
    command = [
        sys.executable,
        "-m",
        "pytest",
        *tests,
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "-rfE",
    ]
    began = time.monotonic()
    with log.open("w") as said:
        code = subprocess.run(
            command, cwd=root, env=environment, stdout=said, stderr=said, check=False
        ).returncode
    text = log.read_text(errors="replace")
    counts = {
        word: int(n)
        for n, word in re.findall(
            r"(\d+) (passed|failed|errors?|skipped)\b", (text.splitlines() or [""])[-1]
        )
    }
    return {
        "passed": counts.get("passed", 0),
        "failed": sum(counts.get(word, 0) for word in ("failed", "error", "errors")) or int(code != 0),
        "names": re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.M),
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip


def line(name: str, result: dict[str, object]) -> str:
    """Return a row's line."""
    return f"{name:<20}{result['passed']:>8}{result['failed']:>8}{result['seconds']:>9}"


def main() -> int:
    """Run rows, print a line a row, and the tests that failed below; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tools.matrix", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"default: all of {', '.join(ROWS)}")
    parser.add_argument(
        "--quick", action="store_true", help=f"parts of {' and '.join(QUICK)}: some minutes"
    )
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="run these in each row instead")
    parser.add_argument("--seed", type=int, default=1, help="of the order of tests (default: 1)")
    given = parser.parse_args()
    if unknown := [name for name in given.rows if name not in ROWS]:
        parser.error(f"there is no row {unknown[0]}; there are {', '.join(ROWS)}")
    KEPT.mkdir(parents=True, exist_ok=True)
    tree, failed = fingerprint(), {}
    print(f"{'row':<20}{'passed':>8}{'failed':>8}{'seconds':>9}", flush=True)
    for name in given.rows or (QUICK if given.quick else ROWS):
        tests = tuple(given.tests or (QUICK[name] if given.quick else ROWS[name].tests))
        kept = KEPT / f"{name}.json"
        asked = {"tree": tree, "tests": list(tests), "seed": given.seed}
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("asked") == asked and not known["result"]["failed"]:
            print(f"{line(name, known['result'])}  before", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = run(name, tests, given.seed, Path(folder))
        kept.write_text(json.dumps({"asked": asked, "result": result}))
        print(line(name, result), flush=True)
        if result["failed"]:
            failed[name] = result["names"]
    for name, names in failed.items():
        print(f"\n{name} ({KEPT.relative_to(ROOT) / name}.log):", *names, sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
