"""The chord track of the page: chords are typed over bars, locked, and kept by what is written."""

from playwright.sync_api import Page, expect

from tests.app.web.hands import (
    act,
    await_end,
    choose_bars,
    downloaded,
    fill,
    open_example,
    rest,
    send,
)
from tests.tools.page.own_files import melody, midi, part
from tokenization.midi.reading import read_midi

CHORDS = "musicgen.desk.current.piece.chords"
FIELD = ".mg-stage .mg-chords"


def chords_at(page: Page, entry: str = "musicgen.desk.current") -> dict[int, tuple[str, int]]:
    """Return the chord and whether it is a guess at the start of each bar, from 1."""
    rows, lines = page.evaluate(f"[{entry}.piece.chords, {entry}.piece.lines]")
    found = {row[0]: ((row[3:] and row[3]) or row[1], row[2]) for row in rows}
    return {bar: found[line] for bar, line in enumerate(lines, 1) if line in found}


def typed(page: Page, text: str) -> None:
    page.locator(FIELD).fill(text)
    page.locator(FIELD).press("Enter")
    rest(page)


def test_chords_are_typed_and_kept(page: Page):
    """Typed chords keep their symbols; what cannot be read is reported; rewriting keeps to them."""
    send(page, "tune.mid", midi({"Flute": part(0, 73, melody(72))})[0])
    expect(page.locator(".mg-stage h2")).to_have_text("tune")
    before = chords_at(page)
    assert all(guess for _, guess in before.values())  # recognised
    page.locator(".mg-stage canvas").click(position={"x": 90, "y": 46})  # the chord of bar 1
    expect(page.locator(FIELD)).to_be_focused()
    choose_bars(page, 3, 4)
    typed(page, "Hm")
    expect(page.locator("#mg-dock [role=alert]")).to_contain_text("'Hm' in bar 3 is not a chord")
    expect(page.locator(FIELD)).to_have_value("Hm")  # to be mended
    assert chords_at(page) == before
    choose_bars(page, 3, 3)
    typed(page, "F7#9 | Bb13/D")  # fills the next bar, too
    expect(page.locator(FIELD)).to_have_value("F7#9 | B♭13/D")
    expect(page.locator("#mg-dock [role=status]")).to_have_text(
        "The model takes F7#9 as F7 and Bb13/D as Bb7; the symbols stay as written."
    )
    wanted = before | {3: ("F7#9", 0), 4: ("B♭13/D", 0)}
    assert chords_at(page) == wanted
    expect(page.locator(".mg-range-words")).to_have_text("Bars 3–4")
    choose_bars(page, 2, 4)
    fill(page, "variations", 1)
    act(page, "Rewrite")
    await_end(page)
    take = "musicgen.desk.takes[0]"
    assert {bar: one for bar, one in chords_at(page, take).items() if bar in (3, 4)} == {
        3: ("F7#9", 0), 4: ("B♭13/D", 0),
    }  # fmt: skip
    page.get_by_role("button", name="Harmonise", exact=True).click()
    page.get_by_role("button", name="Chord symbols", exact=True).click()
    page.wait_for_function(f"() => {take}?.how === 'accompany' && {take}.state === 'done'")
    assert chords_at(page, take)[3] == ("F7#9", 0)
    texts = [one.text for one in read_midi(downloaded(page, "MIDI", ".mg-stage")).markers]
    assert {"F7#9", "B♭13/D"} <= {*texts}
    assert not any({"_", "?"} & {*text} for text in texts)


def test_chords_are_locked_and_asked_for(page: Page):
    """Locks are for selected bars; the given chords after the prompt are those of the new bars."""
    open_example(page, "trio-disco")
    page.evaluate("musicgen.desk.choose(4)")
    choose_bars(page, 5, 6)
    field, lock = page.locator(FIELD), page.locator(".mg-stage .mg-range-bar")
    line = field.input_value()
    if lock.get_by_role("button", name="Lock chords").count():
        lock.get_by_role("button", name="Lock chords").click()
        choose_bars(page, 5, 6)
    lock.get_by_role("button", name="Unlock chords").click()
    assert chords_at(page)[5][1] == 1
    asked = "musicgen.app.composer.ask({ kind: 'continue' })"
    choose_bars(page, 5, 6)
    lock.get_by_role("button", name="Lock chords").click()
    assert chords_at(page)[5][1] == 0
    assert page.evaluate(f"{asked}.chords").startswith(line)
    assert page.evaluate(f"{asked}.keepsChords")
    choose_bars(page, 5, 5)
    typed(page, "")  # unlocks them
    assert [chords_at(page)[bar][1] for bar in (5, 6)] == [1, 0]
    expect(field).not_to_have_value("")
