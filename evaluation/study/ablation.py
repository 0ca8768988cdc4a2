"""Ablation of trained models: the change of the loss on the same pieces when a part of the model is removed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from evaluation.metrics.estimates import estimate
from evaluation.study.experiments import Experiment, job_of, probed_length
from evaluation.study.extrapolation import Loss, piece_loss
from evaluation.study.piece_jobs import Choice, held_out, model_of
from musicgen.common.learning import generator_from
from musicgen.performer import Performer
from musicgen.playable import Playable
from musicgen.position import Position
from musicgen.position.base import MusicalFrequencies
from musicgen.position.lrpe import Lrpe
from musicgen.position.permuteformer import PermutationPowers
from musicgen.position.rope import Rope
from musicgen.position.spe.sine import SineSpe
from tokenization.prepared import Prepared

WHOLE, LAYER = "whole", "layer "
OPEN, SHUT = 60.0, -1000.0  # arguments of a sigmoid that give 1 and 0
_OTHER_NOISE = 1_000_003  # added to the seed to redraw the noise


def parts_of(model: Performer, *, layers: bool = False) -> list[str]:
    """Return the names of the removable parts of a model, or of its layers."""
    if layers:
        return [f"{LAYER}{number}" for number in range(1, model.config.layers + 1)]
    return [part for part, is_present in _IS_PRESENT.items() if is_present(model)]


@torch.no_grad()
def without(model: Performer, part: str, seed: int = 0) -> Performer:
    """Return a copy of a model without a part; the seed is for shuffling.

    For redrawn noise the copy is unchanged, and the caller changes the seed of the loss.
    """
    changed = copy.deepcopy(model)
    position = changed.position
    if part.startswith(LAYER):
        layer = changed.blocks[int(part.removeprefix(LAYER)) - 1]
        # The layer becomes the identity: nothing is added to the residual stream.
        for name in ("attention.output", "feedforward.output"):
            for parameter in layer.get_submodule(name).parameters():
                parameter.zero_()
    elif part in REALISATIONS:
        number = int(REALISATIONS[part] * model.config.position.realisations)
        return with_realisations(model, max(1, number), seed)
    elif part == "gates open":
        changed.get_parameter("position.gates").fill_(OPEN)
    elif part == "positions all one":
        _equate_positions(position)
    elif part == "frequencies shuffled":
        _shuffle(position, generator_from(seed))
    elif part == "recall":
        changed.recall = None
    elif part == "metric heads cut":
        for block in changed.blocks:
            output: Any = block.get_submodule("attention.output")
            output.weight[:, model.config.width :] = 0
    elif part == "decay off":
        position.fixed_decay = None
    return changed


def with_realisations(model: Performer, realisations: int, seed: int = 0) -> Performer:
    """Return a model with the same weights and another number of realisations of its stochastic encoding.

    The random features are redrawn from the seed, since their input width is the number of realisations.
    """
    position = replace(model.config.position, realisations=realisations)
    other = Performer(replace(model.config, position=position), seed)
    other.to(model.embedding.weight.device)
    fresh = other.state_dict()
    same = {name: t for name, t in model.state_dict().items() if t.shape == fresh[name].shape}
    other.load_state_dict({**fresh, **same}, assign=True)
    return other.train(model.training)


def changes(whole: Sequence[Loss], changed: Sequence[Loss]) -> dict[str, Any]:
    """Return the change of the loss within the trained length and past it, over the pieces that reach the stretch."""
    found = {}
    for stretch, part in enumerate(("within", "past")):
        differences = [
            (b["sums"][stretch] - a["sums"][stretch]) / a["tokens"][stretch]
            for a, b in zip(whole, changed, strict=True)
            if len(a["sums"]) > stretch and a["tokens"][stretch]
        ]
        found[part] = estimate(differences)
    return found


def _has_waves(position: Position) -> bool:
    rotates = isinstance(position, Lrpe) and position.config.type != "permutation"
    return rotates or isinstance(position, SineSpe | Rope)


def _shuffle(position: Position, generator: Generator) -> None:
    learned = _learned(position)
    if learned is None:
        tensor = _frequencies(position)
        rows = tensor.flatten(1) if tensor.ndim == 4 else tensor.view(1, -1)  # one per slot
        order = torch.randperm(rows.shape[1], generator=generator)
        tensor.copy_(rows[:, order].view_as(tensor))
        return
    order = torch.randperm(learned.harmonics.numel(), generator=generator)
    period = learned.period.expand_as(learned.harmonics)
    learned.period = period.flatten()[order].view_as(learned.harmonics)
    learned.harmonics = learned.harmonics.flatten()[order].view_as(learned.harmonics)
    offsets = learned.offsets.view(-1, len(order))
    learned.offsets.copy_(offsets[:, order].view_as(learned.offsets))


def _equate_positions(position: Position) -> None:
    """Change an encoding so that it encodes every token as if it were the first."""
    for module in position.modules():
        if isinstance(module, PermutationPowers):
            module.permutation.copy_(torch.arange(module.permutation.shape[1]))
            module.find_cycles()
    learned = _learned(position)
    if learned is not None:
        learned.harmonics.zero_()
        learned.offsets.zero_()
    elif _has_waves(position):
        _frequencies(position).fill_(SHUT if isinstance(position, SineSpe) else 0.0)


def _learned(position: Position) -> MusicalFrequencies | None:
    found = getattr(position, "learned", None)
    return found if isinstance(found, MusicalFrequencies) else None


def _frequencies(position: Position) -> Tensor:
    """Return the parameter that gives the frequencies over token positions."""
    names = {SineSpe: "raw_frequencies", Lrpe: "angles", Rope: "frequencies"}
    return next(
        getattr(position, name) for kind, name in names.items() if isinstance(position, kind)
    )


REDRAWN = "noise redrawn"
# Appendix D.4 of the paper varies the number of realisations at test time.
REALISATIONS = {"a quarter of the realisations": 0.25, "four times the realisations": 4}
_IS_PRESENT: dict[str, Callable[[Performer], bool]] = {
    "gates open": lambda m: hasattr(m.position, "gates"),
    "positions all one": lambda m: _has_waves(m.position) or hasattr(m.position, "powers"),
    "frequencies shuffled": lambda m: _has_waves(m.position),
    REDRAWN: lambda m: type(m.position).begin is not Position.begin,
    **dict.fromkeys(REALISATIONS, lambda m: hasattr(m.config.position, "realisations")),
    "recall": lambda m: m.recall is not None,
    "metric heads cut": lambda m: m.config.metre is not None,
    "decay off": lambda m: m.position.decay is not None,
}


def ablation(
    playables: Sequence[Playable],
    choice: Choice,
    *,
    length: int | None = None,
    layers: bool = False,
) -> Experiment:
    """Measure the change of the loss without each part or layer, within the trained length and past it."""
    able, chosen, facts = held_out(playables, choice, length)
    jobs = []
    for playable in able:
        border = min(probed_length(playable), facts["length"])
        common = {
            "edges": sorted({0, border, facts["length"]}),
            "seed": choice.seed,
            "layers": layers,
        }
        jobs += [
            job_of(playable, without_parts, choice.device, choice.prepared, row=row, **common)
            for row in chosen
        ]

    def compose(playable: Playable, results: list[dict[str, Loss]]) -> list[dict[str, Any]]:
        losses = {part: [one[part] for one in results] for part in results[0]}
        whole = losses.pop(WHOLE)
        return [
            {"model": playable.name, "part": part, **changes(whole, changed)}
            for part, changed in losses.items()
        ]

    return Experiment(jobs=jobs, compose=compose, prepared=choice.prepared, facts=facts)


def without_parts(
    *,
    model: str,
    data: str,
    row: int,
    edges: Sequence[int],
    seed: int,
    device: str,
    layers: bool,
) -> dict[str, Loss]:
    """Return the losses of a piece with the whole model, and without each of its parts, by part."""
    performer, ids = model_of(model, device).performer, np.asarray(Prepared.open(data).ids(row))
    found = {}
    for part in [WHOLE, *parts_of(performer, layers=layers)]:
        part_seed = seed + (_OTHER_NOISE if part == REDRAWN else 0)
        changed = performer if part == WHOLE else without(performer, part, part_seed)
        found[part] = piece_loss(changed, ids, edges, part_seed + row)
    return found
