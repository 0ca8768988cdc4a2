"""What both stochastic encodings share (SPE; Liutkus et al., 2021): the scale, the gate, the flow.

A code q̄, k̄ of R realisations, whose products q̄_{d,m}·k̄_{d,n} realise a template P_d(m − n), is
contracted with queries and keys: q̂_{m,r} = Σ_d q_{m,d} q̄_{d,m,r} (equations 16, 17). A gate δ a
feature mixes in ε, which knows no position: √(1 − δ) q̄ + √δ ε (equations 24, 25). It distributes
over the sum, so no layer has a code of its own: its q is scaled, not the code.

A code as a tensor holds N·H·D·R numbers, so the whole sequence of a training step is contracted
without one where that can be (sine), and with one for all layers where it cannot (convolution).
Generation asks for one position after the other: there the code of the next few is made ahead, with
ε as D further rows, and a layer's work is one small product a side, of each row with the code of its
own sequence. In musical time the rows of a sequence stand at times of their own, and nobody knows the
next: there the code of a tick is made when a row first comes to it, and kept while one is there.

H heads, D head width, R realisations, S slots: 1, or one a layer where layers do not share.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from musicgen.position.base import Position, Shape, Window
from tokenization.records import check_fields

Ticks = tuple[int, int]  # of a row's query and key


@dataclass(frozen=True, kw_only=True)
class RowCodes:
    """The codes of one token a row, each of its own sequence.

    They are of queries and keys together, (2H, 2D, R), or, at two times, (H, 2D, R) each.
    """

    rows: tuple[list[tuple[Tensor, ...]], ...]  # a slot each, a row each
    sides_mix: tuple[Tensor, ...]  # as that of SpeCode


def at_ticks(codes: Sequence[Any], ticks: Sequence[Ticks], slot: int) -> list[tuple[Tensor, ...]]:
    """Look up the codes of rows at their ticks."""
    return [_of_sides(code.ticks[slot], *own) for code, own in zip(codes, ticks, strict=True)]


def _of_sides(ticks: dict[int, Tensor], query: int, key: int) -> tuple[Tensor, ...]:
    """Return the codes of a query and a key, as one where they stand at the same tick, as most do."""
    if query == key:
        return (ticks[query],)
    return ticks[query].chunk(2)[0], ticks[key].chunk(2)[1]


SHORT = 16  # a window of no more positions, without gradients, is a step of generation
AHEAD = 32  # positions that are made in one go then, or
AHEAD_UNSHARED = 8  # where there is a code a layer to be kept


@dataclass(frozen=True, kw_only=True)
class SpeConfig:
    """The fields that both stochastic encodings have."""

    realisations: int = 64  # R
    gated: bool = True
    shared: bool = True  # one code for all layers

    def __post_init__(self) -> None:
        check_fields(self, "realisations")


Placement = Callable[..., tuple[Tensor, Tensor]]
"""(q, k, first, gains) → both, (B, T, H, D) each, times the gains, (H, D), if there are some, contracted with the rows
from `first` of the code of a whole sequence, which is in whatever form is cheapest to contract: (B, T, H, R) each."""


@dataclass(frozen=True, kw_only=True)
class SpeCode:
    """One draw, and what was made ready of it; it belongs to the parameters it was covered with."""

    noise: tuple[Any, ...]  # a slot each
    gate_noise: Tensor | None  # ε, (S, H, D, R)
    mix: tuple[Tensor, ...] = ()  # √(1 − δ) and √δ, (H, 2, D), a layer each
    start: int = 0
    long: tuple[Placement, ...] = ()  # a slot each; empty where layers make their own
    times: Tensor | None = None  # of the window, in musical time, (2, B, T)
    ahead: tuple[Window, ...] = ()  # a slot each: q̄ over k̄, both with ε, (T, 2H, 2D, R)
    # A slot each: q̄ over k̄ of the ticks where rows are, with ε, (2H, 2D, R).
    ticks: tuple[dict[int, Tensor], ...] = ()
    rows: tuple[tuple[int, int], ...] = ()  # at which ticks a row's query and key are
    sides_mix: tuple[Tensor, ...] = ()  # … and `mix` for them, (2H, 2, D)


class StochasticPosition(Position):
    """Contract queries and keys with a gated code; subclasses say how a code is drawn and made."""

    def __init__(self, config: SpeConfig, shape: Shape) -> None:
        super().__init__(config, shape)
        self.realisations = config.realisations  # may be set to another number after training
        self.slots = 1 if config.shared else shape.layers
        self.ahead = AHEAD if config.shared else AHEAD_UNSHARED
        if config.gated:
            self.gates = nn.Parameter(torch.randn(shape.layers, shape.heads, shape.head_width))

    @abstractmethod
    def draw(self, generator: Generator) -> Any:
        """Draw the noise of one slot."""

    @abstractmethod
    def long(self, noise: Any, slot: int, start: int, stop: int, times: Tensor | None) -> Placement:
        """Make the code of a whole sequence, through which gradients reach the parameters."""

    @abstractmethod
    def materialise(self, noise: Any, slot: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return q̄ and k̄ of a few positions, scaled, in the parameters' type: (T, H, D, R) each."""

    @property
    def qk_width(self) -> int:
        """The realisations take the place of the head's own width."""
        return self.realisations

    @property
    def scale(self) -> float:
        """(DR)^-¼, by which either side is multiplied."""
        return (self.shape.head_width * self.realisations) ** -0.25

    def begin(self, generator: Generator) -> SpeCode:
        """Draw the noise of one sequence and its ε, the same for queries, keys and positions."""
        noise = tuple(self.draw(generator) for _ in range(self.slots))
        if not self.config.gated:
            return SpeCode(noise=noise, gate_noise=None)
        size = (self.slots, self.shape.heads, self.shape.head_width, self.realisations)
        drawn = torch.randn(size, generator=generator, device=generator.device)
        return SpeCode(noise=noise, gate_noise=moved(drawn, self.gates) * self.scale)

    def cover(self, code: SpeCode, start: int, stop: int, times: Tensor | None = None) -> SpeCode:
        """Make the positions ready, in the form that suits their number."""
        times = times if self.musical else None
        if not torch.is_grad_enabled():
            if times is not None and stop - start == 1:
                rows = tuple(zip(*times.squeeze(-1).tolist(), strict=True))
                return self._cover_ticks(code, rows)
            if times is None and stop - start <= SHORT:
                return self._cover_ahead(code, start, stop)
        code = replace(
            code, mix=self._mix(), start=start, times=times, ahead=(), ticks=(), sides_mix=()
        )
        if not self.config.shared:  # so many codes at once would not fit: each layer makes its own
            return replace(code, long=())
        return replace(code, long=(self.long(code.noise[0], 0, start, stop, times),))

    def qk(
        self, q: Tensor, k: Tensor, code: SpeCode, start: int, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Contract with the layer's gated code: (B, T, H, D) → (B, T, H, R)."""
        slot = 0 if self.config.shared else layer
        if code.ticks:
            codes = at_ticks([code] * len(q), code.rows, slot)
            rows = torch.stack([torch.cat(sides) for sides in codes])  # (B, 2H, D or 2D, R)
            qk = torch.cat([q, k], 2)[:, 0]  # (B, 2H, D)
            if code.sides_mix:
                qk = _beside(qk, code.sides_mix[layer])
            placed = qk.to(rows.dtype).unsqueeze(2) @ rows  # (B, 2H, 1, R)
            placed_q, placed_k = placed.transpose(1, 2).chunk(2, 2)
            return placed_q, placed_k
        if code.ahead:
            (rows,) = code.ahead[slot].at(start, q.shape[1])
            qk = torch.cat([q, k], 2)  # (B, T, 2H, D)
            if code.sides_mix:
                qk = _beside(qk, code.sides_mix[layer])
            placed_q, placed_k = _contract_step(qk, rows).chunk(2, 2)
            return placed_q, placed_k
        if code.long:
            place, first = code.long[slot], start - code.start
        else:
            first, stop, times = start - code.start, start + q.shape[1], code.times
            times = None if times is None else times[..., first : first + q.shape[1]]
            place, first = self.long(code.noise[slot], slot, start, stop, times), 0
        if code.gate_noise is None:
            return place(q, k, first)
        keep, let = code.mix[layer].unbind(1)  # (H, D) each
        placed_q, placed_k = place(q, k, first, keep)
        noise = code.gate_noise[slot].to(placed_q.dtype)
        gate_q, gate_k = (
            torch.einsum("bthd,hdr->bthr", (x * let).to(noise.dtype), noise) for x in (q, k)
        )
        return placed_q + gate_q, placed_k + gate_k

    def of_layer(self, code: SpeCode, layer: int) -> tuple[SpeCode, int]:
        """Return the code with the layer's gate alone; where layers do not share, as it is."""
        if not self.config.shared:
            return code, layer
        return replace(code, mix=code.mix[layer : layer + 1]), 0

    def cover_rows(
        self, codes: Sequence[SpeCode], positions: Sequence[int], times: Tensor | None = None
    ) -> tuple[RowCodes, Sequence[SpeCode]]:
        """Cover each sequence once; its rows find their codes there."""
        if times is not None and self.musical:
            ticks = list(zip(*times.squeeze(-1).tolist(), strict=True))
            of_sequence: dict[int, list[int]] = defaultdict(list)
            for row, code in enumerate(codes):
                of_sequence[id(code)].append(row)
            after = list(codes)
            for rows in of_sequence.values():
                covered = self._cover_ticks(codes[rows[0]], tuple(ticks[row] for row in rows))
                for row in rows:
                    after[row] = covered
            found = tuple(at_ticks(after, ticks, slot) for slot in range(self.slots))
            return RowCodes(rows=found, sides_mix=after[0].sides_mix), after
        known: dict[tuple[int, int], tuple[SpeCode, list[tuple[Tensor, ...]]]] = {}
        for code, at in zip(codes, positions, strict=True):
            if (id(code), at) not in known:
                covered = self._cover_ahead(code, at, at + 1)
                known[id(code), at] = covered, [(x.rows[0][at - x.start],) for x in covered.ahead]
        each = [known[id(code), at] for code, at in zip(codes, positions, strict=True)]
        found = tuple([own[slot] for _, own in each] for slot in range(self.slots))
        return RowCodes(rows=found, sides_mix=each[0][0].sides_mix), [code for code, _ in each]

    def gate_template(self, template: Tensor, layer: int) -> Tensor:
        """Return δ + (1 − δ) template (equation 23) of a layer: (H, D, N) → (H, D, N)."""
        if not self.config.gated:
            return template
        gate = torch.sigmoid(self.gates[layer]).unsqueeze(-1)
        return gate + (1 - gate) * template

    def _cover_ahead(self, code: SpeCode, start: int, stop: int) -> SpeCode:
        """Make more positions than are asked for, where those made before end."""
        window = code.ahead[0] if code.ahead else None
        if window and window.start <= start and stop <= window.start + len(window.rows[0]):
            return code
        last = max((start // self.ahead + 1) * self.ahead, stop)
        ahead = tuple(self._ahead(code, slot, start, last) for slot in range(self.slots))
        return replace(code, long=(), ahead=ahead, sides_mix=self._sides_mix(code))

    def _cover_ticks(self, code: SpeCode, rows: tuple[tuple[int, int], ...]) -> SpeCode:
        """Make the ticks where the rows stand ready, those that were not; others are forgotten."""
        wanted = {tick for row in rows for tick in row}
        known = code.ticks or ({},) * self.slots
        ticks = tuple(self._ticks(code, slot, wanted, known[slot]) for slot in range(self.slots))
        return replace(code, long=(), ticks=ticks, rows=rows, sides_mix=self._sides_mix(code))

    def _ticks(
        self, code: SpeCode, slot: int, wanted: set[int], known: dict[int, Tensor]
    ) -> dict[int, Tensor]:
        """Each by itself, so that a row's code does not depend, in the last bit, on where the others are."""
        return {
            tick: known[tick]
            if tick in known
            else self._ahead(code, slot, tick, tick + 1).rows[0][0]
            for tick in wanted
        }

    def _sides_mix(self, code: SpeCode) -> tuple[Tensor, ...]:
        if code.sides_mix or not self.config.gated:
            return code.sides_mix
        return torch.stack(self._mix()).repeat(1, 2, 1, 1).unbind()

    def _ahead(self, code: SpeCode, slot: int, start: int, stop: int) -> Window:
        noise, gate = code.noise[slot], code.gate_noise
        q, k = self.materialise(noise, slot, start, stop)
        length, heads, width, realisations = q.shape
        rows = width if gate is None else 2 * width
        sides = q.new_empty(length, 2, heads, rows, realisations)
        sides[:, 0, :, :width], sides[:, 1, :, :width] = q, k
        if gate is not None:
            sides[..., width:, :] = gate[slot]
        return Window(start=start, rows=(sides.flatten(1, 2),))

    def _mix(self) -> tuple[Tensor, ...]:
        """√(1 − δ) and √δ by logarithms, so that a shut gate has a gradient of 0 and not NaN."""
        if not self.config.gated:
            return ()
        logarithms = torch.stack([F.logsigmoid(-self.gates), F.logsigmoid(self.gates)], 2)
        return torch.exp(logarithms / 2).unbind()


def _beside(x: Tensor, mix: Tensor) -> Tensor:
    """Return √(1 − δ) x and √δ x side by side: (..., D) and (..., 2, D) → (..., 2D)."""
    return (x.unsqueeze(-2) * mix).flatten(-2)


def contract(x: Tensor, code: Tensor) -> Tensor:
    """Sum over the features: (B, T, H, D), (T, H, D, R) → (B, T, H, R)."""
    return (x.to(code.dtype).permute(1, 2, 0, 3) @ code).permute(2, 0, 1, 3)


def _contract_step(x: Tensor, code: Tensor) -> Tensor:
    """Contract a step of generation, each row of the batch as if it were alone.

    A lone row is doubled: the kernel for one vector adds up in another order, and a variation would
    then depend, in the last bit, on how many others there are.
    """
    return contract(x, code) if len(x) > 1 else contract(torch.cat([x, x]), code)[:1]


def moved(drawn: Tensor, like: Tensor) -> Tensor:
    """Return what was drawn in the type and on the device of a parameter; nobody waits for a GPU to take it."""
    return (drawn.pin_memory() if like.is_cuda else drawn).to(like, non_blocking=like.is_cuda)


def working_dtype(parameter: Tensor) -> torch.dtype:
    """Return the type of products: autocast's where it is on, else the parameter's."""
    device = parameter.device.type
    enabled = torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if enabled else parameter.dtype
