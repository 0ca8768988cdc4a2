"""Audio has the right length and level, and errors of the renderer are reported without harm to this process."""

import struct
from pathlib import Path

import numpy as np
import pytest

import app.audio
from app.audio import TAIL, AudioError, render_to
from app.web.offered_models import example
from tokenization.analysis.beats import tempo_map
from tokenization.midi.reading import read_midi
from tokenization.workers import Bounds


@pytest.fixture
def render(tmp_path: Path):
    """Return a function that renders a MIDI file to a stereo WAV."""

    def rendered(midi: bytes, soundfont: Path | None = None) -> bytes:
        render_to(tmp_path / "a.wav", midi, soundfont)
        return (tmp_path / "a.wav").read_bytes()

    return rendered


def samples(wave: bytes) -> np.ndarray:
    """Return the samples of a stereo WAV, −1 … 1: (n, 2)."""
    assert wave[:4] == b"RIFF"
    assert struct.unpack_from("<HH", wave, 20) == (1, 2)  # PCM, stereo
    return np.frombuffer(wave[44:], "<i2").reshape(-1, 2) / 32768


def test_audio_has_the_length_of_the_piece_and_does_not_clip(render):
    wave = render(example("trio-disco"))
    heard = samples(wave)
    rate = struct.unpack_from("<I", wave, 24)[0]
    score = read_midi(example("trio-disco"))
    seconds = float(tempo_map(score).to_seconds(np.array(score.end_ticks / score.ticks_per_beat)))
    assert abs(len(heard) / rate - seconds - TAIL) < 1
    assert np.abs(heard[-rate // 10 :]).max() < 0.01  # the last notes have faded
    assert np.sqrt((heard**2).mean()) > 0.02
    assert 0.8 < np.abs(heard).max() < 0.9


def test_an_unplayable_piece_is_reported_and_leaves_no_file(render, tmp_path):
    broken = tmp_path / "broken.sf2"
    broken.write_bytes(b"no sounds")
    with pytest.raises(AudioError, match="could not play this piece"):
        render(b"MThd garbage")
    with pytest.raises(AudioError, match=r"there is no soundfont .*font\.sf2"):
        render(example("trio-jazz"), tmp_path / "font.sf2")
    with pytest.raises(AudioError, match=r"with broken\.sf2"):
        render(example("trio-jazz"), broken)
    assert [*tmp_path.iterdir()] == [broken]


def two_notes(apart: str) -> bytes:
    """Return a MIDI file of two notes `apart` ticks from each other, in hexadecimal MIDI; a second has 192 ticks."""
    track = bytes.fromhex(f"00ff510307a120 00903c40 60903c00 {apart}903c40 60903c00 00ff2f00")
    head = b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96)
    return head + b"MTrk" + struct.pack(">I", len(track)) + track


def test_a_renderer_that_takes_too_long_is_stopped(render, monkeypatch):
    monkeypatch.setattr(app.audio, "BOUNDS", Bounds(seconds=0.01))
    with pytest.raises(AudioError, match=r"could not play .* \(it takes longer than 0\.01 seconds"):
        render(two_notes("86f500"))  # ten minutes


def test_a_renderer_ends_when_nobody_waits_for_the_file(tmp_path: Path):
    with pytest.raises(AudioError, match="nobody waits for it"):
        render_to(tmp_path / "a.wav", two_notes("86f500"), is_wanted=lambda: False)
    assert not [*tmp_path.iterdir()]


def test_a_renderer_that_takes_too_much_memory_is_stopped(render, monkeypatch):
    monkeypatch.setattr(app.audio, "BOUNDS", Bounds(seconds=20, memory_bytes=1 << 30))
    assert render(example("trio-jazz"))
    with pytest.raises(AudioError, match=r"could not play .* \(it ended the process"):
        render(two_notes("d28d00"))  # two hours, which most machines could hold in memory
