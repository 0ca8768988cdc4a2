"""What goes wrong with a request, as a sentence to its sender, and logged only as far as that is useful."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import gradio as gr
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from gradio.exceptions import InvalidPathError
from gradio.route_utils import FnIndexInferError
from gradio_client.utils import is_file_obj, is_http_url_like, traverse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tokenization.wording import sentence
from training.disk import FULL

FAULT = "The server failed at this request; its log says how."
FULL_DISK = "The disk of the server is full; tell who runs it, or try again in a while."


def tell_errors(blocks: Any, answered: Callable[[str | None], None]) -> None:
    """Let gradio's blocks answer values that they do not take with a sentence, and a fault of ours with another.

    `answered` is called with the session's name once a call has its whole answer.
    """
    read, process = blocks.preprocess_data, blocks.process_api

    @functools.wraps(read)
    async def reading(function: Any, inputs: Any, *values: Any, **named: Any) -> Any:
        try:
            traverse(inputs, _check_place, is_file_obj)
            return await read(function, inputs, *values, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:  # of a component that trips over what it is not for
            message = "a value is of another kind than is wanted"
            if isinstance(error, (InvalidPathError, _ElsewhereError)):
                message = "this file was not sent to this server: upload it first"
            elif isinstance(error, ValueError):
                message = str(error)
            elif _is_of_full_disk(error):
                message = FULL_DISK
            raise gr.Error(sentence(message[:200]), print_exception=False) from None

    @functools.wraps(process)
    async def processing(*values: Any, **named: Any) -> Any:
        more = False
        try:
            answer = await process(*values, **named)
            more = answer["is_generating"]
            return answer
        except gr.Error:
            raise
        except Exception as error:
            if _is_of_full_disk(error):
                raise gr.Error(FULL_DISK, print_exception=False) from None
            raise gr.Error(FAULT) from error
        finally:
            if not more:
                answered(named.get("session_hash"))

    blocks.preprocess_data, blocks.process_api = reading, processing


def _is_of_full_disk(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in FULL


class _ElsewhereError(Exception):
    """A file that is none here; what is at an address gradio would fetch, however large."""


def _check_place(file: Any) -> None:
    if is_http_url_like(file["path"]) or not os.path.isfile(file["path"]):
        raise _ElsewhereError


async def tell_fault(_: Request, error: Exception) -> JSONResponse:
    """Answer a request that failed for a fault of ours; gradio's own for a name that it does not know is none."""
    unknown = isinstance(error, FnIndexInferError)
    message = "There is no endpoint of that name." if unknown else FAULT
    return JSONResponse({"detail": message}, 404 if unknown else 500)


async def tell_disk(_: Request, error: Exception) -> JSONResponse:
    """Answer a request whose file there is no room for."""
    if not _is_of_full_disk(error):
        raise error
    return JSONResponse({"detail": FULL_DISK}, 507)


async def refuse_values(_: Request, error: Any) -> JSONResponse:
    """Answer a request whose names or values are not those that are wanted, without repeating them."""
    places = [".".join(str(part)[:40] for part in one["loc"][1:]) for one in error.errors()[:3]]
    named = ", ".join(place.encode("ascii", "replace").decode() for place in places if place)
    return JSONResponse(
        {"detail": f"The request lacks a value, or has a wrong one: {named or 'all of it'}."}, 422
    )


async def refuse_reading(request: Request, error: Any) -> Response:
    """Answer who asks for what there is not, or is not for them, without repeating the name."""
    if request.method in ("GET", "HEAD") and error.status_code in (403, 404):
        message = "There is nothing at this address, or nothing that is given out."
        return JSONResponse({"detail": message}, error.status_code)
    return await http_exception_handler(request, error)


async def refuse_names(request: Request, error: Exception) -> JSONResponse:
    """Answer a call by names, of the endpoint and its values, that gradio trips over."""
    if "/call/v2/" not in request.url.path:
        raise error
    message = "There is no endpoint of that name, or it takes values of other names."
    return JSONResponse({"detail": message}, 404)


HANDLERS: dict[Any, Any] = {
    RequestValidationError: refuse_values,
    HTTPException: refuse_reading,
    FnIndexInferError: tell_fault,
    KeyError: refuse_names,
    TypeError: refuse_names,
    OSError: tell_disk,
    Exception: tell_fault,
}
