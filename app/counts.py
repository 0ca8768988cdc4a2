"""Options that count something, of which there has to be one at least."""

from __future__ import annotations

import argparse


def check_counts(arguments: argparse.Namespace, *options: str) -> None:
    """Refuse what is below 1; an option that was left out is not looked at."""
    for option in options:
        value = getattr(arguments, option.replace("-", "_"))
        if value is not None and value < 1:
            raise ValueError(f"--{option} is {value}; it must be 1 or more")
