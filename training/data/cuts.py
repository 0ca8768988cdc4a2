"""What cuts training sequences out of prepared pieces, by the language that they are in."""

from __future__ import annotations

from functools import partial

from tokenization.groove_2.language import Groove2
from tokenization.language import Language
from training.data.augmentation import Cut, cut_groove, cut_remi
from training.data.groove_examples import cut_groove_2
from training.data.piano_examples import cut_remi_2

CUTS: dict[str, Cut] = {
    "remi": cut_remi,
    "remi-2": cut_remi_2,
    "groove": cut_groove,
    "groove-2": cut_groove_2,
}


def cut_of(language: Language) -> Cut:
    """Return what cuts sequences in a language, or in an edition of one."""
    if isinstance(language, Groove2):
        return partial(cut_groove_2, groove=language)
    return CUTS[language.name]
