"""`musicgen train`: train a model from a configuration, or resume a run."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output

if TYPE_CHECKING:
    from training.config import RunConfig
    from training.devices import Devices
    from training.loop import Progress, Run
    from training.preference.run import PromptBatches

EXAMPLES = """\
examples:
  musicgen train groove-sine-spe
  musicgen train mine.yaml --set data.folder=data/mine --preset tiny
  musicgen train finetune --start ensemble --set data.folder=data/mine
  musicgen train preference --start ensemble
  musicgen train runs/groove-sine-spe --resume
"""
# Option → the configuration key that it sets, metavar, type and help.
SETTINGS: dict[str, tuple[str, str, type, str]] = {
    "start": ("start", "MODEL", str, "a trained model to start from: one of `musicgen models`, or a folder"),
    "preset": ("model.preset", "PRESET", str, "size of the model: tiny, small, …; sets model.preset"),
    "device": ("device.accelerator", "DEVICE", str, "cpu, cuda, mps, or auto"),
    "precision": (
        "device.precision", "PRECISION", str, "32-true, bf16-mixed, or auto: bf16-mixed if the device supports it",
    ),
    "seed": ("seed", "SEED", int, "random seed (default: 1)"),
}  # fmt: skip
UNLOGGED = 1.5  # times as long is waited for new numbers, before a step without them gets a line


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG",
        help="a YAML file, the name of a shipped configuration, or the folder of a run",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change a value in the configuration, such as data.batch=8; repeatable",
    )  # fmt: skip
    for option, (key, metavar, kind, text) in SETTINGS.items():
        parser.add_argument(f"--{option}", dest=key, metavar=metavar, type=kind, help=text)
    parser.add_argument("--resume", action="store_true", help="resume from the last checkpoint")
    parser.add_argument(
        "--seconds", type=float, metavar="N",
        help="train for N more seconds and decay the learning rate in the last part of them (optimiser.tail); "
        "--resume continues from before the decay",
    )  # fmt: skip
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Train, and print the result."""
    result = train(configured(arguments), resume=arguments.resume, seconds=arguments.seconds)
    if result is None:  # not the first process
        return
    text = (
        f"{result['model']}: validation loss {result['validation_loss']:.4f} nats per token, "
        f"at step {result['best_step']:,} of {result['step']:,} ({result['ending']})"
    )
    output.write_result(arguments.json, result, text)


def configured(arguments: argparse.Namespace) -> RunConfig:
    """Read the configuration that the command line names, and apply its changes."""
    from training.config import read_named

    given = {key: getattr(arguments, key) for key, *_ in SETTINGS.values()}
    changes = [*arguments.changes]
    changes += [f"{key}={value}" for key, value in given.items() if value is not None]
    return read_named(arguments.config, changes)


def train(
    config: RunConfig,
    *,
    resume: bool,
    seconds: float | None = None,
    clock: Callable[[], float] | None = None,
    again: str = "--resume",
) -> dict[str, Any] | None:
    """Train a model; return the result, in the first process only. Raises KeyboardInterrupt if it was stopped.

    `again` names what continues a stopped run.
    """
    from training.devices import processes

    try:
        return _train(config, resume=resume, seconds=seconds, clock=clock, again=again)
    except (ValueError, OSError):
        if processes()[0] == 0:
            raise
        raise SystemExit(2) from None  # the first process reports the error


def _train(
    config: RunConfig,
    *,
    resume: bool,
    seconds: float | None,
    clock: Callable[[], float] | None,
    again: str,
) -> dict[str, Any] | None:
    from training.data.batches import Batches
    from training.devices import Devices, check_device, processes, with_precision
    from training.initial_model import language_of, model_config
    from training.loop import Run
    from training.preference.run import PreferenceRun, PromptBatches
    from training.rehearsal import RehearsalRun
    from training.run_folder import check_folder, run_folder

    # Check everything before anything is written. The folder comes first, since it can have a run that the rest is
    # checked against.
    config = with_precision(config)
    process, count = processes()
    first = process == 0
    remarks = check_folder(config, resume=resume) if first else []
    check_device(config.device)
    own = {"process": process, "processes": count}
    compares = config.preference is not None
    batches = PromptBatches(config, **own) if compares else Batches(config.data, config.seed, **own)
    model_config(config, language_of(config, batches.shards))
    if first:
        batches.shards.verify()
    with run_folder(Path(config.run)) if first else nullcontext():
        devices = Devices(config.device)
        if isinstance(batches, PromptBatches):
            _prepare(batches, devices)
            run: Run = PreferenceRun(config, devices, batches, seconds, clock)
        elif config.rehearsal is not None:
            _draw(config, devices, again)
            run = RehearsalRun(config, devices, batches, seconds, clock)
        else:
            run = Run(config, devices, batches, seconds, clock)
        return _fit(run, remarks, again)


def _draw(config: RunConfig, devices: Devices, again: str) -> None:
    """Draw the takes that a run rehearses; a new run records its settings."""
    from training import run_folder
    from training.rehearsal import draw, forget_others, kept, settings

    if devices.is_first:
        folder = Path(config.run)
        if run_folder.newest(folder) is None:
            forget_others(config)
            run_folder.write_config(config)
        try:
            with output.progress_bar("Drawing takes") as progress:
                draw(config, progress)
        except KeyboardInterrupt:
            saved = f"{len(kept(folder))} of {settings(config).takes} takes"
            output.remark([f"Saved {saved}; continue with {again}."])
            raise
    devices.wait()


def _prepare(batches: PromptBatches, devices: Devices) -> None:
    """Draw and judge what preference training compares, each process its share; a new run records its settings."""
    from evaluation.teacher import doubts
    from training import run_folder
    from training.preference.takes import Takes

    if run_folder.newest(Path(batches.run.run)):
        return
    takes = Takes(batches.run, batches.shards)
    if devices.is_first:
        run_folder.write_config(batches.run)
    bar = output.progress_bar("", lines=False) if devices.is_first else nullcontext(lambda *_: None)
    with bar as show:
        lines = output.Lines()

        def progress(what: str, done: int, total: int) -> None:
            show(done, total, what)
            if devices.is_first and lines.is_due(done == total):
                output.remark([f"{what}: {done:,} of {total:,} prompts"])

        batches.prepare(takes, doubts, devices, progress)


def _fit(run: Run, remarks: list[str], again: str) -> dict[str, Any] | None:
    from training import run_folder
    from training.comparison import draw_runs
    from training.loop import MODEL, STOPPED

    first = run.devices.is_first
    of = f" of {run.steps:,}" if run.schedule.seconds is None else ""
    resumed = run.resume()
    if first:
        if not run.is_over:
            run_folder.write_config(run.config)
            output.remark(remarks)
        output.remark(
            [f"{'Resuming' if resumed else 'Starting'} from step {run.state.step:,}{of}."]
        )
        if run.is_over and (changes := run_folder.differences(run.config)):
            output.remark([f"The run is over, so this changes nothing: {'; '.join(changes)}."])

    compiling = run.compile()
    output.remark(compiling if first else [])
    bar = output.progress_bar("", lines=False) if first else nullcontext(lambda *_: None)
    with bar as show, _signals(run):
        ending = run.fit(TrainingProgress(show))
    if not first:
        return None
    state = run.state
    if ending == STOPPED:
        found = run_folder.newest(run.folder)
        saved = state.step if found is None else int(found.name)
        output.remark([f"Saved at step {saved:,}{of}; continue with {again}."])
        raise KeyboardInterrupt
    curves = run.folder / "curves.png"
    draw_runs({run.folder.name: [run.folder]}, curves, run.config.data.length)
    return {
        "run": str(run.folder),
        "model": str(run.folder / MODEL),
        "ending": ending,
        "step": state.step,
        "best_step": state.best_step,
        "validation_loss": state.best_loss,
        "seconds": round(state.seconds, 1),
    }


@contextmanager
def _signals(run: Run) -> Iterator[None]:
    """Stop the run between two steps on SIGINT or SIGTERM, and at once on the second signal."""
    if threading.current_thread() is not threading.main_thread():  # of a scheduler's worker
        yield
        return

    def ask(number: int, frame: object) -> None:
        run.stop()
        for name in before:
            signal.signal(name, signal.default_int_handler)
        if run.devices.is_first:
            output.remark(["Saving after this step; interrupt again to stop at once."])

    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    for name in before:
        signal.signal(name, ask)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


class TrainingProgress:
    """Reports the progress of a run: on a terminal with `show`, elsewhere with a line now and then."""

    def __init__(self, show: Callable[[int, int, str], None]) -> None:
        self._show, self._text, self._lines = show, "", output.Lines()
        self._known: Progress | None = None
        self._first: tuple[int, float] | None = None  # step of this session, and when it was over

    def stepped(self, step: int, steps: int) -> None:
        """Advance the bar."""
        self._first = self._first or (step, time.monotonic())
        self._show(step, steps, self._text)
        if step < steps and self._lines.is_due(False, UNLOGGED):
            self._line(step, steps)

    def progress(self, progress: Progress) -> None:
        """Update the numbers."""
        step, steps = progress.step, progress.steps
        self._known, self._text = progress, ", ".join(numbers(progress, step))
        self._show(step, steps, self._text)
        if self._lines.is_due(step == steps):
            self._line(step, steps)

    def _line(self, step: int, steps: int) -> None:
        """Print the step, the newest numbers and, by the pace of this session, how many minutes are left."""
        told = numbers(self._known, step) if self._known else []
        first, began = self._first or (step, 0.0)
        if first < step < steps:
            minutes = (time.monotonic() - began) / (step - first) * (steps - step) / 60
            told.append(f"{minutes:.1f} minutes left")
        output.remark([f"step {step:,} of {steps:,}" + (f": {', '.join(told)}" if told else "")])


def numbers(known: Progress, step: int) -> list[str]:
    """Return the newest numbers at a step, each with its own step if that is an earlier one."""

    def of(measured: int) -> str:
        return "" if measured == step else f" of step {measured:,}"

    told = [
        f"loss {known.loss:.4f}{of(known.step)}",
        f"{known.tokens_per_second:,.0f} {known.unit}/s",
    ]
    if known.validation is not None and known.validated is not None:
        told.append(f"validation {known.validation:.4f}{of(known.validated)}")
    return told
