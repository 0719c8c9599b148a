"""``docs/howto/fair-lanes-and-limits.md``, run from top to bottom."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import redis
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import override_settings

from django_echomq import get_queue
from django_echomq.queue import Lane, Queue
from tests.test_howto import DOCS, blocks

PAGE = DOCS / "howto" / "fair-lanes-and-limits.md"


def test_the_page_works_as_it_stands(site: Callable[[str], Queue], raw: redis.Redis) -> None:
    keys = site("mail").keys
    lanes, setting, night = blocks(PAGE)
    names: dict[str, Any] = {}
    exec(compile(lanes, str(PAGE), "exec"), names)
    assert names["waiting"] == {"acme": 1, "globex": 100}
    assert names["queue"].lanes.all() == [
        Lane("acme", 1, 0, None, 3, False, True),
        Lane("globex", 100, 0, 10, 1, False, True),
    ]
    for lane in names["waiting"]:
        names["queue"].lanes.drain(lane)

    echomq = copy.deepcopy(settings.ECHOMQ)
    exec(compile(setting, str(PAGE), "exec"), {"ECHOMQ": echomq})
    with override_settings(ECHOMQ=echomq):
        assert run_checks(tags=["echomq"]) == []
        call_command("echomq_worker", "mail", burst=True, verbosity=0)
        assert raw.hmget(keys.meta, "concurrency", "max") == [b"20", b"100"]
        exec(compile(night, str(PAGE), "exec"), {"queue": get_queue("mail")})
        call_command("echomq_worker", "mail", burst=True, verbosity=0)
        assert raw.hmget(keys.meta, "concurrency", "max") == [None, b"10"]
