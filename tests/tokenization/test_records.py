"""Dataclasses from plain data; immutable scores."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tokenization.records import from_plain, whole_number
from tokenization.score import Notes, Score, Tempos, Track


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Outer:
    rate: float
    name: str = "x"
    limit: int | None = None
    fast: bool = False
    sizes: tuple[int, ...] = ()
    inner: Inner = Inner()
    facts: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    files: str | dict[str, float] | tuple[str, ...] = "x"


def test_values_are_converted_to_the_annotated_types() -> None:
    data = {"rate": 1, "limit": 3, "sizes": [1, 2], "inner": {"size": 4}, "facts": {"a": [1]}}
    read = from_plain(Outer, data, "here")
    assert read == Outer(rate=1.0, limit=3, sizes=(1, 2), inner=Inner(size=4), facts={"a": [1]})
    assert isinstance(read.rate, float)
    assert from_plain(Outer, {"rate": "1e-4"}, "here").rate == 1e-4  # YAML reads it as text


def test_whole_numbers_of_any_integer_type() -> None:
    for value in (3, np.int64(3), np.uint8(3)):
        assert whole_number(value, "bars") == 3
        assert type(whole_number(value, "bars")) is int
    for value in (3.0, np.float32(3), "3", True, None, [3]):
        with pytest.raises(ValueError, match=r"bars is .*; it must be a whole number"):
            whole_number(value, "bars")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"rate": 1.0, "nmae": "y"}, r"^here has an unknown key 'nmae' \(did you mean 'name'\?\);"),
        ({"rate": "fast"}, r"^here: rate is 'fast'; it must be a number$"),
        ({"rate": 1.0, "limit": 2.5}, r"limit is 2.5; it must be a whole number"),
        ({"rate": 1.0, "fast": 1}, r"fast is 1; it must be true or false"),
        ({"rate": 1.0, "sizes": [1, "2"]}, r"sizes\[1\] is '2'"),
        ({"rate": 1.0, "facts": 3}, r"facts is 3; it must be a mapping of names to values$"),
        ({"rate": 1.0, "files": 3}, r"files is 3; it must be text, a mapping .* or a list$"),
        ({"rate": 1.0, "files": {"a": "b"}}, r"files: a is 'b'; it must be a number$"),
        ({"rate": 1.0, "files": [3]}, r"files\[0\] is 3; it must be text$"),
        (
            {"rate": 1.0, "counts": {"notes": "many"}},
            r"^here: counts: notes is 'many'; it must be a whole number",
        ),
        ({"name": "y"}, r"^here is incomplete: .*'rate'"),
        ([1], r"^here is \[1\]; it must be a mapping"),
    ],
)
def test_the_error_names_what_is_wrong(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_plain(Outer, data, "here")


NOTES = Notes([4, 0, 0], [1, 2, 3], [60, 64, 62], [90, 80, 70], [0, 0, 0])


def test_columns_are_read_only_copies_without_overflow() -> None:
    onsets = np.array([0, 1])
    tempos = Tempos(onsets, [120, 90.5])
    onsets[0] = 7
    assert (tempos.onset_ticks[0], tempos.beats_per_minute.tolist()) == (0, [120.0, 90.5])
    with pytest.raises(ValueError, match="read-only"):
        tempos.onset_ticks[0] = 1
    with pytest.raises(ValueError, match="equal length"):
        Tempos([0, 1], [120])
    narrow = Notes(*(np.array([100], dtype=np.uint8) for _ in range(5)))
    assert ((narrow.pitch * 3).tolist(), (narrow.pitch - 101).tolist()) == ([300], [-1])


def test_a_score_checks_its_tracks_and_has_an_end_and_remarks() -> None:
    with pytest.raises(ValueError, match=r"track 0.*0 tracks"):
        Score(ticks_per_beat=4, notes=NOTES)
    score = Score(ticks_per_beat=4, notes=NOTES, tracks=(Track(),))
    assert (score.end_ticks, Score(ticks_per_beat=4).end_ticks) == (5, 0)
    assert score.remark("one").remark("two", "three").remarks == ("one", "two", "three")
