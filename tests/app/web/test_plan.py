"""The plan on the roll: it matches that of the language, and its goals are sent."""

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np
from playwright.sync_api import Page, expect

from app.web.offered_models import EXAMPLES, example
from musicgen.pieces import piece_of
from tests.app.web.hands import await_end, fill, go_on, open_example, rest
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.plan import DENSITY_EDGES, REGISTER_EDGES, plan_of
from tokenization.ensemble.tokens import DYNAMICS
from tokenization.midi.reading import read_midi

PLANNED = """async () => {
  const { planOf } = await import(new URL(`${musicgen.app.facts.assets}/music/plan.js`, document.baseURI));
  return planOf(musicgen.desk.current.piece);
}"""
# The position of the middle of a bar on the plan of the stage, at a height from 0 to 1.
SPOT = """([bar, height]) => {
  const roll = musicgen.rolls.stage(), { lines } = roll.plan;
  roll.view.scrollIntoView({ block: "center" });
  const box = roll.view.getBoundingClientRect();
  const x = roll.x((lines[bar] + lines[bar + 1]) / 2) - roll.view.scrollLeft;
  return [box.left + x, box.bottom - 8 - 48 * height];
}"""


def show_plan(page: Page) -> None:
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator(".mg-plan-row")).to_be_visible()
    rest(page)


def bend(page: Page, *spots: tuple[int, float]) -> None:
    """Drag the chosen curve through (bar from 0, height)."""
    places = [page.evaluate(SPOT, [*spot]) for spot in spots]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=5)
    page.mouse.up()


def levels(
    edges: np.ndarray, values: Iterable[float | None], side: Literal["left", "right"]
) -> list[int]:
    return [-1 if v is None else int(np.searchsorted(edges, v, side=side)) for v in values]


def test_the_plan_shown_is_that_of_the_language(page: Page):
    ensemble = Ensemble()
    for name in EXAMPLES:
        open_example(page, name)
        shown = page.evaluate(PLANNED)
        ids = piece_of(ensemble, read_midi(example(name)), name).encoded.ids
        said = plan_of(ensemble.sheet(ids))
        assert len(shown["letters"]) == -(-len(said["density"]) // 4)
        assert levels(DENSITY_EDGES, shown["density"], "left") == said["density"].tolist()
        assert levels(REGISTER_EDGES, shown["register"], "right") == said["register"].tolist()
        loud = [-1 if v is None else int(v * DYNAMICS / 128) for v in shown["loudness"]]
        assert loud == said["dynamics"].tolist()


def test_the_plan_is_edited_for_the_bars_to_be_written(page: Page):
    fill(page, "bars", 3)
    show_plan(page)
    roll = page.locator(".mg-stage .mg-roll canvas")
    expect(roll).to_have_attribute("aria-label", re.compile("Form: A B C D"))
    bend(page, (2, 0.5), (4, 0.5))  # over other bars, a drag selects, as on the ruler
    assert page.evaluate("musicgen.desk.goals") == {}
    roll.press("Escape")  # clear the selection, which could be rewritten
    bend(page, (16, 0.1), (18, 0.9))
    density = page.evaluate("[16, 17, 18].map((bar) => musicgen.desk.goals[bar].density)")
    assert density == sorted(density)
    assert density[0] <= 1 < 8 < density[2]
    page.get_by_role("button", name="Register", exact=True).press("ArrowUp")
    goals = page.evaluate("[16, 17, 18].map((bar) => musicgen.desk.goals[bar])")
    assert len({goal["register"] for goal in goals}) == 1  # keys raise all bars together
    go_on(page, bars=3)
    await_end(page)
    asked = page.evaluate("musicgen.desk.takes[0].provenance.plan")
    assert asked == {name: [goal[name] for goal in goals] for name in ("density", "register")}
