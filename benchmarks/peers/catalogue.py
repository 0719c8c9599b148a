"""Who takes part: what each system promises, how its worker is started, what it is measured at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Promise(Enum):
    """What becomes of a job in hand when its worker is killed."""

    AGAIN = "at least once"  # it runs again
    FAILED = "failed on crash"  # it is marked as failed, or stays as it is
    LOST = "at most once"  # it is gone


#: Measurements of a variant that stands for its system, and of one that shows another setting.
STANDS = frozenset(("enqueue", "drain", "network", "latency"))
DRAIN = frozenset(("drain",))
BULK, COROUTINES = frozenset(("bulk",)), frozenset(("coroutines",))


@dataclass(frozen=True)
class Variant:
    """One system under one setting.

    Attributes:
        system: what ``--peers`` names.
        name: what the table says.
        module: the module of ``peers`` that sends.
        promise: whose equal it is.
        packages: what it needs to take part; the version of the first is printed.
        worker: its worker's command line; ``{bin}`` is the folder of the interpreter.
        jobs: how many it drains in about two seconds.
        rows: the measurements that it takes part in.
        env: environment of its worker and of what sends to it.
        top_rate: jobs a second that it is offered at most.
        install: requirements that cannot be met beside the others, and so have an environment of
            their own.
        stored: its jobs are on the Valkey server.
    """

    system: str
    name: str
    module: str
    promise: Promise
    packages: tuple[str, ...]
    worker: tuple[str, ...]
    jobs: int
    rows: frozenset[str] = STANDS
    env: Mapping[str, str] = field(default_factory=dict)
    top_rate: float = 1000.0
    install: tuple[str, ...] = ()
    stored: bool = True


_DJANGO = ("{bin}/python", "-m", "django")
_ECHOMQ = (*_DJANGO, "echomq_worker", "default", "--threads", "8", "-v", "0")
_CELERY = ("{bin}/celery", "-A", "peers.celery", "worker", "-l", "WARNING")
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
_THREADS = (*_CELERY, "-P", "threads", "-c", "8", *_QUIET)
_PREFORK = (*_CELERY, "-P", "prefork", "-c", "2", *_QUIET)
_RQ = ("{bin}/rq", "worker", "-q", "-u", "{url}", "bench", "-w")
_TASKIQ = ("{bin}/taskiq", "worker", "peers.taskiq:broker", "--workers", "1")
_TASKIQ_SLOTS = (*_TASKIQ, "--log-level", "WARNING", "--max-async-tasks", "{slots}")


def _site(backend: str, **more: str) -> dict[str, str]:
    return {"DJANGO_SETTINGS_MODULE": "peers.django_settings", "BENCH_BACKEND": backend, **more}


#: The first of each system is the one that stands for it.
VARIANTS = (
    Variant(
        "bare",
        "bare scripts",
        "bare",
        Promise.AGAIN,
        ("django-echomq",),
        ("{bin}/python", "-m", "peers.bare"),
        40_000,
        rows=frozenset(("enqueue", "drain", "latency")),
    ),
    Variant(
        "echomq",
        "echomq",
        "echomq",
        Promise.AGAIN,
        ("django-echomq", "Django"),
        (*_ECHOMQ, "--coroutines", "{slots}"),
        30_000,
        rows=STANDS | BULK | COROUTINES | {"growth", "resident"},
        env=_site("echomq"),
    ),
    Variant(
        "echomq",
        "echomq, events off",
        "echomq",
        Promise.AGAIN,
        ("django-echomq", "Django"),
        _ECHOMQ,
        30_000,
        rows=frozenset(("enqueue", "bulk", "drain")),
        env=_site("echomq", BENCH_EVENTS="0"),
    ),
    Variant(
        "echomq",
        "echomq, nothing kept",
        "echomq",
        Promise.AGAIN,
        ("django-echomq", "Django"),
        _ECHOMQ,
        30_000,
        rows=DRAIN,
        env=_site("echomq", BENCH_KEEP="0"),
    ),
    Variant(
        "echomq",
        "echomq, each job logged",
        "echomq",
        Promise.AGAIN,
        ("django-echomq", "Django"),
        (*_ECHOMQ[:-1], "1"),
        30_000,
        rows=DRAIN,
        env=_site("echomq"),
    ),
    Variant(
        "echomq",
        "echomq, 2 processes",
        "echomq",
        Promise.AGAIN,
        ("django-echomq", "Django"),
        (*_ECHOMQ, "--processes", "2"),
        40_000,
        rows=DRAIN,
        env=_site("echomq"),
    ),
    Variant(
        "rq",
        "RQ, SimpleWorker",
        "rq",
        Promise.FAILED,
        ("rq",),
        (*_RQ, "rq.SimpleWorker"),
        600,
        rows=STANDS | BULK,
        top_rate=200.0,
    ),
    Variant(
        "rq",
        "RQ, forking",
        "rq",
        Promise.FAILED,
        ("rq",),
        (*_RQ, "rq.Worker"),
        160,
        rows=DRAIN,
    ),
    Variant(
        "celery",
        "Celery, threads, late ack",
        "celery",
        Promise.AGAIN,
        ("celery",),
        _THREADS,
        2_000,
        env={"BENCH_LATE": "1"},
    ),
    Variant(
        "celery",
        "Celery, prefork, late ack",
        "celery",
        Promise.AGAIN,
        ("celery",),
        _PREFORK,
        2_000,
        rows=DRAIN,
        env={"BENCH_LATE": "1"},
    ),
    Variant(
        "celery",
        "Celery, threads, early ack",
        "celery",
        Promise.LOST,
        ("celery",),
        _THREADS,
        2_000,
        rows=DRAIN,
    ),
    Variant(
        "celery",
        "Celery, prefork, early ack",
        "celery",
        Promise.LOST,
        ("celery",),
        _PREFORK,
        2_000,
        rows=DRAIN,
    ),
    Variant(
        "dramatiq",
        "dramatiq",
        "dramatiq",
        Promise.AGAIN,
        ("dramatiq",),
        ("{bin}/dramatiq", "peers.dramatiq", "-p", "1", "-t", "8"),
        4_000,
    ),
    Variant(
        "huey",
        "huey",
        "huey",
        Promise.LOST,
        ("huey",),
        ("{bin}/huey_consumer", "peers.huey.huey", "-q", "-k", "thread", "-w", "8"),
        4_000,
    ),
    Variant(
        "saq",
        "saq",
        "saq",
        Promise.AGAIN,
        ("saq",),
        ("{bin}/saq", "peers.saq.settings", "--quiet"),
        2_500,
        rows=STANDS | COROUTINES,
        # Its Redis extra holds the client below the version that the others use; it imports
        # typing_extensions without asking for it.
        install=("saq[redis,hiredis]", "typing_extensions"),
    ),
    Variant(
        "arq",
        "arq",
        "arq",
        Promise.AGAIN,
        ("arq",),
        ("{bin}/arq", "peers.arq.WorkerSettings"),
        1_500,
        rows=STANDS | COROUTINES,
        # Holds the client below the version that django-echomq needs.
        install=("arq",),
    ),
    Variant(
        "taskiq",
        "taskiq, stream",
        "taskiq",
        Promise.AGAIN,
        ("taskiq", "taskiq-redis"),
        _TASKIQ_SLOTS,
        5_000,
        rows=STANDS | COROUTINES,
    ),
    Variant(
        "taskiq",
        "taskiq, list",
        "taskiq",
        Promise.LOST,
        ("taskiq", "taskiq-redis"),
        _TASKIQ_SLOTS,
        4_000,
        rows=DRAIN,
        env={"BENCH_LIST": "1"},
    ),
    Variant(
        "django-tasks-db",
        "django-tasks-db (SQLite)",
        "django_tasks",
        Promise.FAILED,
        ("django-tasks-db", "Django"),
        (*_DJANGO, "db_worker", "-v", "0", "--no-startup-delay"),
        900,
        rows=STANDS - {"network"},
        env=_site("db"),
        top_rate=200.0,
        stored=False,
    ),
    Variant(
        "django-tasks-redis",
        "django-tasks-redis",
        "django_tasks",
        Promise.AGAIN,
        ("django-tasks-redis", "Django"),
        (*_DJANGO, "run_redis_tasks", "--continuous", "-v", "0"),
        1_000,
        env=_site("redis"),
        top_rate=200.0,
    ),
)

SYSTEMS = tuple(dict.fromkeys(variant.system for variant in VARIANTS))
#: Ours, and the floor under it; the others are peers.
OURS = frozenset(("bare", "echomq"))
#: Systems whose client has a bulk call.
HAVE_BULK = OURS | {"rq"}
