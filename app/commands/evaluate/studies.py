"""The experiments with trained models as commands: they read held-out pieces, are probed, or write to real pieces.

`musicgen evaluate extrapolation`, `ablation`, `positions`, `form`, `infilling`, `accompaniment`, `plan`, `realism` and
`originality`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate.study_options import (
    add_choice,
    add_data,
    add_length,
    add_study,
    conducted_alone,
    data_of,
)
from app.options import check_counts, chosen_device, from_options
from musicgen.generation.sampling import MUSICAL

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

MOST_BARS_OF_A_GAP = 16


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What the command of an experiment says, and its default values."""

    doing: str  # of the progress bar
    pieces: int = 20
    split: str = "validation"
    bars: int | None = None  # written after a prompt
    results: str = "the results as JSON and CSV"


EVALUATIONS = {
    "extrapolation": Evaluation(
        doing="Reading pieces", pieces=32, results="extrapolation.json, .csv, .svg and .png"
    ),
    "ablation": Evaluation(doing="Taking parts away", pieces=32, results="ablation.json and .csv"),
    "positions": Evaluation(doing="Probing", results="positions.json, .csv and pictures"),
    "form": Evaluation(doing="Continuing", bars=56),
    "infilling": Evaluation(doing="Filling"),
    "accompaniment": Evaluation(doing="Accompanying", split="test"),
    "plan": Evaluation(doing="Continuing", split="test", bars=16),
    "realism": Evaluation(doing="Continuing", split="test", pieces=40, bars=24),
    "originality": Evaluation(doing="Continuing", split="test", bars=24),
}
# Options that experiments take, as far as their commands have them.
OPTIONS = (
    "length", "control", "layers", "prompt_bars", "bars", "piece_bars", "gap", "hide", "hear_chords",
    "recall", "planned",
)  # fmt: skip
EXAMPLES = {
    "extrapolation": """\
A model reads held-out pieces and predicts each next token; given is the loss in nats a token: mean
± deviation over pieces, within the trained length, to 1.5 times it, and further. Growth is by how
much more a loss grows past the trained length than that of the models on average [95 % interval].
Later parts of pieces may be harder by themselves: --control predicts what lies past the trained
length once more, each token from the last ones alone, from half as many as the model was trained
with to all of them. Below 0, all that was before helps: length does no harm.

examples:
  musicgen evaluate extrapolation ensemble
  musicgen evaluate extrapolation ensemble --length 8192 --control
  musicgen evaluate extrapolation runs/ape runs/sine --data data/pop909 --length 3072 -o compared
""",
    "ablation": """\
Held-out pieces are read by the model as it is and without a part of it: with the gates of a stochastic
encoding open, which lets no position through; with all tokens at one position; with the frequencies
shuffled among features and heads; with other noise drawn, and with a quarter or four times as many
realisations; without what its metric heads find; with heads that forget nothing. Given is by how much
the loss changes, in nats a token, within the trained length and past it, with the 95 % interval of the
mean over pieces. The model has not learned to do without the part: it is what the model relies on.

examples:
  musicgen evaluate ablation ensemble --data data/pop909
  musicgen evaluate ablation ensemble --layers --pieces 12
  musicgen evaluate ablation runs/none runs/sine --data data/groove --length 1024 --json
""",
    "positions": """\
Translation invariance (T) and monotonicity (M) of the best head of the first layer, 0 is perfect,
± standard error; for queries and offsets of keys in the proportions of the SPE paper's table 7. It is
the encoding that is asked, without the horizons by which heads forget; one that counts musical time
is read a token a sixteenth. – stands where it holds no position: all weights are equal. The folder of
-o gets all heads as CSV, and pictures: the probes by position, learned templates, and attention maps
of music that the model writes past its trained length.

examples:
  musicgen evaluate positions ensemble
  musicgen evaluate positions runs/ape runs/sine -o positions
""",
    "form": """\
Real pieces are continued from their first bars. Measured of the bars written, and of the same bars of the
piece: how many have most of an earlier bar (returns) or all of one (repeats), how like phrases of 8 bars are
to earlier ones, how many bars go round in circles, how much phrases differ in height (contrast) and in notes
(swell), notes and chord changes a bar, bass notes on bar lines. Of a model that can end a piece, how many of
the signs of an end its last bar shows, compared with the real last bar and a bar in the middle.

examples:
  musicgen evaluate form runs/mine --data data/pop909
  musicgen evaluate form runs/groove --data data/groove --prompt-bars 4 --bars 28 --pieces 40 --json
""",
    "infilling": """\
Bars in the middle of real pieces are taken out and written again. Measured are the loss of the true bars in
nats a token, with what comes after the gap and without; how many notes are the true ones (f1); how like the
style of the gap is to that around it; and the leap of the top note over the seam, in semitones.

examples:
  musicgen evaluate infilling runs/mine --data data/pop909
  musicgen evaluate infilling runs/mine --data data/mine --split test --gap 8 --pieces 40 --json
""",
    "accompaniment": """\
Of each held-out piece the busiest bass, drums and other part are hidden, one at a time, and written to the
other parts. The style of the new part is compared with the hidden part's, and for reference with that of the
piece's next bars, of another piece of the style, and of another style: mean ± deviation over styles, and the
number of styles in which the written part is nearer than another piece's.

examples:
  musicgen evaluate accompaniment runs/mine --data data/groove
  musicgen evaluate accompaniment runs/mine --data data/groove --hide drums --bars 16 --pieces 40 --json
""",
    "plan": """\
Real pieces are continued from their first bars, once freely and once for each thing that can be asked of bars:
density, register, loudness (another value for each four bars) and a form, A A B A; each with guidance and without.
Measured is how what was asked agrees with what was written, and for comparison with what was written freely.

examples:
  musicgen evaluate plan ensemble --data data/pop909
  musicgen evaluate plan runs/mine --data data/lieder --pieces 10 --json
""",
    "realism": """\
Real pieces are continued from their first bars. What is written and the same bars of the piece are cut into windows
of 8 bars, and a classifier learns from some songs to tell written windows of the others from real ones, by about 25
statistics of each. AUC 1: they are always told apart; 0.5: they are indistinguishable. The table also has the AUC
without the statistics of loudness, that of two halves of the real songs (the control, about 0.5), and the statistics
that tell most.

examples:
  musicgen evaluate realism ensemble --data data/pop909
  musicgen evaluate realism runs/mine --data data/lieder --split validation --pieces 24 --json
""",
    "originality": """\
Real pieces are continued from their first bars. For each two bars that are written, and for the same bars of the
piece itself, the two bars of the training pieces are found that share most notes with them, in any key. The real
pieces are held out of the training: they say how alike songs are by chance. The closest cases are named.

examples:
  musicgen evaluate originality ensemble --data data/pop909
  musicgen evaluate originality runs/mine --data data/lieder --split validation --pieces 12 --json
""",
}


def add(parser: argparse.ArgumentParser, name: str) -> None:
    evaluation = EVALUATIONS[name]
    if name == "positions":
        parser.add_argument(
            "--tokens", type=int, metavar="N", help="probe with N tokens (default: the vocabulary)"
        )
        add_study(parser, results=evaluation.results)
    elif name in ("extrapolation", "ablation"):
        add_data(parser)
        add_length(parser)
        add_choice(parser, evaluation.pieces)
        if name == "extrapolation":
            parser.add_argument(
                "--control", action="store_true",
                help="predict what lies past the trained length from the last tokens alone, too",
            )  # fmt: skip
        else:
            parser.add_argument(
                "--layers",
                action="store_true",
                help="take away one layer at a time instead of parts",
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
        help="pieces left out: those that --pieces N takes of any length, such as were measured before",
    )  # fmt: skip
    if evaluation.bars is not None:
        parser.add_argument("--prompt-bars", type=int, default=8, metavar="N", help="bars given")
        parser.add_argument(
            "--bars", type=int, default=evaluation.bars, metavar="N", help="bars written"
        )
    if name == "form":
        parser.add_argument(
            "--piece-bars", type=int, metavar="N",
            help="bars after the prompt that pieces have at least, to write more than they have (default: all)",
        )  # fmt: skip
    elif name == "infilling":
        parser.add_argument(
            "--gap", type=int, default=4, metavar="N",
            help=f"bars taken out, {MOST_BARS_OF_A_GAP} at most",
        )  # fmt: skip
    elif name == "accompaniment":
        from evaluation.study.accompaniment import ROLES

        parser.add_argument(
            "--hide", nargs="+", choices=ROLES, default=list(ROLES), metavar="PART",
            help=f"the parts to hide, one at a time: {', '.join(ROLES)} (default: all)",
        )  # fmt: skip
        parser.add_argument("--bars", type=int, default=8, metavar="N", help="of a piece")
        parser.add_argument(
            "--hear-chords",
            action="store_true",
            help="give the chords that are recognised in the other parts, instead of the piece's own",
        )
    if name not in ("accompaniment", "plan"):
        parser.add_argument(
            "--recall", type=float, default=MUSICAL.recall, metavar="R",
            help="how much counts what is recalled of the piece, 0 to 1",
        )  # fmt: skip
    if name in ("form", "realism", "originality"):
        parser.add_argument(
            "--no-plan", dest="planned", action="store_false",
            help="have bars state no plan before their notes; no end can be asked for then",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> None:
    """Do the jobs, write the results and print the table."""
    from evaluation.study.experiments import models_of
    from evaluation.tables import table_of

    name: str = arguments.evaluation
    experiment = experiment_of(models_of(arguments.models), arguments)
    result = conducted_alone(name, experiment, arguments, EVALUATIONS[name].doing)
    if not any(model.get("table", True) for model in result["models"]):
        raise ValueError(
            f"in none of the {result['pieces']} pieces of {result['data']} is there anything to measure: "
            "a part can be hidden only where there is another one"
        )
    if arguments.output is not None:
        _write(arguments.output, name, result)
    text = output.captioned(table_of(name, result), across=name != "positions")
    shown = result["models"] if name == "ablation" else result
    output.write_either(arguments.json, shown, text, *_remarks(name, result))
    if name == "originality" and not arguments.json:
        _print_closest(result)


def experiment_of(models: Sequence[Playable], arguments: argparse.Namespace) -> Experiment:
    """Return the experiment that a command asks for."""
    from evaluation.study import (
        ablation,
        accompaniment,
        experiments,
        form_and_infilling,
        losses,
        originality,
        realism,
    )
    from evaluation.study.piece_jobs import Choice

    device = chosen_device(arguments)
    if arguments.evaluation == "positions":
        check_counts(arguments, "tokens")
        drawn = arguments.output is not None
        how = {"tokens": arguments.tokens, "seed": arguments.seed, "drawn": drawn}
        return experiments.positions(models, device=device, **how)
    name: str = arguments.evaluation
    if name == "infilling" and arguments.gap > MOST_BARS_OF_A_GAP:
        raise ValueError(
            f"--gap is {arguments.gap}; {MOST_BARS_OF_A_GAP} bars at most can be filled at once"
        )
    if "recall" in arguments:
        replace(MUSICAL, recall=arguments.recall)  # or a sentence on what is wrong
    check_counts(arguments, "length", "prompt-bars", "bars", "piece-bars", "gap", "pieces")
    if getattr(arguments, "skip", 0) < 0:
        raise ValueError(f"--skip is {arguments.skip}; it must be 0 or more")
    data = str(arguments.data or data_of(models))
    choice = from_options(Choice, arguments, data=data, device=device)
    makers: dict[str, Any] = {
        "extrapolation": losses.extrapolation,
        "ablation": ablation.ablation,
        "form": form_and_infilling.form,
        "infilling": form_and_infilling.infilling,
        "accompaniment": accompaniment.accompaniment,
        "plan": form_and_infilling.plan,
        "realism": realism.realism,
        "originality": originality.originality,
    }
    asked = {option: getattr(arguments, option) for option in OPTIONS if option in arguments}
    return makers[name](models, choice, **asked)


def _write(folder: Path, name: str, result: dict[str, Any]) -> None:
    """Write a result as JSON and CSV, and its figures."""
    from evaluation import figures
    from evaluation.tables import position_rows, rows_of
    from tokenization.whole_file import write_bytes, write_csv, write_json, write_text

    write_json(folder / f"{name}.json", result)
    write_csv(folder / f"{name}.csv", rows_of(name, result))
    drawn = {}
    if name == "extrapolation":
        write_csv(folder / "extrapolation_by_position.csv", position_rows(result))
        drawn = {name: figures.extrapolation(result)}
        write_text(folder / "extrapolation.svg", figures.svg(drawn[name], name))
    elif name == "positions":
        drawn = {"probes": figures.probes(result)}
        models = result["models"]
        for file, model in zip(_file_names(models), models, strict=True):
            drawn |= {f"{kind}-{file}": one for kind, one in figures.pictures(model).items()}
    for file, one in drawn.items():
        write_bytes(folder / f"{file}.png", figures.png(one))


def _file_names(models: list[dict[str, Any]]) -> list[str]:
    """Return a name for each model's pictures; where two would be the same, the later one gets a number."""
    names: list[str] = []
    for model in models:
        plain = re.sub(r"[^\w.+-]+", "-", model["model"])
        others = (f"{plain}-{number}" for number in count(2))
        names.append(next(name for name in chain([plain], others) if name not in names))
    return names


def _remarks(name: str, result: dict[str, Any]) -> list[str]:
    """Return the sentence under a table that says which pieces were taken."""
    from tokenization.wording import counted

    if name == "extrapolation":
        data = result["data"]
        pieces = f"{counted(data['pieces'], 'piece')} of {data['folder']}"
        return [f"{pieces}, {data['whole']} of the whole length."]
    if "pieces" not in result:
        return []
    return [f"{counted(result['pieces'], 'piece')} of {result['data']}."]


def _print_closest(found: dict[str, Any]) -> None:
    """Print the passages written that are most like one of the training pieces."""
    from evaluation.study.originality import closest_cases

    for model in found["models"]:
        output.write(f"\nclosest passages of {model['model']}")
        cases = [
            [f"{case['likeness']:.2f}", case["piece"], case["bar"] + 1, case["of"], case["at"] + 1]
            for case in closest_cases(model["rows"])
        ]
        output.write(output.table([["alike", "piece", "bar", "training piece", "bar"], *cases]))
