"""The experiments with trained models as commands, on held-out pieces or on the model alone.

`musicgen evaluate extrapolation`, `ablation`, `positions`, `continuation`, `form`, `infilling`, `accompaniment`,
`plan`, `realism` and `originality`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.study_options import (
    add_choice,
    add_data,
    add_length,
    add_study,
    run_experiment,
)
from app.options import check_counts, chosen_device, from_options
from musicgen.generation.sampling import MUSICAL

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

MOST_BARS_OF_A_GAP = 16


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The texts and default values of an experiment's command."""

    doing: str  # title of the progress bar
    pieces: int = 20
    split: str = "validation"
    bars: int | None = None  # written after a prompt
    results: str = "the results as JSON"


EVALUATIONS = {
    "extrapolation": Evaluation(
        doing="Reading pieces", pieces=32, results="extrapolation.json and .png"
    ),
    "ablation": Evaluation(doing="Removing parts", pieces=32, results="ablation.json"),
    "positions": Evaluation(doing="Probing", results="positions.json and pictures"),
    "continuation": Evaluation(doing="Continuing", split="test"),
    "form": Evaluation(doing="Continuing", bars=56),
    "infilling": Evaluation(doing="Filling"),
    "accompaniment": Evaluation(doing="Accompanying", split="test"),
    "plan": Evaluation(doing="Continuing", split="test", bars=16),
    "realism": Evaluation(doing="Continuing", split="test", pieces=40, bars=24),
    "originality": Evaluation(doing="Continuing", split="test", bars=24),
}
# Options that are passed to the experiments whose commands have them.
OPTIONS = (
    "length", "control", "layers", "prompt_bars", "bars", "gap", "hide", "hear_chords", "recall",
    "planned", "tokens", "samples", "temperature",
)  # fmt: skip
EXAMPLES = {
    "extrapolation": """\
A model reads held-out pieces and predicts each next token. The table has the loss in nats per token, mean
± deviation over pieces: within the trained length, up to 1.5 times it, and beyond, and the increase of the
loss past the trained length, paired by piece [95 % interval]. Since later parts of pieces can be harder in
themselves, --control predicts the tokens past the trained length a second time, from the last tokens only:
between half and all of the trained length. A difference below 0 means that the full context helps, so length
does no harm.

examples:
  musicgen evaluate extrapolation ensemble --data data/pop909 --length 8192 --control
  musicgen evaluate extrapolation runs/ape runs/sine --data data/pop909 --length 3072 -o compared
""",
    "ablation": """\
The model reads held-out pieces as it is and with a part removed: with the gates of a stochastic encoding
open, which removes all positions; with all tokens at one position; with the frequencies shuffled among
features and heads; with new noise, and with a quarter or four times the number of realisations; without
the output of its metric heads; with heads that never forget. The table has the change of the loss in nats
per token, within the trained length and past it, with the 95 % interval of the mean over pieces. Since the
model was not trained without the part, this shows what it relies on, not what the part is worth.

examples:
  musicgen evaluate ablation ensemble --data data/pop909
  musicgen evaluate ablation ensemble --data data/pop909 --layers --pieces 12
  musicgen evaluate ablation runs/none runs/sine --data data/groove --length 1024 --json
""",
    "positions": """\
The table has translation invariance (T) and monotonicity (M) of the best head of the first layer, ±
standard error; 0 is perfect. Queries and key offsets are in the proportions of table 7 of the SPE paper.
Only the encoding is probed, without the heads' decay; an encoding of musical time gets one sixteenth per
token. – means that the encoding has no effect: all weights are equal. The folder of -o gets all heads as
JSON, and figures: the probes by position, learned templates, and attention maps of music that the model
writes past its trained length.

examples:
  musicgen evaluate positions ensemble
  musicgen evaluate positions runs/ape runs/sine -o positions
""",
    "continuation": """\
The first bars of real pieces are continued to a fixed number of tokens, and the style of the whole continuation and
of its quarters is compared with that of the prompt and of the piece. For reference, so are the looped prompt, the
piece itself, and other pieces. The table has the mean ± deviation over styles, and the number of styles in which the
continuation is closer than another piece; also the fraction of tokens copied from the prompt, and the diversity of
the continuations of one prompt.

examples:
  musicgen evaluate continuation runs/groove runs/mine --data data/groove
  musicgen evaluate continuation ensemble --data data/pop909 --pieces 40 --samples 5 --json
""",
    "form": """\
Real pieces are continued from their first bars. The written bars and the same bars of the piece are
compared: the fraction of bars that contain most of an earlier bar (returns) or all of it (repeats), the
similarity of 8-bar phrases to earlier ones, the longest run of bars that repeat each other (circles), the
differences between phrases in pitch (contrast) and in number of notes (swell), notes and chord changes per
bar, and bass notes on bar lines. For models that can end a piece, signs of an ending in the last bar are
compared with the real last bar and with a bar in the middle.

examples:
  musicgen evaluate form runs/mine --data data/pop909
  musicgen evaluate form runs/groove --data data/groove --prompt-bars 4 --bars 28 --pieces 40 --json
""",
    "infilling": """\
Bars in the middle of real pieces are removed and written again. The table has the loss of the true bars in
nats per token, with and without the bars after the gap; the F1 score of the notes against the true ones; the
similarity of the style in the gap and around it; and the leap of the top note over the seam, in semitones.

examples:
  musicgen evaluate infilling runs/mine --data data/pop909
  musicgen evaluate infilling runs/mine --data data/mine --split test --gap 8 --pieces 40 --json
""",
    "accompaniment": """\
In each held-out piece, the busiest bass, drums and other part are hidden, one at a time, and written again. The
style of the new part is compared with that of the hidden part; for reference, so are the next bars of the piece,
another piece of the same style, and another style. The table has the mean ± deviation over styles, and the number
of styles in which the written part is closer than another piece.

examples:
  musicgen evaluate accompaniment runs/mine --data data/groove
  musicgen evaluate accompaniment runs/mine --data data/groove --hide drums --bars 16 --pieces 40 --json
""",
    "plan": """\
Real pieces are continued from their first bars, once freely and once for each attribute of a plan: density,
register, loudness (a new value every four bars) and the form A A B A, each with and without guidance. The table has
the agreement of the plan with the music written for it and, for comparison, with the music written freely.

examples:
  musicgen evaluate plan ensemble --data data/pop909
  musicgen evaluate plan runs/mine --data data/lieder --pieces 10 --json
""",
    "realism": """\
Real pieces are continued from their first bars. The written and the real bars are cut into windows of 8 bars, and a
classifier is trained on some songs to tell written from real windows in the others, by about 25 statistics of each
window. An AUC of 1 means that it always can, 0.5 that they are indistinguishable. The table also has the AUC without
the statistics of loudness, the AUC between two halves of the real songs (a control, about 0.5), and the statistics
that discriminate best.

examples:
  musicgen evaluate realism ensemble --data data/pop909
  musicgen evaluate realism runs/mine --data data/lieder --split validation --pieces 24 --json
""",
    "originality": """\
Real pieces are continued from their first bars. For every two written bars, and for the same bars of the piece, the
two bars in the training pieces that share the most notes with them, in any key, are found. Since the real pieces are
held out, they show how similar songs are by chance. The closest passages are listed.

examples:
  musicgen evaluate originality ensemble --data data/pop909
  musicgen evaluate originality runs/mine --data data/lieder --split validation --pieces 12 --json
""",
}


def add(parser: argparse.ArgumentParser, name: str) -> None:
    evaluation = EVALUATIONS[name]
    if name == "positions":
        parser.add_argument(
            "--tokens", type=int, default=64, metavar="N", help="probe with N tokens (default: 64)"
        )
        add_study(parser, results=evaluation.results)
    elif name in ("extrapolation", "ablation"):
        add_data(parser)
        add_length(parser)
        add_choice(parser, evaluation.pieces)
        if name == "extrapolation":
            parser.add_argument(
                "--control", action="store_true",
                help="also predict the tokens past the trained length from the last tokens only",
            )  # fmt: skip
        else:
            parser.add_argument(
                "--layers", action="store_true", help="remove one layer at a time instead of parts"
            )
        add_study(parser, results=evaluation.results)
    else:
        add_study(parser, results=evaluation.results)
        add_data(parser)
        add_choice(parser, evaluation.pieces, evaluation.split)
        _add_whole_pieces(parser, name, evaluation)


def _add_whole_pieces(parser: argparse.ArgumentParser, name: str, evaluation: Evaluation) -> None:
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N",
        help="leave out the first N pieces, such as those that --pieces N has measured before",
    )  # fmt: skip
    if evaluation.bars is not None:
        parser.add_argument(
            "--prompt-bars", type=int, default=8, metavar="N", help="bars in the prompt"
        )
        parser.add_argument(
            "--bars", type=int, default=evaluation.bars, metavar="N", help="bars to write"
        )
    if name == "continuation":
        for option, kind, value, text in (
            ("--prompt-bars", int, 2, "bars in the prompt"),
            ("--tokens", int, 1024, "tokens of prompt and continuation together"),
            ("--samples", int, 3, "continuations per prompt"),
            ("--temperature", float, 0.6, "temperature of sampling"),
        ):
            parser.add_argument(
                option, type=kind, default=value, metavar="N", help=f"{text} (default: {value})"
            )
    elif name == "infilling":
        parser.add_argument(
            "--gap", type=int, default=4, metavar="N",
            help=f"bars to remove, at most {MOST_BARS_OF_A_GAP}",
        )  # fmt: skip
    elif name == "accompaniment":
        from evaluation.study.accompaniment import ROLES

        parser.add_argument(
            "--hide", nargs="+", choices=ROLES, default=list(ROLES), metavar="PART",
            help=f"the parts to hide, one at a time: {', '.join(ROLES)} (default: all)",
        )  # fmt: skip
        parser.add_argument("--bars", type=int, default=8, metavar="N", help="bars of each piece")
        parser.add_argument(
            "--hear-chords",
            action="store_true",
            help="use chords recognised in the other parts, instead of those of the piece",
        )
    if name not in ("accompaniment", "continuation", "plan"):
        parser.add_argument(
            "--recall", type=float, default=MUSICAL.recall, metavar="R",
            help="weight of what the model recalls from the piece, 0 to 1",
        )  # fmt: skip
    if name in ("form", "realism", "originality"):
        parser.add_argument(
            "--no-plan", dest="planned", action="store_false",
            help="write no plan before the notes of a bar; this excludes endings",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Run the experiment, write the results and print the table."""
    from evaluation.study.experiments import models_of
    from evaluation.tables import table_of

    name: str = arguments.evaluation
    experiment = experiment_of(models_of(arguments.models), arguments)
    result = run_experiment(name, experiment, arguments, EVALUATIONS[name].doing)
    if not any(model.get("table", True) for model in result["models"]):
        raise ValueError(
            f"the {result['pieces']} pieces of {result['data']} have nothing to measure: "
            "a part can be hidden only if there is another one"
        )
    if arguments.output is not None:
        _write(arguments.output, name, result)
    text = output.captioned(table_of(name, result), across=name != "positions")
    shown = result["models"] if name == "ablation" else result
    where = (
        f"Measured on {result['pieces']} pieces of {result['data']}." if "data" in result else ""
    )
    output.write_result(arguments.json, shown, text, *[where] if where else [])
    if name == "originality" and not arguments.json:
        _print_closest(result)


def experiment_of(models: Sequence[Playable], arguments: argparse.Namespace) -> Experiment:
    """Return the experiment with its options."""
    from evaluation.study import (
        ablation,
        accompaniment,
        continuation,
        form_and_infilling,
        losses,
        originality,
        positions,
        realism,
    )
    from evaluation.study.piece_jobs import Choice

    device = chosen_device(arguments)
    if arguments.evaluation == "positions":
        check_counts(arguments, "tokens")
        drawn = arguments.output is not None
        how = {"tokens": arguments.tokens, "seed": arguments.seed, "drawn": drawn}
        return positions.positions(models, device=device, **how)
    name: str = arguments.evaluation
    if name == "infilling" and arguments.gap > MOST_BARS_OF_A_GAP:
        raise ValueError(
            f"--gap is {arguments.gap}; at most {MOST_BARS_OF_A_GAP} bars can be filled at once"
        )
    if "recall" in arguments:
        replace(MUSICAL, recall=arguments.recall)  # raises ValueError for a wrong value
    check_counts(arguments, "length", "prompt-bars", "bars", "gap", "pieces", "samples")
    if getattr(arguments, "skip", 0) < 0:
        raise ValueError(f"--skip is {arguments.skip}; it must be 0 or more")
    choice = from_options(Choice, arguments, data=str(arguments.data), device=device)
    options = {option: getattr(arguments, option) for option in OPTIONS if option in arguments}
    makers: dict[str, Any] = {
        "extrapolation": losses.extrapolation,
        "ablation": ablation.ablation,
        "accompaniment": accompaniment.accompaniment,
        "continuation": continuation.continuation,
    }
    if name in makers:
        return makers[name](models, choice, **options)
    measures: dict[str, Any] = {
        "form": form_and_infilling.measure_form,
        "infilling": form_and_infilling.measure_infilling,
        "plan": form_and_infilling.measure_plan,
        "realism": realism.measure_realism,
        "originality": originality.measure_originality,
    }
    if name == "infilling":
        options["fewest_bars"] = arguments.gap + 2
    else:
        # Plans replace the rest of a piece.
        compared = 0 if name == "plan" else arguments.bars
        options["fewest_bars"] = arguments.prompt_bars + compared
    if name == "realism":
        options["table"] = realism.separability_table
    make = form_and_infilling.long_piece_experiment
    return make(name, measures[name], models, choice, **options)


def _write(folder: Path, name: str, result: dict[str, Any]) -> None:
    """Write a result as JSON, and its figures."""
    from evaluation import figures
    from tokenization.whole_file import write_bytes, write_json

    write_json(folder / f"{name}.json", result)
    drawn = {}
    if name == "extrapolation":
        drawn = {name: figures.extrapolation(result)}
    elif name == "positions":
        drawn = {"probes": figures.probes(result)}
        for number, model in enumerate(result["models"], 1):
            file = re.sub(r"[^\w.+-]+", "-", f"{number}-{model['model']}")
            drawn |= {f"{kind}-{file}": one for kind, one in figures.pictures(model).items()}
    for file, one in drawn.items():
        write_bytes(folder / f"{file}.png", figures.png(one))


def _print_closest(found: dict[str, Any]) -> None:
    """Print the written passages that are most similar to one in the training pieces."""
    from evaluation.study.originality import closest_cases

    for model in found["models"]:
        output.write(f"\nClosest passages of {model['model']}")
        cases = [
            [f"{case['likeness']:.2f}", case["piece"], case["bar"] + 1, case["of"], case["at"] + 1]
            for case in closest_cases(model["rows"])
        ]
        head = ["similarity", "piece", "bar", "training piece", "bar"]
        output.write(output.table([head, *cases]))
