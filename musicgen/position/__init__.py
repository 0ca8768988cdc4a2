"""Positional encodings by name, each with the class of its configuration."""

from typing import Any

from musicgen.position.added import Absolute, AbsoluteConfig, Learned, LearnedConfig
from musicgen.position.base import NoneConfig, Position, Shape
from musicgen.position.flt import Flt, FltConfig
from musicgen.position.lrpe import Lrpe, LrpeConfig
from musicgen.position.permuteformer import Permuteformer, PermuteformerConfig
from musicgen.position.rope import Rope, RopeConfig
from musicgen.position.spe.convolutional import ConvSpe, ConvSpeConfig
from musicgen.position.spe.sine import SineSpe, SineSpeConfig

POSITIONS: dict[str, tuple[type[Any], type[Position]]] = {
    "none": (NoneConfig, Position),
    "absolute": (AbsoluteConfig, Absolute),
    "learned": (LearnedConfig, Learned),
    "rope": (RopeConfig, Rope),
    "sine_spe": (SineSpeConfig, SineSpe),
    "conv_spe": (ConvSpeConfig, ConvSpe),
    "permuteformer": (PermuteformerConfig, Permuteformer),
    "lrpe": (LrpeConfig, Lrpe),
    "flt": (FltConfig, Flt),
}

__all__ = ["POSITIONS", "Position", "Shape"]
