"""Waiting for a condition, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_until(
    condition: Callable[[], Any], what: str = "it", seconds: float = 60.0, step: float = 0.01
) -> Any:
    """Polls a condition with a bound; answers its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(step)
    raise AssertionError(f"waited {seconds} s for {what}")
