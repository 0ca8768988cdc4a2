"""The evaluations of whole pieces: real ones are continued, filled or accompanied, and compared with what was written.

`musicgen evaluate form`, `infilling`, `accompaniment`, `plan`, `realism` and `originality`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from app import output
from app.commands.evaluate.study_options import (
    add_choice,
    add_data,
    add_study,
    command_line,
    conducted,
    data_of,
    write_results,
)
from app.options import check_counts, chosen_device, from_options
from musicgen.generation.sampling import MUSICAL

MOST_BARS_OF_A_GAP = 16
# Of each evaluation: how many pieces of which split it takes, how many bars it writes after a prompt (None: it has
# options of its own), and what its progress bar says.
EVALUATIONS: dict[str, tuple[int, str, int | None, str]] = {
    "form": (20, "validation", 56, "Continuing"),
    "infilling": (20, "validation", None, "Filling"),
    "accompaniment": (20, "test", None, "Accompanying"),
    "plan": (20, "test", 16, "Continuing"),
    "realism": (40, "test", 24, "Continuing"),
    "originality": (20, "test", 24, "Continuing"),
}
# Those that an experiment takes, as far as it has them.
OPTIONS = ("prompt_bars", "bars", "piece_bars", "gap", "hide", "hear_chords", "recall", "planned")
EXAMPLES = {
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
    pieces, split, bars, _ = EVALUATIONS[name]
    add_study(parser, results="the results as JSON and CSV")
    add_data(parser)
    add_choice(parser, pieces, split)
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N",
        help="pieces left out: those that --pieces N takes of any length, such as were measured before",
    )  # fmt: skip
    if bars is not None:
        parser.add_argument("--prompt-bars", type=int, default=8, metavar="N", help="bars given")
        parser.add_argument("--bars", type=int, default=bars, metavar="N", help="bars written")
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
    """Write the music, measure it, and print the table, a row a model and measure."""
    from evaluation.study import accompaniment, form_and_infilling, originality, realism
    from evaluation.study.experiments import models_of
    from evaluation.study.piece_jobs import Choice
    from evaluation.tables import whole_pieces_rows, whole_pieces_table
    from tokenization.wording import counted

    name: str = arguments.evaluation
    if name == "infilling" and arguments.gap > MOST_BARS_OF_A_GAP:
        raise ValueError(
            f"--gap is {arguments.gap}; {MOST_BARS_OF_A_GAP} bars at most can be filled at once"
        )
    if "recall" in arguments:
        replace(MUSICAL, recall=arguments.recall)  # or a sentence on what is wrong
    check_counts(arguments, "prompt-bars", "bars", "piece-bars", "gap", "pieces")
    models = models_of(arguments.models)
    if arguments.skip < 0:
        raise ValueError(f"--skip is {arguments.skip}; it must be 0 or more")
    asked = {option: getattr(arguments, option) for option in OPTIONS if option in arguments}
    data, device = str(arguments.data or data_of(models)), chosen_device(arguments)
    choice = from_options(Choice, arguments, data=data, device=device)
    makers: dict[str, Any] = {
        "form": form_and_infilling.form,
        "infilling": form_and_infilling.infilling,
        "accompaniment": accompaniment.accompaniment,
        "plan": form_and_infilling.plan,
        "realism": realism.realism,
        "originality": originality.originality,
    }
    experiment, facts = makers[name](models, choice, **asked)
    results, failures = conducted({name: experiment}, arguments, EVALUATIONS[name][-1])
    found = results[name]
    output.remark([*facts["left_out"], *failures])
    if not found["models"]:
        raise ValueError("no model could be measured" + "".join(f"; {why}" for why in failures))
    if not any(model["table"] for model in found["models"]):  # as where no part is to be hidden
        raise ValueError(
            f"in none of the {facts['pieces']} pieces of {facts['data']} is there anything to measure: "
            "a part can be hidden only where there is another one"
        )
    result = {"command": command_line(), **facts, **found, "failures": failures}
    if arguments.output is not None:
        write_results(arguments.output, name, result, whole_pieces_rows(name, result))
    text = output.captioned(whole_pieces_table(name, found))
    pieces = f"{counted(facts['pieces'], 'piece')} of {facts['data']}."
    output.write_either(arguments.json, result, text, pieces)
    if name == "originality" and not arguments.json:
        _print_closest(found)


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
