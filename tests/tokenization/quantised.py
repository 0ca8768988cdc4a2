"""What tokens can say of a score, found without spelling it."""

from tokenization.groove.language import band_of, grid
from tokenization.language import Language
from tokenization.remi.language import Remi
from tokenization.remi.spelling import to_grid
from tokenization.score import Score


def quantised(language: Language, score: Score) -> Score:
    """Return an arranged score as a language's tokens can say it: decode(encode(score))."""
    if isinstance(language, Remi):
        return to_grid(score)[0].score()
    return band_of(score).score(grid(score)[0])
