"""Tempo, key and metre in the head of the piece: seen, set, and saved in the file."""

from playwright.sync_api import Page, expect

from tests.app.web.hands import begin, choose_bars, desk, downloaded, rest, send
from tests.tools.page.own_files import bass, chords, midi, part
from tokenization.midi.reading import read_midi

HEAD = ".mg-signs > button"


def song(metre: tuple[int, int] = (4, 4)) -> bytes:
    parts = {"Keys": part(0, 4, chords()), "Bass": part(1, 33, bass())}
    return midi(parts, metre=metre, tempo=100)[0]


def setting(page: Page, name: str, value: str) -> None:
    """Type into a field of the menu of the head, or choose from it."""
    page.locator(HEAD).click()
    one = page.locator(f"#mg-{name}-input")
    if name == "key":
        one.select_option(label=value)
    else:
        one.fill(value)
        one.press("Enter")
    page.keyboard.press("Escape")
    rest(page)


def test_tempo_key_and_metre_are_set_and_saved(page: Page):
    send(page, "song.mid", song())
    head, alarm = page.locator(HEAD), page.locator("#mg-dock [role=alert]")
    expect(head).to_have_text("100 BPM · C major? · 4/4")
    before = desk(page)
    for name, value, said in (
        ("bpm", "9", "The tempo is 9; it must be from 20 to 400 BPM."),
        ("metre", "waltz", "“waltz” is no time signature; write one such as 3/4."),
        ("metre", "4/3", "“4/3” is no time signature; write one such as 3/4."),
    ):
        setting(page, name, value)
        expect(alarm).to_have_text(said)
    assert desk(page) == before
    setting(page, "bpm", "72")
    expect(head).to_have_text("72 BPM · C major? · 4/4")
    keys = page.locator("#mg-key-input option").all_text_contents()
    assert {"C♯ major", "C♭ major", "A♯ minor", "A♭ minor"} <= {*keys}
    setting(page, "key", "A minor")
    expect(head).to_have_text("72 BPM · A minor · 4/4")
    choose_bars(page, 5, 5)
    setting(page, "metre", "2/4")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("12 bars")
    kept = read_midi(downloaded(page, "MIDI", ".mg-stage"))
    original = read_midi(song())
    assert kept.notes == original.notes
    assert kept.tempos.beats_per_minute.round(2).tolist() == [72]
    assert kept.key_signature == (0, True)
    metres = [*zip(*(column.tolist() for column in kept.meters.columns), strict=True)]
    assert metres == [(0, 4, 4), (4 * 4 * 480, 2, 4)]
    for _ in range(3):
        page.keyboard.press("Control+z")
    expect(head).to_have_text("100 BPM · C major? · 4/4")


def test_the_tempo_is_tapped_and_beats_are_those_of_the_metre(page: Page):
    send(page, "song.mid", song((6, 8)))
    head = page.locator(HEAD)
    expect(head).to_contain_text("67 BPM")  # 100 quarter notes
    head.click()
    page.evaluate("""() => {
      const taps = [0, 500, 1000, 1500], clock = performance.now.bind(performance);
      performance.now = () => taps.shift() ?? clock();
    }""")
    for _ in range(4):
        page.get_by_role("button", name="Tap", exact=True).evaluate("one => one.click()")
    expect(head).to_contain_text("120 BPM")
    assert page.evaluate("musicgen.desk.current.piece.tempos") == [[0, 180]]


def test_bars_of_a_metre_that_is_split_are_told(page: Page):
    send(page, "song.mid", song())
    expect(page.locator(HEAD)).to_contain_text("4/4")
    setting(page, "metre", "7/8")
    said = "Bars of 7/8 are written as bars of 3/8 and 2/4."
    expect(page.locator("#mg-dock [role=status]")).to_have_text(said)
    expect(page.locator(".mg-remarks")).to_contain_text(said)
    setting(page, "metre", "3/4")
    expect(page.locator("#mg-dock [role=status]")).to_have_text("")


def test_a_file_in_one_four_is_barred_and_a_blank_piece_gets_a_metre(page: Page):
    send(page, "song.mid", song((1, 4)))
    expect(page.locator(HEAD)).to_contain_text("4/4")
    expect(page.locator(".mg-remarks")).to_contain_text("bars of 4/4 were found in its notes")
    begin(page, "grid")
    setting(page, "metre", "7/8")
    assert page.evaluate("musicgen.desk.current.piece.lines") == [0, 42, 84, 126, 168]
