"""What is painted on a piano roll, and that nothing on it covers anything else."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from tests.app.web.hands import await_end, go_on

SHOWN = ".mg-stage h2"


def painted(page: Page, card: str, act: str = "") -> list:
    """Return the words that a painting writes and its filled boxes, with where they are."""
    return page.evaluate(
        """async ([which, act]) => {
          const { paint } = await import(`${musicgen.player.synth.address}/roll/paint.js`);
          const roll = which === "stage" ? musicgen.rolls.stage() : musicgen.rolls.takes()[0], said = [];
          if (act) eval(act);
          const { canvas } = roll, pen = canvas.getContext("2d");
          canvas.getContext = () => new Proxy(pen, {
            get: (_, name) => typeof pen[name] !== "function" ? pen[name] : (...given) => {
              if (name === "fillText") said.push(["text", ...given, pen.measureText(given[0]).width]);
              if (name === "fillRect" || name === "roundRect")
                said.push(["box", ...given.slice(0, 4), pen.globalAlpha]);
              if (name === "lineTo") said.push(["line", ...given]);
              return pen[name](...given);
            },
            set: (_, name, value) => { pen[name] = value; return true; },
          });
          paint(roll);
          delete canvas.getContext;
          return said;
        }""",
        [card, act],
    )


LONG = {"longer than it learned from: may lose the thread", "may lose the thread", "may stray"}


def test_what_lies_past_the_trained_length_is_said_to_the_right_in_plain_words(page: Page):
    go_on(page, bars=4)
    await_end(page)
    said = painted(page, "take", "roll.trainedBars = 5")
    (text,) = [one for one in said if one[0] == "text" and one[1] in LONG]
    line = page.evaluate(
        "((roll) => roll.x(roll.piece.lines[5]) - roll.view.scrollLeft)(musicgen.rolls.takes()[0])"
    )
    assert text[1] == "longer than it learned from: may lose the thread"
    assert text[2] >= line


def test_chords_stand_clear_of_the_bar_lines_and_numbers_within_the_piece(page: Page):
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(SHOWN)).to_have_text("Piano in G minor")
    said = painted(page, "stage")
    texts = {one[1] for one in said if one[0] == "text"}
    assert {"B♭", "E♭", "Gm"} <= texts
    assert not [text for text in texts if re.fullmatch(r"[A-G]♯.*", str(text))]
    assert "17" not in texts
    edge = page.evaluate("musicgen.rolls.stage().gutter")
    (middle,) = {one[3] for one in said if one[0] == "text" and one[1] == "Gm"}
    band = [
        one
        for one in said
        if one[0] == "box"
        and one[1] > edge
        and one[3] <= 1
        and one[2] < middle + 9
        and one[2] + one[4] > middle - 7
    ]
    assert band == []  # no line through the names


@pytest.mark.parametrize("width", [1280, 390])
def test_the_flag_of_the_prompt_covers_no_number_of_a_bar(visit, width: int):
    page = visit(width)
    flag = page.locator(".mg-stage .mg-end span").evaluate(
        "(sign) => { const box = (one) => one.getBoundingClientRect();"
        "return box(sign).bottom - box(musicgen.rolls.stage().view).top - 1; }"
    )
    numbers = [one for one in painted(page, "stage") if one[0] == "text" and str(one[1]).isdigit()]
    written = [int(one[1]) for one in numbers]
    assert written == list(range(1, 17, written[1] - 1))  # none is left out
    assert all(one[3] - 5 >= flag for one in numbers)


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_flags_of_a_take_cover_neither_numbers_nor_names_nor_each_other(visit, width: int):
    page = visit(width)
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(SHOWN)).to_have_text("Piano in G minor")
    go_on(page, bars=12)
    await_end(page)
    said = painted(page, "take", "roll.trainedBars = 9.1")
    numbers = [int(one[1]) for one in said if one[0] == "text" and str(one[1]).isdigit()]
    assert len(numbers) > 3
    assert numbers == list(range(numbers[0], numbers[-1] + 1, numbers[1] - numbers[0]))
    flags = [one for one in said if one[1] in {"new", *LONG}]
    assert len(flags) == 2
    assert flags[0][2] + 20 < flags[1][2]  # beside each other
    lowest = max(one[3] + 6 for one in flags)
    assert all(one[3] - 5 >= lowest for one in said if one[0] == "text" and one not in flags)


def test_loud_notes_are_seen_to_be_loud(page: Page):
    page.locator("[data-example=piano-g-minor]").click()
    expect(page.locator(SHOWN)).to_have_text("Piano in G minor")
    page.evaluate("""() => {
      const { desk, app } = musicgen, { piece } = desk.current;
      const notes = Int32Array.from([0, 12, 60, 30, 0, 12, 12, 64, 80, 0, 24, 12, 67, 120, 0]);
      app.edit({ ...piece, chords: [], notes }, "dynamics");
    }""")
    page.wait_for_function("() => musicgen.rolls.stage().piece.notes.length === 15")
    notes = [one for one in painted(page, "stage") if one[0] == "box" and 0.7 < one[5] < 1]
    soft, middle, loud = sorted(notes, key=lambda one: one[1])[-3:]
    assert soft[4] * 1.3 < middle[4] < loud[4] / 1.2  # thicker …
    assert soft[5] + 0.1 < middle[5] < loud[5] - 0.05  # … and stronger


def test_names_of_tracks_cover_no_note(page: Page):
    said = painted(page, "stage")
    lanes = page.evaluate(
        "musicgen.rolls.stage().laid.map(({ name, top, bottom }) => [name, top, bottom])"
    )
    above = 20  # the ruler
    for name, top, bottom in lanes:
        ((x, y),) = {(one[2], one[3]) for one in said if one[0] == "text" and one[1] == name}
        assert above < y - 5 < y + 5 < top
        assert 0 < x < 13  # beside the notes and their lines
        above = bottom


@pytest.mark.parametrize("width", [1280, 390])
def test_names_at_the_edge_are_neither_squeezed_nor_cut_nor_on_one_another(visit, width: int):
    page = visit(width)
    edge, labels = page.evaluate("""() => {
      const roll = musicgen.rolls.stage(), drums = roll.laid.find((lane) => lane.drum);
      return [roll.gutter, drums.pitches.map((pitch) => drums.label(pitch))];
    }""")
    said = [one for one in painted(page, "stage") if one[0] == "text" and one[2] < edge]
    named = [one for one in said if one[1] in labels]
    assert "Kick" in {one[1] for one in named}  # by which one finds one's way
    for one in said:
        assert len(one) == 5  # no greatest width, to which letters would be pressed together
        assert one[2] + one[4] < edge
    heights = sorted(one[3] for one in said)
    assert min(b - a for a, b in pairwise(heights)) >= 10


def test_what_goes_round_is_marked_above_the_notes(page: Page):
    line = "Math.round(musicgen.rolls.stage().x(musicgen.rolls.stage().piece.lines[{}]))"
    page.evaluate("() => musicgen.app.loop(musicgen.desk.open.current, { first: 4, stop: 8 })")
    page.wait_for_function("() => musicgen.rolls.stage().loop")
    boxes = [one for one in painted(page, "stage") if one[0] == "box"]
    start, stop = (page.evaluate(line.format(bar)) for bar in (4, 8))
    assert [one for one in boxes if one[1] == start and one[3] == stop - start and one[4] == 3]
    page.get_by_label("Loop", exact=True).first.click()
    page.wait_for_function("() => !musicgen.rolls.stage().loop")
    page.get_by_role("button", name="Pause").first.click()
    page.evaluate("() => musicgen.player.loop([0, 96])")
    page.locator("[data-example=trio-jazz]").click()
    page.wait_for_function("() => musicgen.player.entry.example === 'trio-jazz'")
    assert page.evaluate("musicgen.player.transport.loop") is None  # it was of the other piece


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_notes_past_the_prompt_are_seen(visit, scheme: str):
    page = visit(scheme=scheme)
    ratio = page.evaluate("""() => {
      const style = getComputedStyle(document.querySelector(".mg-roll"));
      const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      const hex = (name) => style.getPropertyValue(`--mg-${name}`).trim().match(/[0-9a-f]{2}/gi);
      const rgb = (name) => hex(name).map((h) => parseInt(h, 16));
      const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * linear(c[i]), 0);
      const least = 0.72, over = rgb("rest").map((v, i) => v * least + rgb("ground")[i] * (1 - least));
      const [a, b] = [light(over), light(rgb("ground"))].sort((x, y) => x - y);
      return (b + 0.05) / (a + 0.05);
    }""")
    assert ratio >= 3
