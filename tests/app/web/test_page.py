"""The page does in a browser what a person does with it."""

import re
from pathlib import Path

import music21
import pytest
from playwright.sync_api import Page, expect

from app.web.offered_models import EXAMPLES, example
from tests.app.web.hands import await_end, downloaded, go_on, new_notes, send
from tokenization.midi.reading import read_midi


def test_a_file_is_continued_kept_and_continued_again(page: Page):
    send(page, "my song.mid", example("trio-jazz"))
    expect(page.locator(".mg-stage h2")).to_have_text("my song")
    go_on(page, bars=2, variations=2)
    await_end(page)
    expect(page.locator(".mg-take")).to_have_count(2)
    assert new_notes(page) > 0

    whole = read_midi(downloaded(page, "MIDI"))
    part = read_midi(downloaded(page, "New part as MIDI"))
    heard = read_midi(example("trio-jazz"))
    assert len(whole.notes) > len(part.notes) == new_notes(page)
    prompt = heard.notes.onset_ticks < 4 * 4 * heard.ticks_per_beat
    assert len(whole.notes) - len(part.notes) == prompt.sum()

    page.locator(".mg-take .mg-further").first.click()
    expect(page.locator(".mg-stage h2")).to_have_text("my song, variation 1")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("6 bars")
    expect(page.locator("#mg-prompt-bars input[type=number]")).to_have_value("6")
    expect(page.locator(".mg-take")).to_have_count(0)

    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".mg-stage h2")).to_have_text("my song")
    expect(page.locator("#mg-prompt-bars input[type=number]")).to_have_value("4")
    expect(page.locator(".mg-take")).to_have_count(2)


TUNE = "X:1\nT:Jig\nL:1/8\nM:6/8\nK:G\nGAB dBG|ABA AGE|GAB dBd|edB AFD|"


@pytest.mark.parametrize("name", ["jig.abc", "jig.musicxml", "jig.mxl"])
def test_a_score_in_its_own_metre_is_opened_and_continued(page: Page, name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text(TUNE)
    if path.suffix != ".abc":
        music21.converter.parse(TUNE, format="abc").write(path.suffix[1:], str(path))
    page.locator("#mg-file").set_input_files(path)
    expect(page.locator(".mg-stage h2")).to_have_text("jig")
    expect(page.locator(".mg-stage .mg-facts")).to_have_text("4 bars · 24 notes")
    expect(page.get_by_label("Model")).to_have_value("pop-piano-2")  # it knows every metre
    go_on(page, bars=1)
    await_end(page)
    lines = page.evaluate(
        "(({ lines, ticksPerBeat }) => lines.map((tick) => tick / ticksPerBeat))"
        "(musicgen.desk.takes[0].piece)"
    )
    assert lines == [0, 3, 6, 9, 12, 15]
    score = music21.converter.parseData(
        downloaded(page, "Score (MusicXML)").decode(), format="musicxml"
    )
    measures = score.parts[0].getElementsByClass("Measure")
    assert [measure.barDuration.quarterLength for measure in measures] == [3] * 5


def test_notes_appear_before_the_end_and_stop_keeps_them(page: Page):
    go_on(page, bars=128, variations=2)
    page.wait_for_function(
        "() => parseInt(document.querySelector('.mg-take .mg-facts')?.textContent) > 3"
    )
    expect(page.locator(".mg-further:visible")).to_have_count(0)
    expect(page.locator("#mg-go")).to_be_hidden()
    expect(page.get_by_role("progressbar", name="Progress")).to_be_visible()
    expect(page.locator(".mg-status")).to_contain_text(re.compile(r"Composing bar \d+ of 128"))
    page.locator("#mg-halt").click()
    await_end(page)
    expect(page.locator(".mg-status")).to_contain_text("Stopped")
    expect(page.locator("#mg-halt")).to_be_hidden()
    assert len(read_midi(downloaded(page, "New part as MIDI")).notes) == new_notes(page) > 3


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("page.mid", b"<!doctype html><p>not music</p>", "“page.mid” is"),
        ("empty.mid", b"", "empty"),
        ("large.mid", b"MThd" + b"\0" * (1 << 20), "larger than"),
        ("sound.mp3", b"\xff\xfb\x90d" + b"\0" * 400, "“sound.mp3” is"),
    ],
)
def test_what_is_no_music_is_refused_with_a_sentence(
    page: Page, name: str, data: bytes, sentence: str
):
    send(page, name, data)
    alarm = page.locator(".mg-stage > [role=alert]")
    expect(alarm).to_be_visible()
    expect(alarm).to_contain_text(sentence)
    expect(alarm).not_to_contain_text("b'")
    expect(page.locator(".mg-stage h2")).to_have_text("Disco trio")  # still there, and still plays
    page.locator("[data-example=trio-jazz]").click()
    expect(alarm).to_be_hidden()


def test_the_prompt_is_chosen_by_typing_dragging_and_keys(page: Page):
    field = page.locator("#mg-prompt-bars input[type=number]")
    line = page.get_by_role("slider", name="Bars of the prompt")
    field.fill("10")
    field.press("Tab")
    expect(line).to_have_attribute("aria-valuenow", "10")
    line.focus()
    line.press("ArrowRight")
    expect(field).to_have_value("11")
    start = line.bounding_box()
    to = page.evaluate(
        "() => { const r = musicgen.rolls.stage(); return r.view.getBoundingClientRect().left + r.x(r.piece.lines[3]) }"
    )
    assert start
    page.mouse.move(start["x"] + 8, start["y"] + 100)
    page.mouse.down()
    page.mouse.move(to, start["y"] + 100, steps=4)
    page.mouse.up()
    expect(line).to_have_attribute("aria-valuenow", "3")
    expect(field).to_have_value("3")


def test_examples_choose_a_model_of_their_kind(page: Page):
    model = page.get_by_label("Model")
    for name, title in EXAMPLES.items():
        page.locator(f"[data-example={name}]").click()
        expect(page.locator(".mg-stage h2")).to_have_text(title)
        expect(model).to_have_value("pop-piano-2" if "piano" in name else "untrained:tiny:groove")
    page.locator("[data-example=nothing]").click()
    expect(page.locator("#mg-go")).to_have_text("Begin")
    go_on(page, bars=2)
    await_end(page)
    assert new_notes(page) > 0
    page.locator(".mg-take .mg-menu > summary").click()
    expect(page.get_by_role("button", name="New part as MIDI")).to_have_count(0)


def test_the_same_seed_gives_the_same_music(page: Page):
    page.get_by_text("More: temperature").click()
    page.get_by_label("Seed", exact=True).fill("7")
    page.get_by_label("Seed", exact=True).press("Tab")
    expect(page.get_by_label("Another seed each time")).not_to_be_checked()
    files = []
    for _ in range(2):
        go_on(page, bars=1)
        await_end(page)
        files.append(downloaded(page, "MIDI"))
        page.locator("[data-example=trio-disco]").click()
        expect(page.locator(".mg-take")).to_have_count(0)
    assert files[0] == files[1]
    assert b'"seed": 7' in files[0]


@pytest.mark.parametrize(("typed", "taken"), [("3.7", 4), ("-2", 1), ("999", 16)])
def test_of_a_number_that_is_typed_what_can_be_is_taken(page: Page, typed: str, taken: int):
    field = page.locator("#mg-prompt-bars input[type=number]")
    field.fill(typed)
    field.press("Enter")
    expect(field).to_have_value(str(taken))
    assert page.evaluate("musicgen.desk.open.chosen") == taken


def test_a_request_that_is_not_taken_is_told(page: Page):
    page.route(
        "**/gradio_api/call/desk_write",
        lambda route: route.fulfill(status=503, json={"detail": "Queue is full."}),
    )
    page.locator("#mg-go").click()
    alarm = page.locator("#mg-takes > [role=alert]")
    expect(alarm).to_contain_text("did not take the request")
    expect(page.locator("#mg-go")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 820, 390])
def test_the_page_fits_its_screen(visit, width: int, scheme: str):
    page = visit(width, scheme)
    wide = page.evaluate("document.documentElement.scrollWidth")
    ground = page.evaluate("getComputedStyle(document.querySelector('.mg-stage')).backgroundColor")
    inked = page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => { const c = "
        "document.querySelector('.mg-stage canvas'), seen = new Map(), d = new Uint32Array(c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data.buffer); for (const p of d) seen.set(p, (seen.get(p) ?? 0) + 1);"
        "done(1 - Math.max(...seen.values()) / d.length) })))"
    )
    assert wide <= width
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")
    assert inked > 0.1  # notes, keys and lines are drawn
