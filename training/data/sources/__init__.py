"""The kinds of music data sets that can be prepared, by name."""

from training.data.sources.groove import Groove, GrooveSongs
from training.data.sources.human_drums import HumanDrums
from training.data.sources.midi_folder import MidiFolder
from training.data.sources.openscore import Lieder, Quartets
from training.data.sources.polish_keyboard import PolishKeyboard
from training.data.sources.pop909 import Pop909
from training.data.sources.pop_piano import PopPiano
from training.data.sources.source import Listing, Source

_ALL: tuple[Source, ...] = (  # from the most specific to the most general, as `recognise` tries them
    Pop909(), Lieder(), Quartets(), PolishKeyboard(), HumanDrums(), GrooveSongs(), Groove(), PopPiano(), MidiFolder(),
)  # fmt: skip
SOURCES = {source.name: source for source in _ALL}


def recognise(listing: Listing) -> Source | None:
    """Return the most specific source that a folder looks like; None if it holds no music."""
    return next((source for source in SOURCES.values() if source.fits(listing)), None)
