"""What is swept away every other second for as long as the server runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.web.server.jobs import Jobs
from app.web.server.uploads import delete_broken_off, forget_deleted

SWEEP_SECONDS = 2


def sweeping(jobs: Jobs, uploads: Path) -> Any:
    """Return what a server sweeps by, from its start to its end (an ASGI lifespan)."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(_sweep(jobs, uploads))
        try:
            yield
        finally:
            task.cancel()

    return lifespan


async def _sweep(jobs: Jobs, uploads: Path) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        await jobs.end_abandoned()
        await asyncio.to_thread(delete_broken_off, uploads)
        forget_deleted(jobs.blocks.temp_file_sets)
