"""Pins are read, what moved is listed, and the hashes are those of the pins."""

import re

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name

from tests.tools.pins import HASHES, PINS, ROOT, changed, hashed, read_pins

BEFORE = "# the versions\na==1\nB_c==2 ; python_version < '3.11'\nB_c==3 ; python_version >= '3.11'\nd==1\n"
AFTER = "a==1.1\nb-c==2 ; python_version < '3.11'\nb-c==4 ; python_version >= '3.11'\ne==7\n"


def test_what_moved_came_and_went_is_listed():
    assert changed(read_pins(BEFORE), read_pins(AFTER)) == [
        "a: 1 → 1.1",
        "b-c (python_version >= '3.11'): 3 → 4",
        "d: 1 → gone",
        "e: new → 7",
    ]
    with pytest.raises(ValueError, match=r"line 1 of constraints\.txt is no pin: a>=1"):
        read_pins("a>=1")


def test_a_report_becomes_requirements_with_hashes():
    one = {
        "metadata": {"name": "A", "version": "1+cpu"},
        "download_info": {"archive_info": {"hashes": {"sha256": "ab"}}},
    }
    own = {"metadata": {"name": "musicgen", "version": "0"}, "download_info": {"dir_info": {}}}
    assert hashed({"install": [own, one]}) == ["a==1 --hash=sha256:ab"]


def test_the_hashes_are_those_of_the_pins():
    """Each pin that Python 3.11 on Linux takes has its hash, and nothing else has one."""
    here = {"python_version": "3.11", "platform_system": "Linux", "sys_platform": "linux"}
    pins = read_pins((ROOT / PINS).read_text())
    assert len(pins) > 100
    pinned = {
        name: v for (name, where), v in pins.items() if not where or Marker(where).evaluate(here)
    }
    del pinned["pytorch-fast-transformers"]  # is compiled by its own command
    head, *lines = (ROOT / HASHES).read_text().splitlines()
    assert head.startswith("# For Python 3.11 on Linux")
    found = [re.fullmatch(r"([\w.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line) for line in lines]
    assert all(found)
    assert {canonicalize_name(one[1]): one[2] for one in found if one} == pinned
