"""The kinds of data sets that people have, a file each, by name."""

from training.sources.groove import Groove
from training.sources.groove_songs import GrooveSongs
from training.sources.human_drums import HumanDrums
from training.sources.lieder import Lieder
from training.sources.listing import Listing
from training.sources.midi_folder import MidiFolder
from training.sources.pop909 import Pop909
from training.sources.pop_piano import PopPiano
from training.sources.source import Source

# In the order in which a folder is compared with them: the most particular first.
SOURCES: dict[str, Source] = {
    "pop909": Pop909(),
    "lieder": Lieder(),
    "human-drums": HumanDrums(),
    "groove-songs": GrooveSongs(),
    "groove": Groove(),
    "pop-piano": PopPiano(),
    "midi": MidiFolder(),
}


def recognise(listing: Listing) -> Source | None:
    """Return the source that a folder looks most like, or None where it holds no music."""
    return next((source for source in SOURCES.values() if source.fits(listing)), None)
