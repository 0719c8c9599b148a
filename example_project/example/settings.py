"""Settings of the example site. For your own machine: a real site needs DEBUG off and a secret key.

Two environment variables change them:

``ECHOMQ_URL``
    A Valkey server to use, such as ``redis://127.0.0.1:6379/0``, instead of one of our own.
``EXAMPLE_DATA_DIR``
    An existing folder for the database, the data of Valkey and the log; by default this one.
"""

import os
from pathlib import Path

from django_echomq import Exponential

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("EXAMPLE_DATA_DIR", BASE_DIR))

SECRET_KEY = "not a secret: for the example only"
DEBUG = True
ALLOWED_HOSTS = []  # with DEBUG on, this machine alone

# EchoMQ

# "EMBEDDED" starts a real Valkey with its data in that folder, shared by the site and its workers.
if url := os.environ.get("ECHOMQ_URL"):
    CONNECTION = {"URL": url}
else:
    CONNECTION = {"EMBEDDED": DATA_DIR / ".valkey"}

ECHOMQ = {
    "CONNECTIONS": {"default": CONNECTION},
    "QUEUES": {
        "default": {},
        "reports": {
            "MAX_ATTEMPTS": 3,
            "BACKOFF": Exponential(base_ms=300, cap_ms=5_000),  # 0.3 s, 0.6 s, 1.2 s ... 5 s
        },
    },
}

TASKS = {
    "default": {
        "BACKEND": "django_echomq.backend.EchoMQBackend",
        "QUEUES": ["default", "reports"],
    },
}

# Django

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_echomq",
    "stdlib",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "example.urls"
WSGI_APPLICATION = "example.wsgi.application"

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

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "db.sqlite3",
        # The threads of the worker and the site write at the same time.
        "OPTIONS": {
            "timeout": 20,
            # A transaction takes the write lock at its start, where SQLite waits for it; one that
            # first reads and then writes would fail at once.
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": "line"},
    },
    "loggers": {
        "django_echomq": {"handlers": ["console"], "level": "INFO"},
        # Django logs two lines a task at INFO. Its backport for 5.2 has a logger of another name.
        "django.tasks": {"level": "WARNING"},
        "django_tasks": {"level": "WARNING"},
        # The page asks for news once a second.
        "django.server": {"handlers": ["console"], "level": "WARNING", "propagate": False},
    },
}
