"""Apply a user's changes to a MIDI file (`tokenization/changes.py`) event by event, and keep everything else in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tokenization import changes
from tokenization.changes import Change, Reading
from tokenization.midi import note_changes, sign_changes, track_changes
from tokenization.midi.events import OpenMidi

ACTS: dict[type[Change], Callable[[OpenMidi, Any], None]] = {
    changes.ChangeNotes: note_changes.change_notes,
    changes.Transpose: note_changes.transpose,
    changes.Velocity: note_changes.set_velocity,
    changes.Delete: note_changes.delete,
    changes.Tempo: sign_changes.set_tempo,
    changes.Key: sign_changes.set_key,
    changes.Metre: sign_changes.set_metre,
    changes.Chords: sign_changes.set_chords,
    changes.Cut: sign_changes.cut,
    changes.Program: track_changes.set_program,
    changes.Volume: track_changes.set_volume,
    changes.Controllers: track_changes.add_controllers,
    changes.Name: track_changes.set_name,
    changes.Order: track_changes.reorder,
    changes.Drop: track_changes.drop,
}


def changed_midi(
    data: bytes, made: Sequence[Change], reading: Reading | None, texts: Iterable[str] | None = None
) -> tuple[bytes, Reading]:
    """Return a MIDI file with changes, and its reading; raises NotKept if it cannot hold them, ValueError if wrong."""
    file = OpenMidi(data, reading)
    for change in made:
        file.check(change)
        ACTS[type(change)](file, change)
    return file.encoded(texts), file.reading
