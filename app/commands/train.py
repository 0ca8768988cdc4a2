"""`musicgen train`: train a model as a configuration says, or go on with a run."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output

if TYPE_CHECKING:
    from musicgen.performer import Performer
    from training.config import RunConfig
    from training.loop import Progress, Run
    from training.optimiser import Limit

EXAMPLES = """\
examples:
  musicgen train groove-sine-spe
  musicgen train mine.yaml --set data.folder=data/mine --preset tiny
  musicgen train finetune --start ensemble --set data.folder=data/mine
  musicgen train runs/groove-sine-spe --resume
"""
PLAIN_SECONDS = 60.0  # between two plain lines

Samples = Callable[["Performer", int], list[str]]  # writes samples of music, returns remarks


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG", help="a YAML file, the name of a shipped one, or a run's folder"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change a value of the configuration, as in data.batch=8; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--start",
        metavar="MODEL",
        help="a trained model that learns on: of `musicgen models`, or a folder",
    )
    parser.add_argument("--preset", help="size of the model: tiny, small, …; as model.preset")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument(
        "--seconds", type=float, metavar="N",
        help="train for so long from where the run stands, the last part with a falling rate; "
        "--resume goes on from before that part",
    )  # fmt: skip
    parser.add_argument(
        "--tail", type=float, metavar="SHARE",
        help="of the seconds, in which the rate falls (default: optimiser.tail)",
    )  # fmt: skip
    parser.add_argument("--device", help="cpu, cuda, mps, or auto")
    parser.add_argument("--devices", type=int, metavar="N", help="GPUs, or processes on a CPU")
    parser.add_argument("--strategy", help="ddp: every device has the model; fsdp: a part of it")
    parser.add_argument(
        "--precision", help="32-true, bf16-mixed, or auto: the latter where the device has it"
    )
    parser.add_argument("--seed", type=int, help="of everything random (default: 1)")
    output.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Train, and say what came out."""
    from training.optimiser import Limit

    if arguments.tail is not None and arguments.seconds is None:
        raise ValueError("--tail is a share of --seconds; give both")
    limit = None
    if arguments.seconds is not None:
        limit = Limit(seconds=arguments.seconds, tail=arguments.tail)
    result = train(configured(arguments), resume=arguments.resume, limit=limit)
    if result is None:  # not the first process
        return
    text = (
        f"{result['model']}: validation loss {result['validation_loss']:.4f} nats a token, "
        f"from step {result['best_step']:,} of {result['step']:,} ({result['ending']})"
    )
    output.write_either(arguments.json, result, text)


def configured(arguments: argparse.Namespace) -> RunConfig:
    """Return the configuration that a command line names."""
    from training.config import CONFIG, find, read

    options = {
        "start": arguments.start,
        "model.preset": arguments.preset,
        "device.accelerator": arguments.device,
        "device.devices": arguments.devices,
        "device.strategy": arguments.strategy,
        "device.precision": arguments.precision,
        "seed": arguments.seed,
    }
    changes = [*arguments.changes]
    changes += [f"{key}={value}" for key, value in options.items() if value is not None]
    config = read(find(arguments.config), changes)
    is_run = (Path(arguments.config) / CONFIG).is_file()  # which may have been moved since
    if is_run and not any(change.startswith("run=") for change in changes):
        config = replace(config, run=arguments.config)
    return config


def train(config: RunConfig, *, resume: bool, limit: Limit | None = None) -> dict[str, Any] | None:
    """Train a model; return what came out, in the first process. KeyboardInterrupt says that it was stopped."""
    from training.devices import is_first_process

    try:
        return _train(config, resume=resume, limit=limit)
    except (ValueError, OSError):
        if is_first_process():
            raise
        raise SystemExit(2) from None  # the first process says it for all


def _train(config: RunConfig, *, resume: bool, limit: Limit | None) -> dict[str, Any] | None:
    from training.data.batches import Batches
    from training.devices import check_device, is_first_process, start_fabric, with_precision
    from training.initial_model import model_config
    from training.loop import Run
    from training.run_folder import check_folder, run_folder

    # All that may be wrong is looked at before anything is written, or other processes are started; first of all the
    # folder, since what a run is checked against may lie in it.
    config, choice = with_precision(config, resume=resume)
    first = is_first_process()
    remarks = check_folder(config, resume=resume) if first else []
    check_device(config.device)
    count = config.device.devices * config.device.nodes
    batches = Batches(config.data, config.seed, processes=count)
    model_config(config, batches.language)
    if first:
        batches.shards.verify()
    with run_folder(Path(config.run)) if first else nullcontext():
        output.remark(choice if first else [])
        fabric = start_fabric(config.device)
        batches.process = fabric.global_rank
        return _fit(Run(config, fabric, batches, limit), remarks)


def _fit(run: Run, remarks: list[str]) -> dict[str, Any] | None:
    from training import run_folder
    from training.curves import write_curves
    from training.loop import MODEL, STOPPED

    first = run.fabric.is_global_zero
    of = f" of {run.steps:,}" if run.schedule.seconds is None else ""
    resumed = run.resume()
    if first:
        output.remark(_begun(run, remarks))
        going = f"Going on from step {run.state.step:,}{of}."
        output.remark([going] if resumed else [])

    said = run.compile()
    output.remark(said if first else [])
    bar = output.progress_bar("", timed=False) if first else nullcontext(lambda *_: None)
    with bar as show, _signals(run):
        ending = run.fit(TrainingLine(partial(_write_samples, run), show))
    if not first:
        return None
    state = run.state
    if ending == STOPPED:
        found = run_folder.newest(run.folder)
        saved = state.step if found is None else int(found.name)
        output.remark([f"Saved at step {saved:,}{of}; --resume goes on."])
        raise KeyboardInterrupt
    write_curves(run.folder, run.config.data.trained_length)
    return {
        "run": str(run.folder),
        "model": str(run.folder / MODEL),
        "ending": ending,
        "step": state.step,
        "best_step": state.best_step,
        "validation_loss": state.best_loss,
        "seconds": round(state.seconds, 1),
    }


def _begun(run: Run, remarks: list[str]) -> list[str]:
    """Write what the run is trained with, now that it fits; return what is to be said, also where no step is left."""
    from training.run_folder import differences, write_config

    if not run.is_over:
        write_config(run.config)
        warmup = run.config.optimiser.warmup
        if run.schedule.seconds is None and warmup >= run.steps:
            rises = f"optimiser.warmup is {warmup} of {run.steps} steps"
            return [*remarks, f"The learning rate rises to the end: {rises}."]
        return remarks
    changes = "; ".join(differences(run.config))
    stays = f"No step is left to be made, and {run.folder} stays as it was trained, without what you change"
    return [f"{stays}: {changes}."] if changes else []


def _write_samples(run: Run, model: Performer, step: int) -> list[str]:
    """Write samples of music, and draw what the model can do."""
    validation = run.config.validation
    if not validation.samples:
        return []
    from training.samples import ABILITIES, draw_abilities, player_of, write_samples

    folder, size = run.folder / "samples", validation.sample_tokens
    try:
        player = player_of(model, run.batches, step)
        paths = write_samples(player, folder, step, count=validation.samples, tokens=size)
        if {*player.language.abilities} >= ABILITIES:
            draw_abilities(player, run.batches, folder, step)
    except Exception as error:  # no sample is worth the training
        reason = " ".join(str(error).split()) or type(error).__name__
        return [f"No samples of music are written at step {step:,}: {reason}"]
    return [] if paths else ["The samples are without notes so far."]


@contextmanager
def _signals(run: Run) -> Iterator[None]:
    """Let Ctrl-C and a request to terminate end the run between two steps; the second one ends it at once."""

    def ask(number: int, frame: object) -> None:
        run.stop()
        for name in before:
            signal.signal(name, signal.default_int_handler)
        if run.fabric.is_global_zero:
            output.remark(["Saving after the step under way; once more ends at once."])

    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    for name in before:
        signal.signal(name, ask)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


class TrainingLine:
    """Listens to a run, and says how far it is: on a terminal by what `show`s it, elsewhere now and then in a line."""

    def __init__(self, samples: Samples, show: Callable[[int, int, str], None]) -> None:
        self._samples, self._show = samples, show
        self._begun: tuple[int, float] | None = None  # the first step seen, and when
        self._said: set[str] = set()
        self._text = ""
        self._last_line = -PLAIN_SECONDS

    def stepped(self, step: int, steps: int) -> None:
        """Move the bar."""
        self._begun = self._begun or (step, time.monotonic())
        self._show(step, steps, self._text)

    def progress(self, progress: Progress) -> None:
        """Renew the numbers."""
        step, steps, now = progress.step, progress.steps, time.monotonic()
        parts = [f"loss {progress.loss:.4f}", f"{progress.tokens_per_second:,.0f} tokens/s"]
        if progress.validation is not None:
            parts.append(f"validation {progress.validation:.4f}")
        if self._begun is not None and step > self._begun[0]:
            pace = (now - self._begun[1]) / (step - self._begun[0])  # validations and all
            parts.append(f"{_duration(pace * (steps - step))} left")
        self._text = ", ".join(parts)
        self._show(step, steps, self._text)
        due = now - self._last_line >= PLAIN_SECONDS or step == steps
        if due and not sys.stderr.isatty():
            self._last_line = now
            output.remark([f"step {step:,} of {steps:,}: {self._text}"])

    def validated(self, model: Performer, step: int) -> None:
        """Have samples written; a remark on them is made once."""
        remarks = [said for said in self._samples(model, step) if said not in self._said]
        self._said.update(remarks)
        output.remark(remarks)


def _duration(seconds: float) -> str:
    """Return a time as people say it, such as 2 h 05 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
