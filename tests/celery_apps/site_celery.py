"""Celery's app; a site on EchoMQ has none."""

from celery import Celery

app = Celery("site")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
