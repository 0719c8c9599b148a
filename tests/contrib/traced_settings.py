"""The suite's settings with traces as the page has it; spans are appended to a file."""

import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from tests.contrib import pages
from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = pages.code("INSTALLED_APPS +=", INSTALLED_APPS=[*_APPS])["INSTALLED_APPS"]

_out = Path(os.environ["ECHOMQ_TEST_SPANS"]).open("a", buffering=1)  # noqa: SIM115 - to the end
_provider = TracerProvider()
_provider.add_span_processor(
    SimpleSpanProcessor(
        ConsoleSpanExporter(out=_out, formatter=lambda span: f"{span.to_json(indent=None)}\n")
    )
)
trace.set_tracer_provider(_provider)
