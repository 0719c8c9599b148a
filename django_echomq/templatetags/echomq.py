"""How the console shows numbers, times and text that came from Valkey."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.utils.formats import date_format, number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from ..console.search import Filter
from ..queue.metrics import Throughput
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
        return _("%(n)s ms") % {"n": number(round(seconds * 1000, 1 if seconds < 0.01 else 0))}
    if seconds < 120:
        return _("%(n)s s") % {"n": number(round(seconds, 1 if seconds < 10 else 0))}
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
def query(meant: Filter, offset: int = 0) -> str:
    """The query string of a page of the same jobs."""
    return meant.query(**({"from": offset} if offset else {}))


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
    width, height, top = 720, 160, 10
    most = max((p.completed + p.failed + p.cancelled for p in points), default=0)
    scale = (height - top - 16) / max(1, most)
    step = width / max(1, len(points))
    bars = []
    for n, point in enumerate(points):
        at = localtime(point.at)
        when = date_format(at, "TIME_FORMAT" if unit == "hour" else "SHORT_DATETIME_FORMAT")
        label = _("%(when)s: %(done)s completed, %(failed)s failed, %(cancelled)s cancelled") % {
            "when": when,
            "done": number(point.completed),
            "failed": number(point.failed),
            "cancelled": number(point.cancelled),
        }
        base, rects = float(height - 16), []
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
                '<g><title>{}</title><rect class="hit" x="{}" y="0" width="{}" height="{}"/>{}</g>',
                label,
                f"{n * step:.2f}",
                f"{step:.2f}",
                height - 16,
                format_html_join(
                    "", '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>', rects
                ),
            )
        )
    first = date_format(localtime(points[0].at), "SHORT_DATETIME_FORMAT") if points else ""
    return format_html(
        '<svg class="echomq-chart" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">'
        '<line x1="0" x2="{w}" y1="{b}" y2="{b}"/>{bars}'
        '<text x="0" y="{h}">{first}</text><text x="{w}" y="{h}" text-anchor="end">{now}</text>'
        '<text x="0" y="9">{most}</text></svg>'
        '<p class="echomq-legend"><span class="completed">{c}</span> '
        '<span class="failed">{f}</span> <span class="cancelled">{x}</span></p>',
        w=width,
        h=height,
        b=height - 16,
        label=_("%(done)s completed, %(failed)s failed")
        % {
            "done": number(sum(p.completed for p in points)),
            "failed": number(sum(p.failed for p in points)),
        },
        bars=SafeString("".join(bars)),
        first=first,
        now=_("now"),
        most=number(most),
        c=_("completed: %(n)s") % {"n": number(sum(p.completed for p in points))},
        f=_("failed: %(n)s") % {"n": number(sum(p.failed for p in points))},
        x=_("cancelled: %(n)s") % {"n": number(sum(p.cancelled for p in points))},
    )
