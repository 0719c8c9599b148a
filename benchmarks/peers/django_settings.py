"""Settings of the site whose tasks the Django systems run; ``BENCH_BACKEND`` says which."""

from __future__ import annotations

import os

from .effects import URL

SECRET_KEY = "not a secret: for benchmarks only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_BACKENDS = {
    "echomq": ("django_echomq", "django_echomq.backend.EchoMQBackend", {}),
    "db": ("django_tasks_db", "django_tasks_db.DatabaseBackend", {}),
    "redis": (
        "django_tasks_redis",
        "django_tasks_redis.RedisTaskBackend",
        {"REDIS_URL": URL},
    ),
}
_app, _backend, _options = _BACKENDS[os.environ.get("BENCH_BACKEND", "echomq")]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    _app,
    "peers.site",
]

TASKS = {"default": {"BACKEND": _backend, "QUEUES": [], "OPTIONS": _options}}

ECHOMQ = {
    "CONNECTIONS": {"default": {"URL": URL}},
    "QUEUES": {
        "default": {
            "EVENTS": os.environ.get("BENCH_EVENTS") != "0",
            "KEEP_COMPLETED": int(os.environ.get("BENCH_KEEP", "3600")),
        }
    },
}

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("BENCH_DB", ":memory:"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
