"""Waiting for a condition, with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_until(
    condition: Callable[[], Any], what: str = "it", seconds: float = 150.0, step: float = 0.01
) -> Any:
    """Polls a condition with a bound; answers its value."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        if value := condition():
            return value
        assert not late, f"waited {seconds} s for {what}"
        time.sleep(step)
