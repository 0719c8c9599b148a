"""What the verbs of the command line share: parsing, asking, printing."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TextIO

from django.core.management.base import CommandError
from django.utils.timezone import localtime

from ...queue import Queue
from ..commands._serving import chosen_queues

Row = Mapping[str, Any]
Progress = Callable[[int, int], object]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """An argparse type: ``90``, ``90s``, ``15m``, ``12h``, ``7d`` or ``2w``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 15m, 12h or 7d")
    return timedelta(**{_UNITS[found[2] or "s"]: float(found[1])})


class Cli:
    """Registers verbs, and prints for them.

    Args:
        verbs: where subcommands are added.

    Attributes:
        json: print JSON.
        yes: do not ask.
    """

    def __init__(self, verbs: Any) -> None:
        self._verbs = verbs
        self._stdout: Any = None
        self._stderr: Any = None
        self.json = False
        self.yes = False

    def start(self, stdout: Any, stderr: Any, *, json: bool, yes: bool) -> None:
        """Takes over what was parsed; ``stdout`` is where tables and JSON go, ``stderr`` where
        warnings go."""
        self._stdout, self._stderr, self.json, self.yes = stdout, stderr, json, yes

    def verb(
        self,
        name: str,
        run: Callable[..., None],
        what: str,
        *,
        asks: bool = False,
        aliases: Sequence[str] = (),
    ) -> argparse.ArgumentParser:
        """Adds a verb.

        Args:
            run: called with the parsed arguments as keywords.
            asks: it destroys, so it asks first unless ``--yes`` is given.
        """
        added: argparse.ArgumentParser = self._verbs.add_parser(
            name, help=what, description=what, aliases=aliases
        )
        added.set_defaults(run=run)
        added.add_argument("--json", action="store_true", help="print JSON")
        if asks:
            added.add_argument("-y", "--yes", action="store_true", help="do not ask")
        return added

    def queues(self, names: Sequence[str]) -> list[Queue]:
        """The named queues, or all."""
        return chosen_queues(names)

    def queue_of(self, job_id: str, name: str | None) -> Queue:
        """The queue that holds a job: the named one, or the first that knows it."""
        queues = chosen_queues([name] if name else [])
        for queue in queues:
            if queue.jobs.state(job_id) != "absent":
                return queue
        where = ", ".join(queue.name for queue in queues)
        raise CommandError(f"There is no job {job_id} in {where}.")

    # Asking

    def confirm(self, question: str) -> None:
        """Goes on only where the user agrees.

        Raises:
            CommandError: the user does not, or there is nobody to ask.
        """
        self._ask(f"{question} [y/N] ", lambda answer: answer.strip().lower() in ("y", "yes"))

    def confirm_name(self, question: str, name: str) -> None:
        """Goes on only where the user types the name."""
        self._ask(f"{question} Type {name} to go on: ", lambda answer: answer.strip() == name)

    def _ask(self, question: str, agrees: Callable[[str], bool]) -> None:
        if self.yes:
            return
        if not sys.stdin or not sys.stdin.isatty():
            raise CommandError("This destroys jobs and there is nobody to ask: pass --yes.")
        try:
            answer = input(question)
        except (EOFError, KeyboardInterrupt):
            answer = ""
        if not agrees(answer):
            raise CommandError("Nothing was changed.")

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """A progress bar on a terminal; nothing elsewhere."""
        if self.json or not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            shown = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(shown, completed=done, total=total)

    # Printing

    def line(self, text: str) -> None:
        self._stdout.write(text)

    def warn(self, text: str) -> None:
        self._stderr.write(text)

    def value(self, value: Any) -> None:
        """Prints one value as JSON."""
        self._stdout.write(json.dumps(value, indent=2, default=_plain))

    def rows(self, rows: Sequence[Row], nothing: str = "nothing") -> None:
        """Prints rows as JSON, as a table on a terminal, else in aligned columns."""
        if self.json:
            self.value(list(rows))
        elif not rows:
            self.line(nothing)
        elif self._stdout.isatty():
            from rich.console import Console

            Console(file=self.file).print(table(rows))
        else:
            names = list(rows[0])
            lines = [names, *([shown(row[name]) for name in names] for row in rows)]
            widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
            for cells in lines:
                padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
                self.line("  ".join(padded).rstrip())

    @property
    def file(self) -> TextIO:
        """The stream under Django's wrapper."""
        stream: TextIO = getattr(self._stdout, "_out", self._stdout)
        return stream

    def verdicts(self, verdicts: Mapping[str, str], *, refused: int) -> None:
        """Prints what became of each job.

        Raises:
            CommandError: some were refused.
        """
        self.rows([{"job": job_id, "outcome": word} for job_id, word in verdicts.items()])
        if refused:
            raise CommandError(f"{refused} of {len(verdicts)} refused.")


def table(rows: Sequence[Row]) -> Any:
    """The rows as a table of ``rich``; cells are text, never markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, value in rows[0].items():
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        grid.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(shown(value)) for value in row.values()))
    return grid


def shown(value: Any) -> str:
    """One cell: one line of printable text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    if isinstance(value, datetime):
        return localtime(value).isoformat(" ", "seconds")
    text = str(value.value if isinstance(value, Enum) else value)
    # What a payload or an error carries must not move the cursor.
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
