"""How the console shows numbers, times and text that came from Valkey."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.utils.formats import date_format, number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..console.queues import QueueRow, Verb
from ..console.search import Filter
from ..console.site import url
from ..queue import Queue
from ..queue.metrics import Overview, Throughput
from ..tasks.shown import ShownCall

register = template.Library()

NONE = "\N{EN DASH}"
_SHOWN = 65_536
# They turn text around, and so can make it say what it does not.
_BIDI = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C])


@register.filter
def number(value: Any) -> str:
    """A number in the reader's notation."""
    if value is None or value == "":
        return ""
    return number_format(value, use_l10n=True, force_grouping=True)


@register.filter
def clean(value: Any) -> str:
    """Untrusted text: bounded, without control and direction characters. Escaped like any."""
    text = "" if value is None else str(value)
    if len(text) > _SHOWN:
        text = text[:_SHOWN] + " …"
    text = text.translate(_BIDI)
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


@register.filter
def text(value: Any) -> str:
    """As :func:`clean`, for values of JSON that may be anything."""
    return clean(value if isinstance(value, (str, int, float)) else "")


@register.filter
def span(seconds: float | None) -> str:
    """A stretch of time, short."""
    if seconds is None:
        return NONE
    if seconds < 1:
        ms = seconds * 1000
        return _("%(n)s ms") % {"n": number(round(ms, 1) if ms < 10 else round(ms))}
    if seconds < 120:
        return _("%(n)s s") % {"n": number(round(seconds, 1) if seconds < 10 else round(seconds))}
    if seconds < 7_200:
        return _("%(n)s min") % {"n": number(round(seconds / 60))}
    if seconds < 172_800:
        return _("%(n)s h") % {"n": number(round(seconds / 3_600))}
    return _("%(n)s d") % {"n": number(round(seconds / 86_400))}


@register.filter
def instant(value: datetime | None) -> str | SafeString:
    """A time, for the reader's zone; the exact instant shows on hover."""
    if value is None:
        return NONE
    try:
        shown = localtime(value)
    except OverflowError:  # the ends of time have no other zones
        shown = value
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        value.astimezone(UTC).isoformat(timespec="milliseconds"),
        value.astimezone(UTC).isoformat(" ", timespec="milliseconds"),
        date_format(shown, "DATETIME_FORMAT"),
    )


@register.filter
def ms_instant(value: Any) -> str | SafeString:
    """As :func:`instant`, from Unix ms that may be anything."""
    try:
        return instant(datetime.fromtimestamp(value / 1000, UTC))
    except (TypeError, ValueError, OverflowError, OSError):
        return NONE


@register.filter
def in_zone(value: datetime, zone: str) -> str:
    """A time in a schedule's own zone."""
    try:
        return value.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M %Z")
    except (ValueError, OSError):
        return ""


@register.filter
def short_task(name: str) -> str:
    """The last two parts of a dotted name."""
    return clean(".".join(name.rsplit(".", 2)[-2:]))


@register.filter
def arguments(call: ShownCall) -> str:
    """A call's arguments on one short line."""
    parts = [
        *(repr(value) for value in call.args),
        *(f"{key}={value!r}" for key, value in call.kwargs.items()),
    ]
    line = clean("(" + ", ".join(parts) + ")")
    return line if len(line) <= 100 else line[:99] + "…"


@register.simple_tag
def state_word(state: str) -> str:
    """A state in the reader's language."""
    words = {
        "running": _("running"),
        "paused": _("paused"),
        "limited": _("limited"),
        "away": _("away"),
        "pending": _("pending"),
        "active": _("active"),
        "scheduled": _("scheduled"),
        "dead": _("dead"),
        "completed": _("completed"),
        "cancelled": _("cancelled"),
        "quiet": _("quiet"),
        "stopping": _("stopping"),
        "done": _("done"),
        "failed": _("failed"),
        "interrupted": _("interrupted"),
    }
    return words.get(state, clean(state))


@register.simple_tag
def query(meant: Filter, offset: int = 0, **changes: Any) -> str:
    """The query string of a page of the same jobs, or of those of another lane."""
    return meant.query(**({"from": offset} if offset else {}), **changes)


@register.filter
def meets(verb: Verb, counts: dict[str, int]) -> int:
    """How many jobs a verb will meet."""
    return sum(counts[name] for name in verb.meant)


@register.simple_tag
def percent(progress: str) -> int | None:
    """What a job says of its progress as a part of 100, where it is a number, or ``done`` and
    ``of``; else ``None``."""
    try:
        value = json.loads(progress)
        if isinstance(value, dict):
            value = 100 * value["done"] / (value.get("of") or value["total"])
        return int(min(100, max(0, round(value))))
    except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Complaint:
    """What is wrong with a queue.

    Attributes:
        level: ``bad``, or ``warn`` for what somebody may have wanted.
        since: since when, where that is known.
    """

    level: str
    queue: str
    url: str
    text: str
    since: datetime | None = None


_LATE = 300  # seconds of waiting that somebody should know of


@register.simple_tag
def complaints(rows: Sequence[tuple[QueueRow, str]]) -> list[Complaint]:
    """What is wrong with the queues of a list, the worst first."""
    found = []
    for row, _state in rows:
        if row.overview is None:
            link = url("queue", row.queue.name)
            found.append(
                Complaint("bad", row.queue.name, link, _("cannot be reached: its server is away."))
            )
        else:
            found += complaints_of(row.queue, row.overview)
    return sorted(found, key=lambda complaint: complaint.level)


@register.simple_tag
def complaints_of(queue: Queue, overview: Overview) -> list[Complaint]:
    """What is wrong with a queue, the worst first."""
    waiting, oldest = overview.counts["pending"], overview.oldest
    since = None if oldest is None else datetime.now(UTC) - timedelta(seconds=oldest)
    home, found = url("queue", queue.name), []

    def add(level: str, link: str, text: str, since: datetime | None) -> None:
        found.append(Complaint(level, queue.name, link, text % numbers, since))

    numbers = {"n": number(waiting), "failed": number(overview.failed_last_hour)}
    if waiting and not overview.workers and not overview.paused:
        many = ngettext(
            "has no worker, and %(n)s job waits.", "has no worker, and %(n)s jobs wait.", waiting
        )
        add("bad", home, many, since)
    elif oldest is not None and oldest > _LATE and not overview.paused:
        many = ngettext("is late: %(n)s job waits.", "is late: %(n)s jobs wait.", waiting)
        add("bad", home, many, since)
    if failures := [point.at for point in overview.throughput if point.failed]:
        many = ngettext(
            "had %(failed)s job fail for good in the last hour.",
            "had %(failed)s jobs fail for good in the last hour.",
            overview.failed_last_hour,
        )
        add("bad", url("failures", queue.name), many, failures[0])
    if overview.paused:
        many = ngettext(
            "is paused, and %(n)s job waits.", "is paused, and %(n)s jobs wait.", waiting
        )
        add("warn", home, many if waiting else _("is paused."), since)
    return found


_WIDTH, _HEIGHT = 120, 24


@register.simple_tag
def spark(points: Sequence[Throughput]) -> SafeString:
    """Completed jobs per minute as a line; failures as marks."""
    most = max((point.completed for point in points), default=0)
    total = sum(point.completed for point in points)
    step = _WIDTH / max(1, len(points) - 1)
    line = " ".join(
        f"{'M' if n == 0 else 'L'}{n * step:.1f} "
        f"{_HEIGHT - 2 - (_HEIGHT - 4) * point.completed / max(1, most):.1f}"
        for n, point in enumerate(points)
    )
    failed = format_html_join(
        "",
        '<circle cx="{}" cy="{}" r="2"/>',
        ((f"{n * step:.1f}", _HEIGHT - 3) for n, point in enumerate(points) if point.failed),
    )
    return format_html(
        '<svg class="echomq-spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" '
        'aria-label="{}"><path d="{}"/>{}</svg> <span class="quiet">{}</span>',
        _WIDTH,
        _HEIGHT,
        _WIDTH,
        _HEIGHT,
        _("%(n)s completed in the last hour") % {"n": number(total)},
        line,
        failed,
        number(total),
    )


@register.simple_tag
def chart(points: Sequence[Throughput], unit: str) -> SafeString:
    """Bars of completed and failed jobs, with what each bar stands for on hover."""
    width, height = 720, 140
    most = max((p.completed + p.failed + p.cancelled for p in points), default=0)
    scale = (height - 1) / max(1, most)
    step = width / max(1, len(points))
    bars = []
    for n, point in enumerate(points):
        counts = _("%(done)s completed, %(failed)s failed, %(cancelled)s cancelled") % {
            "done": number(point.completed),
            "failed": number(point.failed),
            "cancelled": number(point.cancelled),
        }
        base, rects = float(height), []
        for kind, count in (
            ("completed", point.completed),
            ("cancelled", point.cancelled),
            ("failed", point.failed),
        ):
            if count:
                tall = max(1.0, count * scale)
                base -= tall
                rects.append(
                    (kind, f"{n * step:.2f}", f"{base:.2f}", f"{step * 0.8:.2f}", f"{tall:.2f}")
                )
        bars.append(
            format_html(
                '<g data-at="{}" data-counts="{}"><title>{}: {}</title>'
                '<rect class="hit" x="{}" y="0" width="{}" height="{}"/>{}</g>',
                point.at.astimezone(UTC).isoformat(),
                counts,
                date_format(
                    localtime(point.at),
                    "TIME_FORMAT" if unit == "hour" else "SHORT_DATETIME_FORMAT",
                ),
                counts,
                f"{n * step:.2f}",
                f"{step:.2f}",
                height,
                format_html_join(
                    "", '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>', rects
                ),
            )
        )
    completed, failed, cancelled = (
        sum(getattr(point, kind) for point in points)
        for kind in ("completed", "failed", "cancelled")
    )
    return format_html(
        '<p class="echomq-axis"><span>{most}</span></p>'
        '<svg class="echomq-chart" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" '
        'aria-label="{label}"><line x1="0" x2="{w}" y1="{h}" y2="{h}"/>{bars}</svg>'
        '<p class="echomq-axis"><span>{first}</span><span>{now}</span></p>'
        '<p class="echomq-legend"><span class="completed">{c}</span> '
        '<span class="failed">{f}</span> <span class="cancelled">{x}</span></p>',
        w=width,
        h=height,
        label=_("%(done)s completed, %(failed)s failed")
        % {"done": number(completed), "failed": number(failed)},
        bars=SafeString("".join(bars)),
        first=instant(points[0].at) if points else "",
        now=_("now"),
        most=_("at most %(n)s") % {"n": number(most)},
        c=_("completed: %(n)s") % {"n": number(completed)},
        f=_("failed: %(n)s") % {"n": number(failed)},
        x=_("cancelled: %(n)s") % {"n": number(cancelled)},
    )
