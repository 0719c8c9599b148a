"""Settings of the test suite.

Tests start worker processes, which must see the database and the Valkey of the test that
started them. Their places are therefore chosen once, by the first process, and handed down in
the environment:

``ECHOMQ_TEST_DB``
    Path of the SQLite file.
``ECHOMQ_TEST_DATABASE``
    Another database for processes that a test starts, as JSON.
``ECHOMQ_TEST_URL``
    URL of a running server to test against. Without it an embedded Valkey is started.
``ECHOMQ_TEST_SENTINELS``
    A connection with ``SENTINELS``, as JSON, to test against.
``ECHOMQ_TEST_VALKEY``
    Folder of the embedded Valkey.
``ECHOMQ_TEST_SERVER``
    Path of another server program to start in place of the embedded one's, such as a
    ``redis-server``; or ``cluster`` for a cluster of three nodes.
``ECHOMQ_TEST_CLUSTER``
    Addresses of a running cluster to test against, as JSON.
``ECHOMQ_TEST_QUEUES``
    Further ``QUEUES`` as JSON, for processes that a test starts.
``ECHOMQ_TEST_SCHEDULES``
    ``SCHEDULES`` as JSON, for processes that a test starts.

Under pytest-xdist each worker has its own database and server.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from django_echomq.wire import embedded
from tests.ports import free_ports

BASE_DIR = Path(__file__).resolve().parent

_RUN = Path(tempfile.gettempdir()) / f"echomq-test-{os.getpid()}"
_DB = os.environ.setdefault("ECHOMQ_TEST_DB", f"{_RUN}.sqlite3")
_VALKEY = os.environ.setdefault("ECHOMQ_TEST_VALKEY", f"{_RUN}.valkey")
_XDIST_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
_SUFFIX = f"_{_XDIST_WORKER}" if _XDIST_WORKER else ""

server = os.environ.get("ECHOMQ_TEST_SERVER", "")
if server not in ("", "cluster"):
    embedded._find_binary = lambda: server

SECRET_KEY = "not a secret: for tests only"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
ROOT_URLCONF = "tests.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_echomq",
    "tests.testapp",
]

MIDDLEWARE = [
    "tests.testapp.policy.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        # pytest-django appends the xdist suffix to TEST.NAME itself; NAME is what the worker
        # processes open, and must come out as the same file.
        "NAME": f"{_DB}{_SUFFIX}",
        "TEST": {"NAME": _DB},
        "OPTIONS": {
            "timeout": 20,
            # Several processes write: take the write lock at BEGIN, where waiting for it works.
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        },
    },
}

if database := os.environ.get("ECHOMQ_TEST_DATABASE"):
    DATABASES = {"default": json.loads(database)}

_CONNECTION: dict[str, Any]
if os.environ.get("ECHOMQ_TEST_URL"):
    _CONNECTION = {"URL": os.environ["ECHOMQ_TEST_URL"]}
elif os.environ.get("ECHOMQ_TEST_SENTINELS"):
    _CONNECTION = json.loads(os.environ["ECHOMQ_TEST_SENTINELS"])
elif os.environ.get("ECHOMQ_TEST_CLUSTER"):
    _CONNECTION = {"CLUSTER": json.loads(os.environ["ECHOMQ_TEST_CLUSTER"])}
elif server == "cluster":
    # Started by the first test that needs it, so that each worker of pytest-xdist has its own.
    _chosen = [f"127.0.0.1:{port}" for port in free_ports(3)]
    _own = os.environ.setdefault(f"ECHOMQ_TEST_NODES{_SUFFIX}", json.dumps(_chosen))
    _CONNECTION = {"CLUSTER": json.loads(_own)}
else:
    _CONNECTION = {"EMBEDDED": Path(f"{_VALKEY}{_SUFFIX}")}

ECHOMQ: dict[str, Any] = {
    "CONNECTIONS": {"default": _CONNECTION},
    "QUEUES": {
        "default": {},
        "mail": {},
        # Short enough for tests to see leases lapse and retries come round.
        "fast": {"LEASE": 2, "BACKOFF": {"TYPE": "fixed", "MS": 50}},
        **json.loads(os.environ.get("ECHOMQ_TEST_QUEUES", "{}")),
    },
    "SCHEDULES": json.loads(os.environ.get("ECHOMQ_TEST_SCHEDULES", "{}")),
}

TASKS = {
    "default": {
        "BACKEND": "django_echomq.backend.EchoMQBackend",
        "QUEUES": [],  # empty: every queue of ECHOMQ
    },
}
