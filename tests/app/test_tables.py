"""Tables on a terminal: in 80 columns, however much they hold."""

from app import output
from evaluation.metrics.estimates import estimate
from evaluation.tables import SIDES, whole_pieces_table

FOUND = vars(estimate([0.2, 0.4, 0.9]))


def test_every_table_of_whole_pieces_fits_a_terminal():
    for kind, sides in SIDES.items():
        row = {"measure": "bars repeated exactly", **dict.fromkeys(sides, FOUND)}
        if kind == "accompaniment":
            row |= {"part": "other", "metric": "time_pitch", "above_same": 3, "of": 8}
        models = [{"model": name, "table": [row, row]} for name in ("ensemble", "pop-piano")]
        text = output.captioned(whole_pieces_table(kind, {"models": models}))
        assert max(map(len, text.splitlines())) <= 80
        for title in (*sides.values(), "ensemble", "pop-piano"):
            assert title in text
        assert text.count("0.50 ± 0.36") == 4 * len(sides)  # nothing is left out


def test_a_wide_table_is_folded_and_each_part_names_its_rows():
    head = ["name", "kind", *(f"a title of several words {n}" for n in range(6))]
    rows = [[name, "short", *[f"{n:.12f}" for n in range(6)]] for name in ("one", "two")]
    blocks = output.table([head, *rows]).split("\n\n")
    assert len(blocks) == 2
    for block in blocks:
        lines = block.splitlines()
        assert max(map(len, lines)) <= 80
        assert [line.split()[:2] for line in lines[-2:]] == [["one", "short"], ["two", "short"]]


def test_a_table_that_fits_is_left_as_it_is():
    assert output.table([["name", "count"], ["a", 12_345]]) == "name   count\na     12,345"
