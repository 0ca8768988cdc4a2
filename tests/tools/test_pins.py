"""Pins are read, and what moved is listed."""

import pytest

from tests.tools.pins import PINS, ROOT, changed, hashed, read_pins

BEFORE = "# the versions\na==1\nB_c==2 ; python_version < '3.11'\nB_c==3 ; python_version >= '3.11'\nd==1\n"


def test_what_moved_came_and_went_is_listed():
    after = BEFORE.replace("a==1", "a==1.1").replace("b_c==2", "x").replace("d==1", "e==7")
    after = after.replace("B_c==3", "b-c==4")
    assert changed(read_pins(BEFORE), read_pins(after)) == [
        "a: 1 → 1.1",
        "b-c (python_version >= '3.11'): 3 → 4",
        "d: 1 → gone",
        "e: new → 7",
    ]
    assert changed(read_pins(BEFORE), read_pins(BEFORE)) == []


def test_a_line_that_pins_nothing_is_an_error():
    with pytest.raises(ValueError, match=r"line 1 of constraints\.txt is no pin: a>=1"):
        read_pins("a>=1")
    assert len(read_pins((ROOT / PINS).read_text())) > 100


def test_a_report_becomes_requirements_with_hashes():
    one = {
        "metadata": {"name": "A", "version": "1"},
        "download_info": {"archive_info": {"hashes": {"sha256": "ab"}}},
    }
    own = {"metadata": {"name": "musicgen", "version": "0"}, "download_info": {"dir_info": {}}}
    assert hashed({"install": [own, one]}) == ["a==1 --hash=sha256:ab"]
