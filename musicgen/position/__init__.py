"""Positional encodings by name; `POSITION_CONFIGS` in musicgen/parts.py has their configurations."""

from musicgen.position.added import Absolute, Learned
from musicgen.position.base import Position
from musicgen.position.flt import Flt
from musicgen.position.lrpe import Lrpe
from musicgen.position.permuteformer import Permuteformer
from musicgen.position.rope import Rope
from musicgen.position.spe.convolutional import ConvSpe
from musicgen.position.spe.sine import SineSpe

POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "absolute": Absolute,
    "learned": Learned,
    "rope": Rope,
    "sine_spe": SineSpe,
    "conv_spe": ConvSpe,
    "permuteformer": Permuteformer,
    "lrpe": Lrpe,
    "flt": Flt,
}

__all__ = ["POSITIONS", "Position"]
