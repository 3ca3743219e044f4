"""Background work that goes on after a failure: a database that is away for a moment comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


async def repeat(step: Callable[[], Awaitable[None]], every_s: float) -> None:
    """Does `step` again and again until cancelled; what it raises is logged, once while it lasts."""
    failing = False
    while True:
        try:
            await step()
            failing = False
        except Exception:
            if not failing:
                logger.exception("background work failed; it is tried again")
            failing = True
        await asyncio.sleep(every_s)
