"""EchoMQ's scenarios against a server of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from ... import conf
from ...conformance import NAMES, NOT_SERVED, Result, Verdict, run
from ...queues import get_client
from .cli import Cli

_WORDS = {Verdict.PASSED: "PASS", Verdict.FAILED: "FAIL", Verdict.NOT_SERVED: "----"}


class Conformance:
    """``conformance``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        conformance = cli.verb(
            "conformance",
            self.conformance,
            "Plays EchoMQ's conformance scenarios against a server, each on a throwaway queue; "
            "nothing else there is touched. Ends with 1 where one fails.",
        )
        conformance.add_argument(
            "names", nargs="*", metavar="NAME", help=f"which, such as {NAMES[0]}; all unless given"
        )
        conformance.add_argument(
            "--connection",
            default="default",
            metavar="ALIAS",
            help='of ECHOMQ["CONNECTIONS"] (default)',
        )

    def conformance(self, *, names: Sequence[str], connection: str, **options: Any) -> None:
        try:
            results = run(get_client(connection), names, None if self._cli.json else self._line)
        except ValueError as error:
            raise CommandError(f"{error}.") from error
        count = {word: sum(each.verdict is word for each in results) for word in Verdict}
        if self._cli.json:
            label = conf.endpoint(connection).label
            figures = {word.replace(" ", "_"): n for word, n in count.items()}
            scenarios = [asdict(each) for each in results]
            self._cli.value({"server": label, **figures, "scenarios": scenarios})
        else:
            told = (f"{n} {word}" for word, n in count.items())
            self._cli.line(f"{len(results)} scenarios: {', '.join(told)}")
        if failed := [each.name for each in results if each.verdict is Verdict.FAILED]:
            raise CommandError(f"{len(failed)} failed: {', '.join(failed)}.")

    def _line(self, result: Result) -> None:
        why = ""
        if result.verdict is Verdict.NOT_SERVED:
            served = "not yet served" if result.name in NOT_SERVED else "not served"
            why = f": {served} ({result.why})"
        elif result.why:
            why = f": {result.why}"
        self._cli.line(f"{_WORDS[result.verdict]} {result.name}{why}")
        self._cli.file.flush()
