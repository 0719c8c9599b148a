"""Settings of the processes of a soak: one queue, short leases, a limited and a heavy lane."""

import os

from tests.settings import *  # noqa: F403
from tests.settings import ECHOMQ as _ECHOMQ
from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.soak"]
ECHOMQ = {
    "CONNECTIONS": {"default": {"URL": os.environ["ECHOMQ_TEST_URL"]}},
    "QUEUES": {
        **_ECHOMQ["QUEUES"],
        "soak": {
            "LEASE": 3,
            "BACKOFF": {"TYPE": "exponential", "BASE_MS": 100, "CAP_MS": 1_000},
            # The auditor takes what has ended; nothing may go before it has.
            "KEEP_COMPLETED": 86_400,
            "KEEP_COMPLETED_MAX": 10_000_000,
            "LANES": {"heavy": {"WEIGHT": 3}, "narrow": {"LIMIT": 2}},
        },
    },
    "SCHEDULES": {"tick": {"TASK": "tests.soak.tasks.tick", "EVERY": 0.5, "QUEUE": "soak"}},
}
