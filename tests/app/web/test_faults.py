"""Faults that were seen on the page, each to stay away."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.web.offered_models import example
from tests.app.web.hands import await_end, downloaded, go_on, in_changed_browser, send
from tokenization.midi.reading import read_midi

SHOWN = ".mg-stage h2"


def test_play_can_be_pressed_while_it_composes(page: Page):
    go_on(page, bars=128)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 250")
    page.locator(".mg-take").first.get_by_label("Play", exact=True).click()
    page.wait_for_function("() => musicgen.player.playing && musicgen.player.tick > 0")
    assert page.evaluate("musicgen.desk.takes[0].state") == "running"


def test_sounding_notes_end_where_the_music_has_come_to(page: Page):
    go_on(page, bars=64)
    page.evaluate("""() => {
      window.late = 0;
      musicgen.desk.watch((what, { entry }) => {
        if (what !== "grown" || entry.state !== "running") return;
        const { notes, lines } = entry.piece, start = lines[entry.region.first];
        for (let i = 0; i < notes.length; i += 5)
          if (notes[i] >= start && notes[i] + notes[i + 1] > Math.max(entry.now, notes[i] + 3)) late += 1;
      });
    }""")
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 600")
    assert page.evaluate("late") == 0
    page.locator("#mg-halt").click()
    await_end(page)


def test_after_a_stop_the_roll_is_as_long_as_the_music(page: Page):
    go_on(page, bars=128)
    page.wait_for_function("() => musicgen.desk.takes[0]?.now > 400")
    page.locator("#mg-halt").click()
    await_end(page)
    bars = page.evaluate("musicgen.desk.takes[0].bars")
    last = page.evaluate(
        "Math.max(...musicgen.desk.takes[0].piece.notes.filter((_, i) => i % 5 === 0))"
    )
    assert bars == last // 48 + 1 < 128
    assert page.evaluate("musicgen.rolls.takes()[0].beats") == 4 * bars


def test_takes_end_at_the_same_bar(page: Page):
    go_on(page, bars=3, variations=4)
    await_end(page)
    expect(page.locator(".mg-further:visible")).to_have_count(4)
    lengths = page.evaluate("musicgen.desk.takes.map((take) => take.piece.lines.length)")
    assert lengths == [8] * 4
    wide = page.evaluate(
        "[...document.querySelectorAll('.mg-take .mg-wide')].map((one) => one.clientWidth)"
    )
    assert len(set(wide)) == 1


def test_takes_share_their_axis_and_their_pitches(page: Page):
    go_on(page, bars=8, variations=2)
    await_end(page)
    page.locator("#mg-takes").get_by_label("Zoom in").click()
    page.evaluate("() => (musicgen.rolls.takes()[0].view.scrollLeft = 200)")
    page.wait_for_function("() => musicgen.rolls.takes()[1].view.scrollLeft === 200")
    lanes = page.evaluate("musicgen.rolls.takes().map((roll) => JSON.stringify(roll.lanes))")
    assert lanes[0] == lanes[1] == page.evaluate("JSON.stringify(musicgen.rolls.stage().lanes)")


def test_the_model_list_closes_by_itself(page: Page):
    model = page.get_by_label("Model")
    model.focus()
    page.keyboard.press("Tab")
    covered = page.evaluate(
        "(() => { const b = document.querySelector('#mg-prompt-bars input').getBoundingClientRect();"
        "const there = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);"
        "return Boolean(there.closest('#mg-prompt-bars')) })()"
    )
    assert covered
    assert model.evaluate("one => one.tagName") == "SELECT"


def test_an_error_goes_with_the_next_thing_that_is_done(page: Page):
    alarm = page.locator(".mg-stage > [role=alert]")

    def opened() -> None:
        page.locator("[data-example=trio-jazz]").click()
        expect(page.locator(SHOWN)).to_have_text("Jazz trio")

    for act in (
        opened,
        lambda: page.get_by_role("button", name="Undo").click(),
        lambda: page.get_by_label("Model").select_option("groove"),
        lambda: page.locator("[data-example=grid]").click(),
    ):
        send(page, "a.mid", b"no music")
        expect(alarm).to_be_visible()
        act()
        expect(alarm).to_be_hidden()


def test_a_file_is_caught_wherever_it_is_dropped(page: Page):
    page.evaluate(
        """(bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "dropped.mid"));
          const dock = document.querySelector("#mg-dock");
          for (const kind of ["dragenter", "dragover", "drop"])
            dock.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        list(example("trio-jazz")),
    )
    expect(page.locator(SHOWN)).to_have_text("dropped")


def test_several_files_that_are_dropped_are_all_opened_up_to_one_that_cannot_be(page: Page):
    drop = """(files) => {
      const data = new DataTransfer();
      for (const [name, bytes] of files) data.items.add(new File([new Uint8Array(bytes)], name));
      dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    trios = [(f"{name}.mid", list(example(f"trio-{name}"))) for name in ("jazz", "disco")]
    page.evaluate(drop, trios)
    expect(page.locator(SHOWN)).to_have_text("disco")
    page.locator(".mg-history > summary").click()
    rows = page.locator(".mg-history-row")
    expect(rows.filter(has_text="jazz")).to_have_count(1)
    before = rows.count()
    page.evaluate(drop, [trios[0], ("bad.mid", [1, 2, 3]), trios[1]])
    expect(page.locator(".mg-stage > [role=alert]")).to_contain_text("“bad.mid”")
    expect(page.locator(SHOWN)).to_have_text("jazz")
    expect(rows).to_have_count(before + 1)


def test_a_folder_that_is_dropped_is_told_from_a_file(page: Page, tmp_path: Path):
    (tmp_path / "My songs").mkdir()
    files = {"items": [], "files": [str(tmp_path / "My songs")], "dragOperationsMask": 1}
    mouse = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        mouse.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 200, "data": files})
    alarm = page.locator(".mg-stage > [role=alert]")
    expect(alarm).to_contain_text("“My songs” cannot be read: it is a folder")


@pytest.mark.parametrize("name", ["holiday.mid", "Brief.MID", "x.abc", "bild.mxl"])
def test_errors_call_a_file_as_it_is_called(page: Page, name: str):
    send(page, name, b"\xff\xfb\x90\x44 no music at all")
    alarm = page.locator(".mg-stage > [role=alert]")
    expect(alarm).to_contain_text(f"“{name}”")
    assert "\\x" not in alarm.inner_text()


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_a_title_is_read_at_every_width(visit, width: int):
    page = visit(width)
    send(page, "The long road home.mid", example("trio-jazz"))
    song = page.locator(".mg-stage .mg-song")
    expect(song).to_have_text("The long road home")
    shown, wanted = song.evaluate("e => [e.clientWidth, e.scrollWidth]")
    assert shown >= wanted - 1


def test_the_pages_own_result_is_opened_with_its_seam(page: Page):
    go_on(page, bars=2)
    await_end(page)
    midi = downloaded(page, "MIDI")
    send(page, "again.mid", midi)
    expect(page.locator(SHOWN)).to_have_text("again")
    assert page.evaluate("musicgen.desk.current.region") == {"first": 4, "stop": 6, "tracks": None}
    expect(page.locator("#mg-prompt-bars input[type=number]")).to_have_value("4")
    assert page.evaluate("musicgen.rolls.stage().isNew(musicgen.desk.current.piece.lines[4], 0)")


def test_a_short_take_has_one_figure_a_long_one_four(page: Page):
    go_on(page, bars=2)
    await_end(page)
    expect(page.locator(".mg-likeness-name")).to_have_text("Like the prompt, 0 to 1")
    metrics = page.locator(".mg-meters").count()
    expect(page.locator(".mg-meter")).to_have_count(metrics)
    expect(page.locator(".mg-real").first).to_have_text(re.compile(r"^the real piece: [01]\.\d\d$"))
    go_on(page, bars=8)
    await_end(page)
    expect(page.locator(".mg-likeness-name")).to_contain_text("quarter by quarter")
    expect(page.locator(".mg-meter")).to_have_count(4 * page.locator(".mg-meters").count())


def test_drums_that_are_left_out_are_told_above_the_roll_and_kept_by_a_press(page: Page):
    page.get_by_label("Model").select_option("pop-piano")
    notice = page.locator(".mg-notices li").first
    expect(notice).to_contain_text("The drums are left out")
    above = page.evaluate(
        "document.querySelector('.mg-notices').getBoundingClientRect().bottom <= "
        "document.querySelector('.mg-stage .mg-roll').getBoundingClientRect().top"
    )
    assert above
    notice.get_by_role("button", name="Open with untrained:tiny:groove").click()
    expect(page.locator(".mg-notices li")).to_have_count(0)
    tracks = page.evaluate("musicgen.desk.current.piece.tracks.map((track) => track.name)")
    assert tracks == ["Bass", "Drums", "Other"]


def test_from_nothing_a_trio_has_its_third_voice(page: Page):
    page.get_by_label("Model").select_option("groove")
    page.wait_for_function("() => musicgen.desk.current.model === 'groove'")
    page.locator("[data-example=nothing]").click()
    # as in test_actions.py, and not whatever comes by chance
    page.evaluate("() => musicgen.desk.set({ seed: 1, newSeed: false, temperature: 1 })")
    go_on(page, bars=4)
    await_end(page)
    tracks = page.evaluate(
        "[...new Set(musicgen.desk.takes[0].piece.notes.filter((_, i) => i % 5 === 4))].sort()"
    )
    assert tracks == [0, 1, 2]


def test_what_is_asked_for_at_once_follows_the_piece_that_is_being_opened(page: Page):
    page.evaluate("""() => {
        const { server } = musicgen, open = server.open.bind(server);
        server.open = async (what) => {
            await new Promise((done) => setTimeout(done, 1000));
            return open(what);
        };
    }""")
    page.locator("[data-example=nothing]").click()
    go_on(page, bars=1)
    await_end(page)
    current = page.evaluate("musicgen.desk.entries.get(musicgen.desk.takes[0].parent).kind")
    assert current == "nothing"


def test_what_is_dragged_out_is_a_midi_file(page: Page):
    found = page.evaluate("""async () => {
      const data = new DataTransfer();
      const drag = new DragEvent("dragstart", { dataTransfer: data, bubbles: true });
      document.querySelector(".mg-stage .mg-grip").dispatchEvent(drag);
      return [data.getData("DownloadURL"), [...data.types]];
    }""")
    kind, name, address = found[0].split(":", 2)
    assert (kind, name) == ("audio/midi", "Disco trio.mid")
    bytes_given = page.evaluate(
        "async (a) => [...new Uint8Array(await (await fetch(a)).arrayBuffer())]", address
    )
    assert len(read_midi(bytes(bytes_given)).notes) == 1214


def test_one_track_and_a_score_are_saved_and_read_by_others(page: Page):
    import music21

    bass = read_midi(downloaded(page, "Bass as MIDI", ".mg-stage"))
    heard = read_midi(example("trio-disco"))
    index = next(i for i, track in enumerate(heard.tracks) if "ass" in track.name)
    assert len(bass.notes) == (heard.notes.track == index).sum()
    text = downloaded(page, "Score (MusicXML)", ".mg-stage").decode()
    parsed = music21.converter.parseData(text, format="musicxml")
    names = {part.partName for part in parsed.parts}
    assert names >= {track.name for track in heard.tracks}
    assert len(parsed.parts[0].getElementsByClass("Measure")) == 16


def test_a_midi_keyboard_is_played_and_quantised(browser, address: str):
    page = in_changed_browser(
        browser,
        address,
        "window.input = { name: 'Test keys', onmidimessage: null };"
        "navigator.requestMIDIAccess = async () => ({ inputs: new Map([['1', input]]), onstatechange: null });",
    )
    assert page.evaluate("musicgen.player.synth.ready")
    page.locator("[data-example=grid]").click()
    page.get_by_text("Play to it").click()
    page.get_by_role("button", name="MIDI keyboard").click()
    expect(page.locator(".mg-play-in .mg-why")).to_contain_text("Test keys")
    page.get_by_role("button", name="● Record").click()
    page.wait_for_timeout(2500)  # the count-in
    page.evaluate("() => input.onmidimessage({ data: [0x90, 64, 99] })")
    page.wait_for_timeout(300)
    page.evaluate("() => input.onmidimessage({ data: [0x80, 64, 0] })")
    page.get_by_role("button", name="■ Done").click()
    notes = page.evaluate("[...musicgen.desk.current.piece.notes]")
    assert (len(notes), notes[2], notes[3]) == (5, 64, 99)
    assert notes[0] % 3 == notes[1] % 3 == 0
    page.get_by_role("button", name="Computer keys").click()
    page.locator("body").press("a")
    page.get_by_role("button", name="Undo").click()
    assert page.evaluate("musicgen.desk.current.piece.notes.length") == 0
    page.context.close()


def test_what_was_played_is_continued_as_a_whole(page: Page):
    page.get_by_text("Play to it").click()
    page.get_by_role("button", name="Computer keys").click()
    page.get_by_role("button", name="● Record").click()
    page.wait_for_timeout(2500)  # the count-in
    page.locator("body").press("a", delay=300)
    expect(page.locator(".mg-play-in .mg-why")).to_contain_text("press Done")
    page.get_by_role("button", name="■ Done").click()
    bars = page.evaluate("musicgen.desk.current.piece.lines.length - 1")
    assert bars > 16
    assert page.evaluate("musicgen.desk.open.chosen") == bars
