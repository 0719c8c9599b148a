"""The spans, and how their context travels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, TracerProvider
from opentelemetry.util.types import AttributeValue

from ...queue import Queue
from ...queue.jobs import Settlement
from ...tasks.around import Around, Sending, add, remove
from ...wire import __version__
from ...worker.hand import Hand, Handler

_CARRIED = "trace"  # the option of the envelope
_MARK = b'"trace":{'

_tracing: _Tracing | None = None


def instrument(tracer_provider: TracerProvider | None = None, *, links_only: bool = False) -> None:
    """Traces what is sent from now on, and what workers run that start later.

    Args:
        tracer_provider: the process's own unless given.
        links_only: an attempt begins a trace of its own, which links to that of the sender; for
            those who send many jobs in one call.
    """
    global _tracing
    uninstrument()
    tracer = trace.get_tracer("django_echomq", __version__, tracer_provider)
    _tracing = _Tracing(tracer, links_only)
    add(_tracing)


def uninstrument() -> None:
    """Takes back :func:`instrument`."""
    global _tracing
    if _tracing:
        remove(_tracing)
    _tracing = None


class _Tracing(Around):
    def __init__(self, tracer: Tracer, links_only: bool) -> None:
        self._tracer = tracer
        self._links_only = links_only

    @contextmanager
    def sending(self, sending: Sending) -> Iterator[None]:
        attributes = _attributes(sending.queue, "send", "enqueue")
        attributes["messaging.echomq.task"] = sending.task
        if sending.many:
            attributes["messaging.batch.message_count"] = sending.count
        with self._tracer.start_as_current_span(
            f"enqueue {sending.queue.name}", kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            if carrier:
                sending.carried[_CARRIED] = carrier
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", _name(error))
                raise
            if not sending.many and span.is_recording():
                (admission,) = sending.admissions
                span.set_attribute("messaging.message.id", admission.job_id)
                span.set_attribute("messaging.echomq.outcome", admission.outcome)

    def running(self, hand: Hand, run: Handler) -> Settlement | None:
        context = propagate.extract(_carrier(hand.claim.payload), Context())
        sender = trace.get_current_span(context).get_span_context()
        attributes = _attributes(hand.queue, "process", "process")
        attributes["messaging.message.id"] = hand.claim.job_id
        attributes["messaging.echomq.attempt"] = hand.claim.attempt
        if hand.claim.lane:
            attributes["messaging.echomq.lane"] = hand.claim.lane
        span = self._tracer.start_span(
            f"process {hand.queue.name}",
            Context() if self._links_only else context,
            SpanKind.CONSUMER,
            attributes,
            [Link(sender)] if sender.is_valid else [],
        )
        later = hand.later
        if later is not None:

            def ended(hand: Hand, settlement: Settlement) -> None:
                try:
                    _end(span, hand, settlement)
                finally:
                    later(hand, settlement)

            hand.later = ended
        # With what else was extracted, such as baggage.
        token = contexts.attach(trace.set_span_in_context(span, context))
        try:
            settlement = run(hand)
        except BaseException as error:
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, str(error))
            span.end()
            raise
        finally:
            contexts.detach(token)
        if settlement is not None:
            _end(span, hand, settlement)
        return settlement


def _attributes(queue: Queue, kind: str, name: str) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "echomq",
        "messaging.destination.name": queue.name,
        "messaging.operation.type": kind,
        "messaging.operation.name": name,
    }
    options = queue.client.endpoint.options
    if host := options.get("host"):
        attributes["server.address"] = str(host)
        attributes["server.port"] = int(options.get("port", 6379))
    return attributes


def _end(span: Span, hand: Hand, settlement: Settlement) -> None:
    """Says how an attempt ended."""
    if span.is_recording():
        span.set_attribute("messaging.echomq.task", hand.task)
        outcome = _outcome(settlement)
        span.set_attribute("messaging.echomq.outcome", outcome)
        if settlement.verb == "retry":
            _, _, reason, history = settlement.args
            entry: dict[str, Any] = json.loads(_text(history) or "{}")
            kind, text = str(entry.get("exception", "_OTHER")), _text(reason)
            span.set_attribute("error.type", kind)
            span.add_event(
                "exception",
                {
                    "exception.type": kind,
                    "exception.message": text,
                    "exception.stacktrace": str(entry.get("traceback", "")),
                },
            )
            span.set_status(StatusCode.ERROR, text)
    span.end()


def _outcome(settlement: Settlement) -> str:
    if settlement.verb == "retry":
        budget = int(settlement.args[1])
        return "dead" if settlement.claim.attempt >= budget else "retried"
    return {"complete": "completed", "cancel": "cancelled", "release": "released"}[settlement.verb]


def _carrier(payload: bytes) -> dict[str, str]:
    """What the sender's propagators wrote; empty where there is nothing, or another's."""
    if _MARK not in payload:
        return {}
    try:
        found = json.loads(payload)["options"][_CARRIED]
        return {str(key): value for key, value in found.items() if isinstance(value, str)}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
