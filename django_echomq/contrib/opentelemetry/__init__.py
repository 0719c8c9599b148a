"""Traces that go along with jobs; needs the extra ``django-echomq[opentelemetry]``.

Put ``"django_echomq.contrib.opentelemetry"`` into ``INSTALLED_APPS``, or call :func:`instrument`
before a worker starts. Where neither is done nothing of it runs.

By the semantic conventions for messaging: a span ``enqueue <queue>`` of kind PRODUCER where calls
are sent, and ``process <queue>`` of kind CONSUMER around each attempt. The context of the first
travels in the envelope's options, as ``trace``; the second links to it, and is its child unless
:func:`instrument` is told otherwise.
"""

from __future__ import annotations

from .tracing import instrument, uninstrument

__all__ = ["instrument", "uninstrument"]
