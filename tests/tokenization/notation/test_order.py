"""Bars come in the order in which musicians play them."""

import pytest

from tokenization.notation.played import TooLong, play_order
from tokenization.notation.written import Line


def bar(
    text: str = "", *, endings: tuple[int, ...] = (), times: int = 2, marks: tuple[str, ...] = ()
) -> Line:
    """Return a bar that begins a repeat (`|:`), ends one (`:|`), is in endings, or has marks."""
    return Line(
        forward="|:" in text,
        backward=times if ":|" in text else 0,
        endings=frozenset(endings) or None,
        marks=set(marks),
    )


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        ([bar(), bar(), bar()], "012"),
        ([bar(), bar(":|"), bar()], "01012"),
        ([bar(), bar("|:"), bar(":|"), bar()], "012123"),
        ([bar(), bar("|: :|", times=3), bar()], "01112"),
        # The second part of a tune often says only where its repeat ends.
        ([bar(), bar(":|"), bar(), bar(":|")], "01012323"),
        # Endings of several bars, which other readers play on from their second bar.
        (
            [
                bar("|:"),
                *(bar(endings=(1,)),) * 2,
                bar(":|", endings=(1,)),
                bar(endings=(2,)),
                bar(),
            ],
            "0123045",
        ),
        (
            [bar(), bar(":|", endings=(1, 2)), bar(":|", endings=(3,)), bar()],
            "0101023",
        ),
        # Only the second ending says that it is one.
        ([bar(), bar(":|"), bar(endings=(2,)), bar()], "010123"),
        ([bar(), bar(":|"), bar(":|", endings=(1,)), bar(endings=(2,))], "010123"),
        # A new repeat without its sign after the endings of the one before.
        ([bar(), bar(":|", endings=(1,)), bar(endings=(2,)), bar(), bar(":|")], "0102343434"[:8]),
        ([bar(), bar(marks=("fine",)), bar(marks=("dacapo",))], "01201"),
        ([bar(":|"), bar(marks=("fine",)), bar(marks=("dacapo",))], "001201"),
        (
            [bar(), bar(marks=("segno",)), bar(marks=("fine",)), bar(marks=("dalsegno",)), bar()],
            "012312",
        ),
        (
            [bar(), bar(marks=("tocoda",)), bar(marks=("dacapo",)), bar(marks=("coda",)), bar()],
            "0120134",
        ),
        # A coda comes for the first time: its repeats and endings are those of any other part.
        (
            [
                *(bar(":|"), bar(marks=("tocoda",)), bar(marks=("dacapo",))),
                *(bar(marks=("coda",)), bar("|:"), bar(":|")),
            ],
            "0012" + "01" + "34545",
        ),
        (
            [
                *(bar(":|"), bar(marks=("tocoda",)), bar(marks=("dacapo",)), bar(marks=("coda",))),
                *(bar(":|", endings=(1,)), bar(endings=(2,)), bar()),
            ],
            "0012" + "01" + "34356",
        ),
        # Unless it was passed before the jump.
        (
            [
                *(bar(marks=("tocoda",)), bar(), bar(marks=("coda",))),
                *(bar("|: :|"), bar(marks=("dacapo",))),
            ],
            "012334" + "0234",
        ),
        # After a jump no repeat is taken, and of endings the last.
        (
            [bar("|:"), bar(":|", endings=(1,)), bar(endings=(2,)), bar(marks=("dacapo",))],
            "0102302" + "3",
        ),
        # What has nowhere to go goes on.
        ([bar(), bar(marks=("dalsegno",)), bar()], "01012"),
        ([bar(), bar(endings=(2,)), bar()], "02"),
    ],
)
def test_bars_are_played_in_order(lines: list[Line], order: str):
    assert play_order(lines, 1000) == [int(number) for number in order]


@pytest.mark.parametrize(
    "lines",
    [
        [bar(":|", times=10**9)],
        [bar(":|", times=9999) for _ in range(100)],
        [bar(), *(bar(endings=(9,)) for _ in range(900)), bar(":|", times=10**9)],
    ],
)
def test_endless_repeats_are_refused_at_once(lines: list[Line]):
    with pytest.raises(TooLong, match="more than 1,000 bars with its repeats"):
        play_order(lines, 1000)
