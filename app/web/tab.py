"""The program in a browser's tab: answers the requests of the page by the code of the server, without one.

It runs in Pyodide, in a worker (app/assets/worker/worker.js), with numpy and the standard library alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from app.web.actions import PageActions
from app.web.composing.alone import OwnComposer, read_here
from app.web.composing.opened_files import FileReader
from app.web.desk import NOT_KEPT, Answer, Asked, Desk, File
from app.web.offered_models import OfferedModels
from tokenization.edit import NotKept
from tokenization.wording import sentence

FAULT = "The program failed on this; the browser’s console has the details."
NO_MEMORY = (
    "The browser has no memory left for this; ask for fewer takes or bars, or reload the page."
)
LOG = logging.getLogger(__name__)


class Tab:
    """Answers requests one after the other; between two parts of an answer, another one can be given."""

    def __init__(self, model: str) -> None:
        self._models, self._composer = OfferedModels(model), OwnComposer()
        self._desk = Desk(PageActions(self._models, self._composer, FileReader(read_here)))

    def warm(self) -> None:
        """Read the weights of the first model, so that no request waits for them."""
        self._models.find("").network  # noqa: B018  read when it is first needed

    def ask(self, what: str, wanted: str, data: bytes, name: str) -> Iterator[str | bytes]:
        """Yield the head of the answer to a request, as JSON, and then its parts."""
        try:
            asked = Asked(plain=json.loads(wanted), data=data, name=name)
            answer: Answer = getattr(self._desk, what)(asked)
        except Exception as error:
            yield _head(NOT_KEPT if isinstance(error, NotKept) else 400)
            yield _json({"detail": said(error)})
            return
        yield _head(204 if answer is None else 200, answer.kind if isinstance(answer, File) else "")
        if isinstance(answer, File):
            yield answer.data
        elif isinstance(answer, dict):
            yield _json(answer)
        elif answer is not None:
            try:
                for view in answer:
                    yield f"{_json(view)}\n"
            except Exception as error:
                yield f"{_json({'error': said(error)})}\n"

    def work(self, seconds: float) -> bool:
        """Work on what nobody waits for; return whether there is more to do."""
        return self._composer.work(seconds)


def _head(status: int, kind: str = "") -> str:
    return json.dumps({"status": status, "kind": kind})


def _json(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, default=lambda value: value.item())


def said(error: Exception) -> str:
    """Describe an error for the user in one sentence."""
    if isinstance(error, ValueError):
        return sentence(str(error))
    if isinstance(error, MemoryError):
        return NO_MEMORY
    LOG.error("A request failed", exc_info=error)
    return FAULT


def accept_wide_indices() -> None:
    """Let numpy count and repeat by 64-bit numbers, which it refuses where addresses have 32 bits, as in browsers."""
    bincount, repeat = np.bincount, np.repeat

    def narrow(values: Any) -> Any:
        return np.asarray(values).astype(np.intp)

    def counted(x: Any, *more: Any, **named: Any) -> Any:
        return bincount(narrow(x), *more, **named)

    def repeated(a: Any, repeats: Any, *more: Any, **named: Any) -> Any:
        return repeat(a, narrow(repeats), *more, **named)

    setattr(np, "bincount", counted)  # noqa: B010  replaces the function
    setattr(np, "repeat", repeated)  # noqa: B010
