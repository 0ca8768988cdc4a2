"""The kinds of music data sets that can be prepared, by name."""

from training.data.sources.choirs import Madrigals, OpenHymnal
from training.data.sources.free_midi import DanceTunes, Freedoom, FreeMusic
from training.data.sources.groove import Groove, GrooveSongs
from training.data.sources.human_drums import HumanDrums
from training.data.sources.midi_folder import MidiFolder
from training.data.sources.openscore import Lieder, Quartets
from training.data.sources.orchestra import Orchestra
from training.data.sources.polish_keyboard import PolishKeyboard
from training.data.sources.pop909 import Pop909
from training.data.sources.pop_piano import PopPiano
from training.data.sources.source import Source

_ALL: tuple[Source, ...] = (
    Pop909(), Lieder(), Quartets(), PolishKeyboard(), Orchestra(), OpenHymnal(), Madrigals(), Freedoom(), FreeMusic(),
    DanceTunes(), HumanDrums(), GrooveSongs(), Groove(), PopPiano(), MidiFolder(),
)  # fmt: skip
SOURCES = {source.name: source for source in _ALL}
