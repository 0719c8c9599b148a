"""What the admin site hangs the console and its permissions on. No table stands behind it."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """A queue, for the admin site. Its rows are read from Valkey."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = (
            ("view_queue", _("Can view queues and jobs")),
            ("operate_queue", _("Can pause, resume, retry, promote and cancel")),
            ("edit_job", _("Can edit, move and remove single jobs")),
            ("destroy_queue", _("Can drain, clean and obliterate queues")),
        )
        verbose_name = _("queue")
        verbose_name_plural = _("queues")

    def __str__(self) -> str:
        return str(self.pk)
