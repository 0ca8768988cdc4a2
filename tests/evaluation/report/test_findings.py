"""Sentences of the report claim what the spread of results allows, and no more."""

import pytest

from evaluation.report import texts


def row(mean: float, deviation: float | None = 0.1, pieces: int = 25) -> dict:
    return {"mean": mean, "deviation": deviation, "pieces": pieces}


def model(name: str, trained: float, far: float, stop: int = 16, **more: dict) -> dict:
    parts = {
        "trained": {**row(trained), "start": 0, "stop": stop},
        "far": {**row(far), "start": 24, "stop": 64},
    }
    return {"model": name, "parts": parts, "drift": {"far": row(far - trained)}, **more}


def said_of(*models: dict) -> list[str]:
    return texts.extrapolation({"models": models, "length": 64})


def test_the_best_are_named_and_growth_only_where_it_is_sure():
    ape, sine = model("ape", 1.0, 2.0, growth=row(0.5)), model("sine", 1.1, 1.2, growth=row(-0.5))
    lrpe = model("lrpe", 1.2, 1.7, growth=row(0.03))
    said = said_of(ape, sine, lrpe)
    assert said[0].startswith("Within the trained length, ape has the lowest loss: 1.000")
    assert said[1].startswith("Furthest out, sine has the lowest loss: 1.200")
    assert "for ape (+0.500 ± 0.020), in nats a token, paired by piece, n = 25" in said[2]
    assert said[3] == "It grows less for sine (−0.500 ± 0.020)."
    assert "lrpe" not in "".join(said[2:])
    assert "losses of all models grow alike" in said_of(lrpe, lrpe | {"model": "rope"})[2]
    one = {"growth": row(0.5, None, 1)}
    assert said_of(ape | one, sine | one)[2].startswith("One piece does not tell")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (row(0.5), "with 0 outside the 95 % interval, at R = 8 (+0.500 ± 0.020)."),
        (row(0.01), "at no R from 8 to 32 does the 95 % interval of the change leave 0 out."),
        # 95 % of Student's are within 4.30 and 3.18.
        (row(3.5, 3**0.5, 3), "leave 0 out."),
        (row(3.5, 4**0.5, 4), "with 0 outside the 95 % interval, at R = 8 (+3.500 ± 1.000)."),
        (row(3.5, None, 1), None),
    ],
)
def test_realisations_are_compared_with_those_of_training(change: dict, says: str | None):
    changes = {8: change, 16: row(9), 32: row(0.01)}
    tests = [{"realisations": number, "change": one} for number, one in changes.items()]
    said = texts.realisations({"models": [{"model": "a", "trained": 16, "tests": tests}]})
    assert len(said) == (says is not None)
    assert all(text.endswith(says or "") for text in said)
