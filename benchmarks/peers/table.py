"""Figures of several runs as one table, with what was aimed at."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from . import measure
from .catalogue import OURS, VARIANTS, Promise, Variant
from .measure import Row

#: All runs' values by row and variant.
Figures = dict[tuple[Row, str], list[float]]
_BY_NAME = {variant.name: variant for variant in VARIANTS}
_PEERS = [variant for variant in VARIANTS if variant.system not in OURS]
_EVENTS_OFF, _TWO = "echomq, events off", "echomq, 2 processes"


class Medians:
    def __init__(self, figures: Figures) -> None:
        self._medians = {key: statistics.median(values) for key, values in figures.items()}

    def of(self, row: Row, name: str = "echomq") -> float | None:
        return self._medians.get((row, name))

    def best(self, row: Row, promise: Promise = Promise.AGAIN) -> float | None:
        """The best of the peers that promise this."""
        found = [
            value
            for variant in _PEERS
            if variant.promise is promise and (value := self.of(row, variant.name)) is not None
        ]
        if not found:
            return None
        return max(found) if row.unit == "jobs/s" else min(found)


class Goal(NamedTuple):
    """What our figure is to reach.

    Attributes:
        name: of the variant.
        text: with ``{}`` for what was reached.
        reached: from the medians; ``None`` where what it takes was not measured.
    """

    row: Row
    name: str
    text: str
    met: Callable[[float], bool]
    reached: Callable[[Medians], float | None]


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


def _goals() -> Iterator[Goal]:
    def at_least(
        row: Row,
        ratio: float,
        text: str,
        other: Callable[[Medians], float | None],
        name: str = "echomq",
    ) -> Goal:
        return Goal(
            row,
            name,
            f"{{:.2f}}x {text} (goal {ratio:g}x)",
            lambda reached: reached >= ratio,
            lambda medians: _ratio(medians.of(row, name), other(medians)),
        )

    def below(row: Row, limit: float, *, or_equal: bool = False) -> Goal:
        return Goal(
            row,
            "echomq",
            f"{{:.4g}} (goal {'at most' if or_equal else 'under'} {limit:g})",
            lambda reached: reached <= limit if or_equal else reached < limit,
            lambda medians: medians.of(row),
        )

    def best(row: Row) -> Callable[[Medians], float | None]:
        return lambda medians: medians.best(row)

    yield at_least(measure.ENQUEUE, 3, "the best at-least-once peer", best(measure.ENQUEUE))
    yield at_least(
        measure.ENQUEUE, 0.6, "the bare script", lambda m: m.of(measure.ENQUEUE, "bare scripts")
    )
    yield Goal(
        measure.ENQUEUE_BULK,
        "echomq",
        "{:.2f} of the goal, 100,000/s or 5x the best bulk call",
        lambda reached: reached >= 1,
        lambda m: _ratio(m.of(measure.ENQUEUE_BULK), _bulk_goal(m)),
    )
    yield below(measure.BYTES, 300, or_equal=True)
    yield at_least(measure.DRAIN, 5, "the best at-least-once peer", best(measure.DRAIN))
    yield at_least(
        measure.DRAIN, 0.4, "the bare loop", lambda m: m.of(measure.DRAIN, "bare scripts")
    )
    yield at_least(measure.DRAIN, 1.6, "one process", lambda m: m.of(measure.DRAIN), _TWO)
    yield at_least(measure.NETWORK, 0.5, "without the network", lambda m: m.of(measure.DRAIN))
    yield at_least(measure.NETWORK, 5, "the best at-least-once peer", best(measure.NETWORK))
    yield below(measure.latency_row(50, 50), 1)
    yield below(measure.latency_row(50, 99), 5)
    yield below(measure.latency_row(500, 99), 10)
    yield below(measure.IDLE_READS, 3, or_equal=True)
    yield below(measure.IDLE_CPU, 0.5)
    yield at_least(measure.NAPS, 0.9, "the ideal", lambda m: measure.IDEAL_NAPS)
    yield at_least(measure.WAITING, 0.9, "the empty queue", lambda m: m.of(measure.DRAIN))
    yield at_least(measure.SCHEDULED, 0.9, "the empty queue", lambda m: m.of(measure.DRAIN))
    yield below(measure.RESIDENT, 60)


def _bulk_goal(medians: Medians) -> float:
    """The nearer of the two aims; any peer with a bulk call counts, whatever it promises."""
    row = measure.ENQUEUE_BULK
    peers = [value for promise in Promise if (value := medians.best(row, promise)) is not None]
    return min([100_000.0, *(5 * value for value in peers)])


GOALS = tuple(_goals())


def lines(figures: Figures, versions: dict[str, str]) -> list[dict[str, Any]]:
    """The table as data, a dict per line."""
    medians = Medians(figures)
    found = []
    rows = list(dict.fromkeys(row for row, _ in figures))
    for row in sorted(rows, key=_place):
        for variant in VARIANTS:
            values = figures.get((row, variant.name))
            if values:
                median = statistics.median(values)
                found.append(
                    {
                        "measurement": row.title,
                        "unit": row.unit,
                        "system": variant.name,
                        "version": versions[variant.name],
                        "promise": variant.promise.value,
                        "median": median,
                        "min": min(values),
                        "max": max(values),
                        "runs": len(values),
                        "of_best_peer": _ratio(median, medians.best(row, variant.promise)),
                        "goals": _judged(row, variant, medians),
                    }
                )
    return found


def _place(row: Row) -> int:
    order = [measure.ENQUEUE, measure.ENQUEUE_BULK, measure.BYTES, measure.DRAIN, measure.NETWORK]
    order += [
        measure.latency_row(rate, percentile) for rate in measure.RATES for percentile in (50, 99)
    ]
    order += [measure.IDLE_READS, measure.IDLE_CPU, measure.NAPS]
    order += [measure.WAITING, measure.SCHEDULED, measure.RESIDENT]
    return order.index(row)


def _judged(row: Row, variant: Variant, medians: Medians) -> list[dict[str, Any]]:
    found = []
    for goal in GOALS:
        if (goal.row, goal.name) == (row, variant.name):
            reached = goal.reached(medians)
            if reached is not None:
                text = goal.text.format(reached)
                found.append({"met": goal.met(reached), "text": text})
    return found


_HEAD = ("", "guarantee", "version", "runs", "median", "min - max", "of best peer", "goals")


def text(table: Sequence[dict[str, Any]]) -> str:
    """The table for people: a block per measurement."""
    cells: list[tuple[str, ...]] = [_HEAD]
    title = ""
    for line in table:
        heading = f"{line['measurement']}, {line['unit']}"
        if heading != title:
            title = heading
            cells.append((title,))
        ratio = line["of_best_peer"]
        goals = [f"{'met' if goal['met'] else 'MISSED'}: {goal['text']}" for goal in line["goals"]]
        cells.append(
            (
                f"  {line['system']}",
                line["promise"],
                line["version"],
                str(line["runs"]),
                _number(line["median"]),
                f"{_number(line['min'])} - {_number(line['max'])}",
                "" if ratio is None else f"{ratio:.2f}x",
                "; ".join(goals),
            )
        )
    widths = [
        max(len(row[column]) for row in cells if len(row) > 1) for column in range(len(_HEAD))
    ]
    right = (3, 4, 5, 6)
    return "\n".join(
        row[0]
        if len(row) == 1
        else "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
