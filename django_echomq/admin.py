"""Registers the console with the admin site."""

from __future__ import annotations

from django.contrib import admin

from .console.site import QueueAdmin
from .models import Queue

admin.site.register(Queue, QueueAdmin)
