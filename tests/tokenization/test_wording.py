"""Numbers and names stand in sentences as a person would put them."""

from tokenization.wording import counted, listed, sentence


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


def test_an_error_becomes_a_sentence():
    assert sentence("there is\n no file") == "There is no file."
    assert sentence("What?") == "What?"
    assert sentence("song.mid is empty") == "song.mid is empty."
