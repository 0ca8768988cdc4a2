"""Edits of files change nothing else in them, by the table's own comparison."""

import pytest

from tests.app.web.browser import MODEL, serving
from tests.tools.page.edits import KINDS, ON_PAGE, Outcome, command_table, page_table
from tests.tools.page.own_files import own_files

FEW = ("everything", "type 0")  # the others need slower readers, or repeat these


def check(found: dict[tuple[str, str], Outcome]) -> None:
    assert not {pair: one for pair, one in found.items() if one.failed or one.changed}
    assert sum(bool(one.read) for one in found.values()) > len(found) // 2


@pytest.mark.parametrize("names", [FEW, pytest.param((), marks=pytest.mark.long)])
def test_edits_of_the_command(names):
    check(
        command_table([*KINDS], {n: f for n, f in own_files().items() if n in names or not names})
    )


@pytest.mark.long
def test_edits_on_the_page():
    with serving("--model", MODEL) as address:
        check(page_table(address, ON_PAGE, {name: own_files()[name] for name in FEW}))
