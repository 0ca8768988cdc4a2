"""Numbers and names stand in sentences as a person would put them."""

import json

from tokenization.wording import counted, listed, visible


def test_a_number_has_its_noun_in_the_right_form():
    assert [counted(number, "note") for number in (0, 1, 1200)] == [
        "0 notes",
        "1 note",
        "1,200 notes",
    ]


def test_of_many_names_the_first_are_listed():
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([*"abcdefghi"]) == "a, b, c, d, e, f, g, h and i"
    assert listed([*"abcdefghij"]) == "a, b, c, d, e, f, g, h and 2 more"


def test_what_is_no_print_is_written_as_escapes():
    assert (
        visible("a\tb\n\x1b[2J\x9b\r\u202e\udcff é…")
        == "a\\u0009b\\u000a\\u001b[2J\\u009b\\u000d\\u202e\\udcff é…"
    )
    assert visible("a\tb\nc\x1b", lines=True) == "a\tb\nc\\u001b"
    assert json.loads(visible(json.dumps("\x7f\u2028", ensure_ascii=False))) == "\x7f\u2028"
