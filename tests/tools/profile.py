"""Show where the test run spends its time: python -m tests.tools.profile [PYTEST ARGUMENT …].

Runs pytest and prints seconds by what is done (fixtures are set up and taken down, tests are called), by folder, by
file and by test.
"""

import os
import sys
import time
from collections import defaultdict

import pytest

ROWS = 25


class Recorder:
    """Adds up how long the tests of all processes take."""

    def __init__(self) -> None:
        names = ("phase", "folder", "file", "test")
        self.tables: dict[str, defaultdict[str, list[float]]] = {
            n: defaultdict(list) for n in names
        }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take down how long a part of a test took."""
        file = report.nodeid.partition("::")[0]
        keys = (str(report.when), os.path.dirname(file), file, report.nodeid)
        for rows, key in zip(self.tables.values(), keys, strict=True):
            rows[key].append(report.duration)

    def print(self) -> None:
        """Print of each table the rows that take longest."""
        for title, rows in self.tables.items():
            total = sum(map(sum, rows.values()))
            print(f"\n{title:<60} {'n':>6} {'seconds':>8} {'share':>6}")
            for name, seconds in sorted(rows.items(), key=lambda row: -sum(row[1]))[:ROWS]:
                spent = sum(seconds)
                share = spent / (total or 1)
                print(f"{name[-60:]:<60} {len(seconds):>6} {spent:>8.1f} {share:>6.1%}")


def main(arguments: list[str]) -> int:
    """Run the tests and print the tables."""
    recorder, before = Recorder(), time.perf_counter()
    code = pytest.main(arguments, plugins=[recorder])
    recorder.print()
    seconds = time.perf_counter() - before
    print(f"\n{seconds:.0f} s from start to end, {os.cpu_count()} cores")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
