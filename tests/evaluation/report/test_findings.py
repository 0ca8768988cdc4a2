"""Sentences of the report claim what the spread of results allows, and no more."""

from evaluation.report import texts

LENGTH = 64


def row(mean: float, deviation: float | None = 0.1, pieces: int = 25) -> dict:
    return {"mean": mean, "deviation": deviation, "pieces": pieces}


def model(name: str, trained: float, far: float, grows: float | None = None) -> dict:
    parts = {
        "trained": {**row(trained), "start": 0, "stop": 16},
        "far": {**row(far), "start": 24, "stop": LENGTH},
    }
    growth = {} if grows is None else {"growth": row(grows)}
    return {"model": name, "parts": parts, "drift": {"far": row(far - trained)}, **growth}


def said_of(*models: dict) -> list[str]:
    return texts.extrapolation({"models": models, "length": LENGTH})


def test_the_best_are_named_and_growth_only_where_it_is_sure():
    ape, sine = model("ape", 1.0, 2.0, 0.5), model("sine", 1.1, 1.2, -0.5)
    said = said_of(ape, sine, model("lrpe", 1.2, 1.7, 0.03))
    assert said[0].startswith("Within the trained length, ape has the lowest loss: 1.000")
    assert said[1].startswith("Furthest out, sine has the lowest loss: 1.200")
    assert "for ape (+0.500 ± 0.020), in nats a token, paired by piece, n = 25" in said[2]
    assert said[3] == "It grows less for sine (−0.500 ± 0.020)."
    assert "lrpe" not in "".join(said[2:])
    said = said_of(model("ape", 1.0, 2.0, 0.03), model("sine", 1.1, 1.2, -0.03))
    assert said[2].startswith("Past the trained length the losses of all models grow alike")


def test_what_the_whole_past_is_worth_is_said_where_it_is_sure():
    models = [model("ape", 1.0, 2.0), model("sine", 1.1, 1.2), model("lrpe", 1.1, 1.2)]
    for one, control in zip(models, (0.5, -0.5, 0.03), strict=True):
        one["control"] = row(control)
    assert [text.partition(":")[0] for text in said_of(*models)[2:]] == [
        "Past its trained length, ape costs more than where it is given the last tokens alone",
        "Past its trained length, sine costs less than where it is given the last tokens alone",
    ]


def test_other_positions_are_not_compared():
    models = [model("short", 1.0, 2.0), model("long", 1.1, 1.2)]
    models[1]["parts"]["trained"]["stop"] = 32
    assert [text.partition(",")[0] for text in said_of(*models)] == ["Furthest out"]


def test_one_piece_tells_nothing():
    one = row(0.5, None, 1)
    models = [{**model(name, 1.0, 2.0), "growth": one} for name in ("ape", "sine")]
    alone = "One piece does not tell whose loss grows more past the trained length."
    assert said_of(*models)[2:] == [alone]
    tests = [{"realisations": n, "change": row(0.1 * (n - 8), None, 1)} for n in (4, 8)]
    assert texts.realisations({"models": [{"model": "a", "trained": 8, "tests": tests}]}) == []


def test_one_model_is_compared_with_itself():
    limited = model("learned", 1.0, 2.0)
    limited["parts"]["far"]["stop"] = 32
    (said,) = said_of(limited)
    assert said.startswith(
        "From its trained length to 32 tokens, learned costs +1.000 ± 0.020 nats a token"
    )


def test_realisations_are_compared_with_those_of_training():
    def tests(*changes: float) -> list[dict]:
        pairs = zip((8, 16, 32), changes, strict=True)
        return [{"realisations": number, "change": row(change)} for number, change in pairs]

    models = [
        {"model": "a", "trained": 16, "tests": tests(0.5, 0, 0.01)},
        {"model": "b", "trained": 16, "tests": tests(0.01, 0, -0.01)},
    ]
    first, second = texts.realisations({"models": models})
    assert first.endswith("with 0 outside the 95 % interval, at R = 8 (+0.500 ± 0.020).")
    assert second == (
        "b, trained with R = 16: at no R from 8 to 32 does the 95 % interval of the change leave 0 out."
    )


def test_few_pieces_have_to_differ_by_more():
    for pieces, is_sure in ((3, False), (4, True)):  # 95 % of Student's are within 4.30 and 3.18
        tests = [{"realisations": 4, "change": row(3.5, pieces**0.5, pieces)}]
        (said,) = texts.realisations({"models": [{"model": "a", "trained": 8, "tests": tests}]})
        assert ("with 0 outside" in said) == is_sure


def test_positions_within_and_past_the_trained_length():
    def of(name: str, *values: float | None) -> dict:
        borders = ((0, 32), (32, 64), (64, 80))
        rows = [
            {"start": a, "stop": b, "translation": v}
            for (a, b), v in zip(borders, values, strict=True)
        ]
        return {"model": name, "probes": {"length": 64, "best_table": rows}}

    models = [of("ape", 0.2, 0.4, 0.9), of("none", None, None, None), of("short", 0.2, 0.4, None)]
    first, second, third = texts.positions({"models": models})
    assert "0.300 on average within the trained length, 0.900 past it" in first
    assert second.startswith("none: no position is held in the first layer's weights")
    assert third.startswith("short: within the trained length or past it weights do not depend")
