"""Where the work of a command is done: on which device, by processes of this machine or those of a cluster."""

from __future__ import annotations

import argparse

from app.counts import check_counts


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names a device of torch."""
    parser.add_argument(
        "--device", default="auto", metavar="auto|cpu|cuda|mps",
        help="where to compute; auto takes a GPU if there is one",
    )  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Declare the options, of which one can be given."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one a processor)"
    )
    who.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="let the workers of a dask scheduler do it, such as tcp://HOST:8786; they have musicgen[cluster] "
        "installed and see the same files",
    )  # fmt: skip


def chosen_device(arguments: argparse.Namespace) -> str:
    """Return the device to compute on."""
    from musicgen.loading import device_of

    return device_of(arguments.device)


def workers_of(arguments: argparse.Namespace) -> int | str:
    """Return the number of processes, a GPU being fed by one, or the scheduler's address."""
    from musicgen.common.processes import processors

    if arguments.scheduler:
        return arguments.scheduler
    check_counts(arguments, "workers")
    return arguments.workers or (processors() if chosen_device(arguments) == "cpu" else 1)
