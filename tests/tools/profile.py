"""Show where the test run spends its time: python -m tests.tools.profile [PYTEST ARGUMENT …].

Runs pytest with this module as a plugin and prints seconds by kind of test, by file, by fixture and by test. A kind is
what a test waits for: a browser, a child process, a training, or nothing but its own computation.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RECORDS = "MUSICGEN_TEST_PROFILE"  # the environment variable that names the file of records
ROWS = 25


class Recorder:
    """Writes a line for each test and each fixture of a worker process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.children = 0
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", "os.fork", "os.posix_spawn"):
            self.children += 1

    def _write(self, **record: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Record how long a fixture takes to set up, without the fixtures that it uses."""
        before = time.perf_counter()
        result = yield
        self._write(fixture=fixturedef.argname, seconds=time.perf_counter() - before)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record how long a test takes with its fixtures, and what it waits for."""
        children, before = self.children, time.perf_counter()
        result = yield
        if "browser" in getattr(item, "fixturenames", ()):
            kind = "browser"
        elif self.children > children:
            kind = "child process"
        elif item.nodeid.startswith("tests/training"):
            kind = "training"
        else:
            kind = "computation"
        self._write(test=item.nodeid, kind=kind, seconds=time.perf_counter() - before)
        return result


def pytest_configure(config: pytest.Config) -> None:
    """Record in each process that runs tests."""
    config.pluginmanager.register(Recorder(Path(os.environ[RECORDS])))


def table(title: str, rows: dict[str, list[float]]) -> None:
    """Print the rows that take longest."""
    total = sum(sum(seconds) for seconds in rows.values())
    print(f"\n{title:<60} {'n':>6} {'seconds':>8} {'share':>6}")
    for name, seconds in sorted(rows.items(), key=lambda row: -sum(row[1]))[:ROWS]:
        spent = sum(seconds)
        print(f"{name[-60:]:<60} {len(seconds):>6} {spent:>8.1f} {spent / (total or 1):>6.1%}")


def main(arguments: list[str]) -> int:
    """Run the tests and print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.touch()
        before = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-p", "tests.tools.profile", *arguments]
        code = subprocess.run(
            command, env={**os.environ, RECORDS: str(path)}, check=False
        ).returncode
        wall = time.perf_counter() - before
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kinds, files, fixtures, tests = (defaultdict[str, list[float]](list) for _ in range(4))
    for record in records:
        if "fixture" in record:
            fixtures[record["fixture"]].append(record["seconds"])
            continue
        kinds[record["kind"]].append(record["seconds"])
        files[record["test"].partition("::")[0]].append(record["seconds"])
        tests[record["test"]].append(record["seconds"])
    for title, rows in (("kind", kinds), ("file", files), ("fixture", fixtures), ("test", tests)):
        table(title, rows)
    print(f"\n{wall:.0f} s from start to end, {os.cpu_count()} cores")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
