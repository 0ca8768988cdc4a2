"""Errors of requests as answers: one sentence, which repeats nothing of the request."""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from app.web.desk import NOT_KEPT
from app.web.guard import API, FULL_DISK, WRITE, Refused
from tokenization.edit import NotKept
from tokenization.whole_file import FULL
from tokenization.wording import sentence

FAULT = "The server failed on this request; its log has the details."
NOTHING_THERE = "There is nothing available at this address."
NO_ENDPOINT = "There is no endpoint with that name, or its parameters have other names."
LONGEST_DETAIL = 150  # characters; longer ones may repeat the request
LOG = logging.getLogger(__name__)


def is_disk_full(error: Exception) -> bool:
    """Return whether an error was caused by a full disk."""
    return isinstance(error, OSError) and error.errno in FULL


def error_message(error: Exception) -> str:
    """Describe an error for the user in one sentence; faults of the server are logged instead."""
    if isinstance(error, Refused):
        return error.sentence
    if isinstance(error, ValueError):
        return sentence(str(error))
    if is_disk_full(error):
        return FULL_DISK
    LOG.error("A request failed", exc_info=error)
    return FAULT


def client_of(request: Any) -> str:
    """Return the address of the client of a starlette or gradio request."""
    return request.client.host if request is not None and request.client else ""


async def refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that failed."""
    status, said = _described(request.url.path, error)
    return JSONResponse({"detail": said}, status)


def _described(path: str, error: Exception) -> tuple[int, str]:
    """Return the status of a failed request, and what is said about it."""
    if isinstance(error, Refused):
        return error.status, error.sentence
    if isinstance(error, HTTPException):
        said = str(error.detail)
        is_odd = error.status_code in (403, 404) or "\x1b" in said or len(said) > LONGEST_DETAIL
        return error.status_code, NOTHING_THERE if is_odd else said
    if is_disk_full(error):
        return 507, FULL_DISK
    if isinstance(error, NotKept):
        return NOT_KEPT, error_message(error)
    if isinstance(error, ValueError) and path.startswith(("/desk/", WRITE)):
        return 400, error_message(error)
    if path.startswith(f"{API}/") and _is_of_gradio(error):
        return 404, NO_ENDPOINT
    LOG.error("A request failed", exc_info=error)
    return 500, FAULT


def _is_of_gradio(error: Exception) -> bool:
    """Return whether an error is one that gradio raises on a wrong name of an endpoint or of a parameter."""
    return isinstance(error, KeyError | TypeError) or type(error).__module__.startswith("gradio.")


HANDLERS: dict[Any, Any] = {HTTPException: refuse, Exception: refuse}
