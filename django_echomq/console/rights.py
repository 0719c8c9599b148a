"""Who may do what. One permission per kind of act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

VIEW = "django_echomq.view_queue"
OPERATE = "django_echomq.operate_queue"
EDIT = "django_echomq.edit_job"
DESTROY = "django_echomq.destroy_queue"


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do, for templates."""

    operate: bool
    edit: bool
    destroy: bool

    @classmethod
    def of(cls, user: Any) -> Rights:
        return cls(user.has_perm(OPERATE), user.has_perm(EDIT), user.has_perm(DESTROY))


def demand(request: HttpRequest, permission: str) -> None:
    """Goes on only where the user may look and has the permission.

    Raises:
        PermissionDenied: answered with 403.
    """
    if not (request.user.has_perm(VIEW) and request.user.has_perm(permission)):
        raise PermissionDenied
