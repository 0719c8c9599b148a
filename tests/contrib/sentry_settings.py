"""The suite's settings with Sentry, whose events a process appends to ``ECHOMQ_TEST_EVENTS``."""

import json
import os
from pathlib import Path
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from tests.settings import *  # noqa: F403


class _File(Transport):
    def capture_envelope(self, envelope: Envelope) -> None:
        event: Any = envelope.get_event()
        if event:
            with Path(os.environ["ECHOMQ_TEST_EVENTS"]).open("a") as out:
                out.write(json.dumps(event, default=str) + "\n")


sentry_sdk.init(dsn="http://key@127.0.0.1/1", transport=_File)
