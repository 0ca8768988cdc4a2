"""What goes wrong with a request, as a sentence: to who sent it, and in the log no more than it is worth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError
from gradio.exceptions import InvalidPathError
from gradio.route_utils import FnIndexInferError
from starlette.requests import Request
from starlette.responses import JSONResponse

from app.web.composing.wishes import sentence

FAULT = "The server failed at this request; its log says how."


def tell_errors(blocks: Any, answered: Callable[[str | None], None]) -> None:
    """Let gradio's blocks answer values that they do not take with a sentence, and a fault of ours with another.

    `answered` is called with the session's name after each.
    """
    read, process = blocks.preprocess_data, blocks.process_api

    @functools.wraps(read)
    async def reading(*values: Any, **named: Any) -> Any:
        try:
            return await read(*values, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except (
            Exception
        ) as error:  # a component that is given what it is not for, and trips over it
            said = "a value is of another kind than is wanted"
            if isinstance(error, InvalidPathError):
                said = "this file was not sent to this server: upload it first"
            elif isinstance(error, ValueError):
                said = str(error)
            raise gr.Error(sentence(said[:200]), print_exception=False) from None

    @functools.wraps(process)
    async def processing(*values: Any, **named: Any) -> Any:
        try:
            return await process(*values, **named)
        except gr.Error:
            raise
        except Exception as error:
            raise gr.Error(FAULT) from error
        finally:
            answered(named.get("session_hash"))

    blocks.preprocess_data, blocks.process_api = reading, processing


async def tell_fault(_: Request, error: Exception) -> JSONResponse:
    """Answer a request that failed for a fault of ours; gradio's own for a name that it does not know is none."""
    unknown = isinstance(error, FnIndexInferError)
    said = "There is no endpoint of that name." if unknown else FAULT
    return JSONResponse({"detail": said}, 404 if unknown else 500)


async def refuse_values(_: Request, error: Any) -> JSONResponse:
    """Answer a request whose names or values are not those that are wanted, without repeating them."""
    places = [".".join(str(part)[:40] for part in one["loc"][1:]) for one in error.errors()[:3]]
    named = ", ".join(place.encode("ascii", "replace").decode() for place in places if place)
    return JSONResponse(
        {"detail": f"The request lacks a value, or has a wrong one: {named or 'all of it'}."}, 422
    )


HANDLERS: dict[Any, Any] = {
    RequestValidationError: refuse_values,
    FnIndexInferError: tell_fault,
    Exception: tell_fault,
}
