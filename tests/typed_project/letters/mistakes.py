"""Each of these lines is wrong, and the type checker says so."""

from __future__ import annotations

from letters import tasks

tasks.plain.enqueue("1")
tasks.plain.enqueue(1, greeting=2)
tasks.plain.enqueue()
tasks.plain.using(lanes="acme")
tasks.told.enqueue(5)
tasks.moved.delay("1")
tasks.moved.apply_async((1,), link=tasks.moved.s(2))
tasks.moved.si("2")
tasks.job.delay("1")
