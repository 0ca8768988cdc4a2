"""An action as an endpoint of gradio: its errors are sentences, and sampling is handed over value by value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import gradio as gr

from app.web.composing.requests import SAMPLING, SamplingValues
from tokenization.wording import sentence

Answer = TypeVar("Answer")


def answering(action: Callable[..., Answer]) -> Callable[..., Answer]:
    """Turn what is wrong with a request into its answer: one sentence."""

    @functools.wraps(action)
    def answered(*values: Any, **named: Any) -> Answer:
        try:
            return action(*values, **named)
        except ValueError as error:
            raise gr.Error(sentence(str(error)), print_exception=False) from None

    return answered


def with_sampling(action: Callable[..., Answer]) -> Callable[..., Answer]:
    """Let gradio hand over `sampling` of an endpoint value by value, as it has to, under their names."""
    signature = inspect.signature(action)
    names = [*signature.parameters]
    first = names.index("sampling")
    stop = first + len(SAMPLING)

    @functools.wraps(action)
    def called(*values: Any) -> Answer:
        return action(*values[:first], SamplingValues(*values[first:stop]), *values[stop:])

    one_by_one = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in SAMPLING
    ]
    parameters = [*signature.parameters.values()]
    parameters[first : first + 1] = one_by_one
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called
