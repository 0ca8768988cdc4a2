"""The page does in a browser what a person does with it."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.web.studio import EXAMPLES, example
from tests.app.web.browser import WAIT
from tokenization.midi import read_midi


def go_on(page: Page, *, bars: int = 2, variations: int = 1) -> None:
    """Ask for a continuation."""
    for name, number in (("bars", bars), ("variations", variations)):
        field = page.locator(f"#mg-{name} input[type=number]")
        field.fill(str(number))
        field.press("Tab")
    page.locator("#mg-go").click()


def await_end(page: Page) -> None:
    expect(page.locator(".mg-take .mg-further").first).to_be_visible(timeout=WAIT)


def new_notes(page: Page) -> int:
    return int(re.findall(r"\d+", page.locator(".mg-take .mg-facts").first.inner_text())[0])


def downloaded(page: Page, text: str) -> bytes:
    with page.expect_download() as download:
        page.locator(".mg-take").first.get_by_text(text, exact=True).click()
    return Path(download.value.path()).read_bytes()


def send(page: Page, name: str, data: bytes) -> None:
    page.locator("#mg-file").set_input_files(
        {"name": name, "mimeType": "audio/midi", "buffer": data}
    )


def test_a_file_is_continued_heard_kept_and_continued_again(page: Page):
    send(page, "my song.mid", example("trio-jazz"))
    expect(page.locator(".mg-stage h2")).to_have_text("my song")
    go_on(page, bars=2, variations=2)
    await_end(page)
    expect(page.locator(".mg-take")).to_have_count(2)
    assert new_notes(page) > 0

    whole = read_midi(downloaded(page, "MIDI"))
    part = read_midi(downloaded(page, "New part"))
    heard = read_midi(example("trio-jazz"))
    assert len(whole.notes) > len(part.notes) == new_notes(page)
    prompt = heard.notes.onset_ticks < 4 * 4 * heard.ticks_per_beat
    assert len(whole.notes) - len(part.notes) == prompt.sum()

    page.locator(".mg-take .mg-further").first.click()
    expect(page.locator(".mg-stage h2")).to_have_text("my song, variation 1")
    expect(page.locator(".mg-stage .mg-facts")).to_contain_text("6 bars")
    expect(page.locator("#mg-prompt-bars input[type=number]")).to_have_value("6")
    expect(page.locator(".mg-take")).to_have_count(0)

    page.get_by_text("Undo").click()
    expect(page.locator(".mg-stage h2")).to_have_text("my song")
    expect(page.locator("#mg-prompt-bars input[type=number]")).to_have_value("4")
    expect(page.get_by_text("Undo")).to_be_hidden()


def test_a_continuation_sounds_and_the_cursor_follows(page: Page):
    go_on(page, bars=1)
    await_end(page)
    sound = downloaded(page, "WAV")
    rate = struct.unpack_from("<I", sound, 24)[0]
    samples = np.frombuffer(sound[44:], "<i2").astype(float) / 32768
    assert sound[:4] == b"RIFF"
    assert rate >= 44_100
    assert 0.05 < np.sqrt((samples**2).mean()) < 0.5
    assert 0.5 < np.abs(samples).max() < 0.95  # loud, and clips nowhere

    take = page.locator(".mg-take").first
    take.get_by_label("Play", exact=True).click()
    expect(take.get_by_label("Pause")).to_be_visible()
    audio = take.locator("audio")
    page.wait_for_function("audio => audio.currentTime > 0.4", arg=audio.element_handle())
    moved = take.locator(".mg-cursor").evaluate(
        "c => new DOMMatrix(getComputedStyle(c).transform).m41"
    )
    assert moved > 0
    # A second player stops the first.
    page.locator(".mg-stage").get_by_label("Play", exact=True).click()
    expect(take.get_by_label("Play", exact=True)).to_be_visible()


def test_notes_appear_before_the_end_and_stop_keeps_them(page: Page):
    go_on(page, bars=128, variations=2)
    page.wait_for_function(
        "() => parseInt(document.querySelector('.mg-take .mg-facts')?.textContent) > 3"
    )
    expect(page.locator(".mg-further")).to_have_count(0)
    expect(page.locator("#mg-go")).to_be_hidden()
    expect(page.get_by_role("progressbar", name="Progress")).to_be_visible()
    page.locator("#mg-halt").click()
    await_end(page)
    expect(page.locator(".mg-status")).to_contain_text("Stopped")
    expect(page.locator("#mg-go")).to_be_visible()
    expect(page.locator("#mg-halt")).to_be_hidden()
    assert len(read_midi(downloaded(page, "New part")).notes) == new_notes(page) > 3


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("page.mid", b"<!doctype html><p>not music</p>", "page is"),
        ("empty.mid", b"", "empty"),
        ("large.mid", b"MThd" + b"\0" * (1 << 20), "larger than"),
    ],
)
def test_what_is_no_midi_file_is_refused_with_a_sentence(
    page: Page, name: str, data: bytes, sentence: str
):
    send(page, name, data)
    alarm = page.locator(".mg-stage [role=alert]")
    expect(alarm).to_be_visible()
    expect(alarm).to_contain_text(re.compile(sentence, re.I))
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
    roll = page.locator(".mg-stage .mg-roll").bounding_box()
    start = line.bounding_box()
    assert roll
    assert start
    page.mouse.move(start["x"] + 8, start["y"] + 100)
    page.mouse.down()
    page.mouse.move(roll["x"] + roll["width"] * 3 / 16, start["y"] + 100, steps=4)
    page.mouse.up()
    expect(line).to_have_attribute("aria-valuenow", "3")
    expect(field).to_have_value("3")


def test_examples_and_models_can_be_changed(page: Page):
    model = page.get_by_label("Model")
    for name, title in EXAMPLES.items():
        page.locator(f"[data-example={name}]").click()
        expect(page.locator(".mg-stage h2")).to_have_text(title)
        expect(model).to_have_value(re.compile("piano" if name.startswith("piano") else "trio"))
    page.locator("[data-example=nothing]").click()
    go_on(page, bars=2)
    await_end(page)
    assert new_notes(page) > 0
    expect(page.locator(".mg-take .mg-chip", has_text="New part")).to_have_count(0)


def test_the_same_seed_gives_the_same_music(page: Page):
    page.get_by_text("More: temperature").click()
    page.get_by_label("Another seed each time").uncheck()
    page.get_by_label("Seed", exact=True).fill("7")
    page.get_by_label("Seed", exact=True).press("Tab")
    files = []
    for _ in range(2):
        go_on(page, bars=1)
        await_end(page)
        files.append(downloaded(page, "MIDI"))
        page.locator("[data-example=trio-disco]").click()
        expect(page.locator(".mg-take")).to_have_count(0)
    assert files[0] == files[1]
    assert b'"seed": 7' in files[0]


def test_a_request_that_is_not_taken_is_told(page: Page):
    page.route(
        "**/gradio_api/queue/join*",
        lambda route: route.fulfill(status=503, json={"detail": "Queue is full."}),
    )
    page.locator("#mg-go").click()
    alarm = page.locator("#mg-takes [role=alert]").first
    expect(alarm).to_contain_text("did not take the request")
    expect(page.locator("#mg-go")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_screen(visit, width: int, scheme: str):
    page = visit(width, scheme)
    wide = page.evaluate("document.documentElement.scrollWidth")
    ground = page.evaluate("getComputedStyle(document.querySelector('.mg-stage')).backgroundColor")
    inked = page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => { const c = "
        "document.querySelector('.mg-stage canvas'); done(c.getContext('2d').getImageData(0, 0, c.width, c.height)"
        ".data.filter((v, i) => i % 4 === 3 && v > 0).length / (c.width * c.height)) })))"
    )
    assert wide <= width
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 200) == (scheme == "dark")
    assert inked > 0.02  # notes and lines are drawn
