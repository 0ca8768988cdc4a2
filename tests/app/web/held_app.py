"""`musicgen app`, which writes the first bars of a long request and then waits until somebody stops it.

What a person does while music is under way is tested so on a machine of any speed: nothing has to be pressed in time.
And music of a few notes, which may be whole before anybody has looked, is shown once before its end. Between the end of
its work and its own it takes its time, as a busy machine does.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from app.cli import main
from musicgen.generation.engine import Engine
from musicgen.generation.job import RowGroup

LONG = 64  # bars, the prompt's too: a request for as many is held …
HELD_AFTER = 40  # … after so many new ones

next_turn = Engine._next_turn


def is_held(group: RowGroup) -> bool:
    """Say whether a variation has to wait for somebody who stops it."""
    return (group.job.order.before_bar or 0) >= LONG and group.bars >= HELD_AFTER


def turn_of_others(engine: Engine, now: float) -> list[RowGroup]:
    """Return whose turn it is, among those that are not held."""
    if turn := [group for group in next_turn(engine, now) if not is_held(group)]:
        return turn
    time.sleep(0.01)
    return []


# Here too, and not below alone: the processes that compose import this module, and do not run it.
setattr(Engine, "_next_turn", turn_of_others)  # noqa: B010  a method in place of another

if __name__ == "__main__":
    from app.web.actions import PageActions  # of the server alone, and not of those that compose
    from app.web.composing.composer import Composer

    play, close = PageActions._play, Composer.close

    def shown_once(actions: PageActions, streamed: Any, *more: Any) -> Iterator[dict[str, Any]]:
        """Yield the views of music, among them one at least of it as it grows."""
        seen = 0
        for view in play(actions, streamed, *more):
            if view["state"] != "running" and seen < 2 and (late := streamed.more()):
                yield late
            seen += bool(view["takes"])  # the first shows what is there before the first note
            yield view

    def close_slowly(composer: Composer) -> None:
        """End all work, and let those whose work it was find out."""
        close(composer)
        time.sleep(2)

    setattr(PageActions, "_play", shown_once)  # noqa: B010  methods in place of others
    setattr(Composer, "close", close_slowly)  # noqa: B010
    sys.exit(main())
