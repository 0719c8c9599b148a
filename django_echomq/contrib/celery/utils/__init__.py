"""Celery's name for the place of its logger."""
