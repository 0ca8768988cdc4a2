"""Show where the test run spends its time: python -m tests.tools.profile [PYTEST ARGUMENT …].

Runs pytest and prints seconds by what is done (fixtures are set up and taken down, tests are called), by folder, by
file and by test.
"""

import os
import sys
from collections import Counter

import pytest

ROWS = 25
TABLES = ("phase", "folder", "file", "test")


class Recorder:
    """Adds up how long the tests of all processes take."""

    def __init__(self) -> None:
        self.seconds = {title: Counter[str]() for title in TABLES}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take down how long a part of a test took."""
        file = report.nodeid.partition("::")[0]
        names = (str(report.when), os.path.dirname(file), file, report.nodeid)
        for title, name in zip(TABLES, names, strict=True):
            self.seconds[title][name] += report.duration


if __name__ == "__main__":
    recorder = Recorder()
    code = pytest.main(sys.argv[1:], plugins=[recorder])
    for title, seconds in recorder.seconds.items():
        print(f"\n{title:<60} {'seconds':>8} {'share':>6}")
        for name, spent in seconds.most_common(ROWS):
            print(f"{name[-60:]:<60} {spent:>8.1f} {spent / (seconds.total() or 1):>6.1%}")
    sys.exit(code)
