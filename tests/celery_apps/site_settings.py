"""Settings of a site with the three apps, on Celery or on EchoMQ."""

import os
from pathlib import Path

RUN = Path(__file__).resolve().parent
SOCKET = os.environ["APPS_SOCKET"]
ECHO = os.environ["APPS_ENGINE"] == "echomq"

SECRET_KEY = "not a secret"
USE_TZ = True
INSTALLED_APPS = ["shop", "reports", "feeds", *(["django_echomq"] if ECHO else [])]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": RUN / "db.sqlite3",
        "TEST": {"NAME": RUN / "db.sqlite3"},
    }
}

if ECHO:
    ECHOMQ = {
        "CONNECTIONS": {"default": {"URL": f"unix://{SOCKET}"}},
        "QUEUES": {"default": {}, "mail": {}, "feeds": {}},
    }
    TASKS = {
        "default": {
            "BACKEND": "django_echomq.backend.EchoMQBackend",
            "QUEUES": ["default", "mail", "feeds"],
        }
    }
else:
    CELERY_BROKER_URL = CELERY_RESULT_BACKEND = f"redis+socket://{SOCKET}"
