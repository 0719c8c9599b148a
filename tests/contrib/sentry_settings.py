"""The suite's settings with Sentry as the page has it; events are appended to a file."""

import functools
import json
import os
from pathlib import Path
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from tests.contrib import pages
from tests.settings import *  # noqa: F403


class _File(Transport):
    def capture_envelope(self, envelope: Envelope) -> None:
        event: Any = envelope.get_event()
        if event:
            with Path(os.environ["ECHOMQ_TEST_EVENTS"]).open("a") as out:
                out.write(json.dumps(event, default=str) + "\n")


os.environ["SENTRY_DSN"] = "http://key@127.0.0.1/1"
_init = sentry_sdk.init
sentry_sdk.init = functools.partial(_init, transport=_File)  # type: ignore[misc, assignment]
pages.code("import sentry_sdk", os=os)
