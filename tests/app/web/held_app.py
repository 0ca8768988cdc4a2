"""`musicgen app`, which writes the first bars of a long request and then waits until somebody stops it.

What a person does while music is under way is tested so on a machine of any speed: nothing has to be pressed in time.
And music of a few notes, which may be whole before anybody has looked, is shown once before its end. Between the end of
its work and its own it takes its time, as a busy machine does.
"""

import sys
import time
from collections.abc import Iterator
from functools import wraps
from typing import Any

from app.cli import main
from app.web.composing import composer

LONG = 64  # bars, the prompt's too: a request for as many is held …
HELD_AFTER = 40  # … after so many new ones

compose = composer.compose


@wraps(compose)  # by whose name a process finds it that imports this module
def compose_and_hold(*given: Any) -> None:
    """Compose, but let a variation wait for somebody who stops it."""
    # Here, since torch comes with it, which the processes that read files do without.
    from musicgen.generation.engine import Engine

    next_turn = Engine._next_turn

    def turn_of_others(engine: Engine, now: float) -> list[Any]:
        def is_held(group: Any) -> bool:
            return (group.job.order.before_bar or 0) >= LONG and group.bars >= HELD_AFTER

        if turn := [group for group in next_turn(engine, now) if not is_held(group)]:
            return turn
        time.sleep(0.01)
        return []

    setattr(Engine, "_next_turn", turn_of_others)  # noqa: B010  a method in place of another
    compose(*given)


setattr(composer, "compose", compose_and_hold)  # noqa: B010  a function in place of another

if __name__ == "__main__":
    from app.web.actions import PageActions  # of the server alone, and not of those that compose

    play, close = PageActions._play, composer.Composer.close

    def shown_once(actions: PageActions, streamed: Any, *more: Any) -> Iterator[dict[str, Any]]:
        """Yield the views of music, among them one at least of it as it grows."""
        seen = 0
        for view in play(actions, streamed, *more):
            if view["state"] != "running" and seen < 2 and (late := streamed.more()):
                yield late
            seen += bool(view["takes"])  # the first shows what is there before the first note
            yield view

    def close_slowly(closed: composer.Composer) -> None:
        """End all work, and let those whose work it was find out."""
        close(closed)
        time.sleep(2)

    setattr(PageActions, "_play", shown_once)  # noqa: B010  methods in place of others
    setattr(composer.Composer, "close", close_slowly)  # noqa: B010
    sys.exit(main())
