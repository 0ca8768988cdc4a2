"""`musicgen app`, but long requests pause after some bars until they are stopped.

So actions during composing can be tested on a machine of any speed. Short takes, which may be complete before the page
has seen them, are shown at least once before their end. The server takes its time between the end of its work and its
own end, as on a busy machine.
"""

import sys
import time
from collections.abc import Iterator
from functools import wraps
from typing import Any

from app.cli import main
from app.web.composing import composer

LONG = 64  # bars, including the prompt, from which requests are held
HELD_AFTER = 40  # new bars

compose = composer.compose


@wraps(compose)  # processes that import this module find it by that name
def compose_and_hold(*given: Any) -> None:
    """Compose, but hold long requests until they are stopped."""
    # Imported here, since the processes that read files do not need torch.
    from musicgen.generation.engine import Engine

    next_turn = Engine._next_turn

    def turn_of_others(engine: Engine) -> list[Any]:
        def is_held(row: Any) -> bool:
            return (row.job.order.before_bar or 0) >= LONG and row.bars >= HELD_AFTER

        if turn := [row for row in next_turn(engine) if not is_held(row)]:
            return turn
        time.sleep(0.01)
        return []

    setattr(Engine, "_next_turn", turn_of_others)  # noqa: B010  replaces the method
    compose(*given)


setattr(composer, "compose", compose_and_hold)  # noqa: B010  replaces the function

if __name__ == "__main__":
    from app.web.actions import PageActions  # needed by the server process only

    play, close = PageActions._play, composer.Composer.close

    def shown_once(actions: PageActions, streamed: Any, *more: Any) -> Iterator[dict[str, Any]]:
        """Yield the views, with at least one of growing music."""
        seen = 0
        for view in play(actions, streamed, *more):
            if view["state"] != "running" and seen < 2 and (late := streamed.more()):
                yield late
            seen += bool(view["takes"])  # the first is the state before the first note
            yield view

    def close_slowly(closed: composer.Composer) -> None:
        """Kill all processes, and leave time for requests to notice."""
        close(closed)
        time.sleep(2)

    setattr(PageActions, "_play", shown_once)  # noqa: B010  replace the methods
    setattr(composer.Composer, "close", close_slowly)  # noqa: B010
    sys.exit(main())
