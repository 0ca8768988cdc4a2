"""Print the worth of each rule outside the network: python -m tests.tools.measure.rules SONGS BANDS [--model MODEL].

Validation pieces are continued with all rules, and without each of them. Songs, by 32 bars after 8: the fraction of
bars that return, and that repeat a bar exactly, the longest loop, and the fraction of collapses (evaluate form). Bands,
by 1,024 tokens after 2 bars: the similarity of drums to those of the piece (evaluate continuation).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from app import output
from evaluation.study.continuation import measure_continuation
from evaluation.study.experiments import conduct, models_of
from evaluation.study.form_and_infilling import measure_form
from evaluation.study.piece_jobs import Choice, piece_experiment
from musicgen.generation import rules
from tests.tools.options import options

NONE = (0.0, 0.0, 0.0)
RULES: Mapping[str, dict[str, Any]] = {
    "all rules": {"PENALTY": rules.PENALTY},
    "no limit on repetition": {"EXHAUSTED_PENALTY": 0.0},
    "no nats for the source of a return": {"NAMED_BOOST": NONE, "GUESSED_BOOST": NONE},
    "no pattern of drums": {"PENALTY": 0.0},
}
FORM = ("returns", "repeats", "circles", "collapses")
DRUMS = "to the piece, whole: onset–drum"


def main() -> None:
    given = options(__doc__, "song_set", "band_set", model="ensemble", pieces=24, seed=1)
    models = models_of([given.model], "cpu")
    rows = [("", *FORM, "drums", "n songs, bands")]

    def measured(data: Any, measure: Any, **how: Any) -> dict[str, tuple[float, int]]:
        choice = Choice(
            data=str(data), pieces=given.pieces, split="validation", seed=given.seed, device="cpu"
        )
        experiment = piece_experiment("rules", measure, models, choice, **how)
        (found,) = conduct({"rules": experiment})[0]["rules"]["models"]
        return {
            row["measure"]: (row["written"]["mean"], row["written"]["n"]) for row in found["table"]
        }

    for rule, changes in RULES.items():
        with patch.multiple(rules, **changes):
            form = measured(given.song_set, measure_form, fewest_bars=40, prompt_bars=8, bars=32)
            drums = measured(
                given.band_set, measure_continuation, fewest_bars=3, with_others=True,
                prompt_bars=2, tokens=1024, samples=1, temperature=1.0,
            )  # fmt: skip
        values = (*(form[name][0] for name in FORM), drums[DRUMS][0])
        counts = f"{form[FORM[0]][1]}, {drums[DRUMS][1]}"
        rows.append((rule, *(f"{value:.2f}" for value in values), counts))
    output.write(output.table(rows))


if __name__ == "__main__":
    main()
