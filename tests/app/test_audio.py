"""Music sounds, just below full scale; what cannot be played costs a child process and a sentence."""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import app.audio
from app.audio import AudioError, default_soundfont, render_to
from app.web.launch import ASSETS
from app.web.offered_models import example
from tokenization.analysis.beats import tempo_map
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Notes, Score, Track


@pytest.fixture
def render(tmp_path: Path):
    """Return a function that gives a stereo WAV of a MIDI file."""

    def rendered(midi: bytes, soundfont: Path | None = None) -> bytes:
        render_to(tmp_path / "a.wav", midi, soundfont)
        return (tmp_path / "a.wav").read_bytes()

    return rendered


def test_the_licence_of_what_sounds_by_default_goes_with_the_page():
    licences = (ASSETS / "vendor" / "LICENCES.txt").read_text(encoding="utf-8")
    assert f"{default_soundfont().stem}, a General MIDI soundfont" in licences
    assert "LICENSE.GPL-2" in licences
    assert (ASSETS / "vendor" / "LICENSE.GPL-2").is_file()


def samples(wave: bytes) -> np.ndarray:
    """Return a stereo WAV's samples, −1 … 1: (n, 2)."""
    assert wave[:4] == b"RIFF"
    assert struct.unpack_from("<HH", wave, 20) == (1, 2)  # PCM, stereo
    return np.frombuffer(wave[44:], "<i2").reshape(-1, 2) / 32768


def test_a_piece_sounds_for_its_time_without_clipping(render):
    wave = render(example("trio-disco"))
    heard = samples(wave)
    rate = struct.unpack_from("<I", wave, 24)[0]
    score = read_midi(example("trio-disco"))
    seconds = float(tempo_map(score).to_seconds(np.array(score.end_ticks / score.ticks_per_beat)))
    assert seconds <= len(heard) / rate < seconds + 20
    assert np.sqrt((heard**2).mean()) > 0.02
    assert 0.8 < np.abs(heard).max() < 0.9


def test_a_full_chord_as_loud_as_can_be_does_not_clip(render):
    sixty = np.arange(60)
    notes = Notes(0 * sixty, 0 * sixty + 960, 30 + sixty, 0 * sixty + 127, 0 * sixty)
    heard = samples(render(write_midi(Score(ticks_per_beat=480, notes=notes, tracks=(Track(),)))))
    assert 0.8 < np.abs(heard).max() < 0.9


def test_what_cannot_be_played_is_named_and_leaves_no_file(render, tmp_path, monkeypatch):
    broken = tmp_path / "broken.sf2"
    broken.write_bytes(b"no sounds")
    with pytest.raises(AudioError, match="could not play this piece"):
        render(b"MThd garbage")
    with pytest.raises(AudioError, match=r"there is no soundfont .*font\.sf2"):
        render(example("trio-jazz"), tmp_path / "font.sf2")
    with pytest.raises(AudioError, match=r"with broken\.sf2"):
        render(example("trio-jazz"), broken)
    cut_off = [sys.executable, "-c", "print('RIFF' + 99 * 'x')"]
    monkeypatch.setattr(app.audio, "module_command", lambda *_: cut_off)
    with pytest.raises(AudioError, match=r"could not play .* \(it ended\)"):
        render(example("trio-jazz"))
    assert [*tmp_path.iterdir()] == [broken]


def test_a_renderer_that_takes_too_long_is_ended(render, monkeypatch):
    monkeypatch.setattr(app.audio, "SECONDS", 0.01)
    with pytest.raises(AudioError, match="not ready after 0 s"):
        render(example("trio-jazz"))


def test_a_renderer_that_takes_too_much_memory_is_ended(render, monkeypatch):
    monkeypatch.setattr(app.audio, "MEMORY_BYTES", 1 << 30)
    monkeypatch.setattr(app.audio, "SECONDS", 20)
    assert render(example("trio-jazz"))
    # A note two hours after the first: sound that most machines could hold.
    track = bytes.fromhex("00ff510307a120 00903c40 60903c00 d28d00903c40 60903c00 00ff2f00")
    head = b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96)
    with pytest.raises(AudioError, match=r"could not play .* \(memory allocation"):
        render(head + b"MTrk" + struct.pack(">I", len(track)) + track)
