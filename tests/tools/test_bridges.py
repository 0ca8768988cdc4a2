"""The table of projects × bridges, without MuseScore, whose window takes minutes."""

import pytest

from tests.bridges.sessions import ardour
from tests.bridges.test_reaper import lua
from tests.tools import bridges

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("name", "found"), [("reaper", lua), ("ardour", ardour)])
def test_projects_of_all_kinds_are_as_wanted(name, found, capsys):
    found()  # skips without it
    assert bridges.main(["--only", name]) == 0
    assert f"{len(bridges.CASES)} tried, 0 not as wanted" in capsys.readouterr().out
