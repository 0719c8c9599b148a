"""The no-op and the nap as Django tasks."""

from __future__ import annotations

from django_echomq.tasks.compat import task
from peers import effects


@task
def noop(number: int, sent: int) -> None:
    effects.effect(number, sent)


@task
async def nap(number: int, sent: int) -> None:
    await effects.nap(number, sent)
