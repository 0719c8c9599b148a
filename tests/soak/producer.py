"""A process that admits jobs of all kinds until it is stopped or killed.

Its journal has a line before each admission, ``try <tag>``, and one behind it: ``ok <tag> <job id>
<outcome>`` or ``error <tag> <what>``. An admission without the second line may be in or not.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django

MOST_WAITING = 300


def main(name: str, seed: int, journal: str) -> None:
    django.setup()
    from django.utils import timezone

    from django_echomq import Unique, get_queue
    from django_echomq.tasks.compat import task_backends
    from django_echomq.wire.client import LOST
    from django_echomq.wire.errors import EchoMQError
    from django_echomq.wire.ids import process_mint
    from tests.soak import tasks
    from tests.testapp.tasks import append

    rng = random.Random(seed)
    queue = get_queue("soak")
    loop = asyncio.new_event_loop()
    stopping = False

    def stop(*_: Any) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)

    def soon() -> Any:
        return timezone.now() + timedelta(seconds=rng.uniform(0, 4))

    def key(how: str) -> Any:
        until = rng.choice(["done", "started"])
        return Unique(f"key-{rng.randrange(6)}", on_conflict=how, until=until)

    def own(tag: str) -> Any:
        job_id = process_mint.mint(rng.randrange(1024))
        return task_backends["default"].enqueue_as(tasks.plain, [tag], {}, job_id)

    def variant(**options: Any) -> Callable[[str], Any]:
        return lambda tag: tasks.plain.using(**options).enqueue(tag)

    kinds: list[tuple[int, Callable[[], Callable[[str], Any]]]] = [
        (20, lambda: tasks.plain.enqueue),
        (8, lambda: lambda tag: tasks.plain.enqueue(tag, rng.uniform(0, 0.1))),
        (8, lambda: lambda tag: loop.run_until_complete(tasks.plain.aenqueue(tag))),
        (5, lambda: own),
        (12, lambda: variant(lane=rng.choice(["heavy", "narrow", "a", "b"]))),
        (6, lambda: variant(priority=rng.randrange(-100, 101))),
        (6, lambda: variant(run_after=soon())),
        (6, lambda: variant(unique=key("skip"), run_after=rng.choice([None, soon()]))),
        (6, lambda: variant(unique=key("replace"), run_after=soon())),
        (2, lambda: lambda tag: tasks.plain.enqueue(tag, 4.0)),
        (5, lambda: tasks.talks.enqueue),
        (1, lambda: tasks.resumes.enqueue),
        (4, lambda: lambda tag: tasks.flaky.enqueue(tag, rng.randrange(1, 4))),
        (3, lambda: tasks.asks_again.enqueue),
        (2, lambda: tasks.gives_up.enqueue),
        (2, lambda: tasks.dies.enqueue),
        (1, lambda: tasks.too_slow.enqueue),
        (4, lambda: tasks.stoppable.enqueue),
        (6, lambda: tasks.coroutine.enqueue),
        (2, lambda: tasks.isolated.enqueue),
    ]
    weights = [weight for weight, _ in kinds]

    def admit(tags: list[str], send: Callable[[], list[Any]]) -> None:
        append(journal, "\n".join(f"try {tag}" for tag in tags))
        try:
            results = send()
        except (EchoMQError, *LOST) as error:
            append(journal, "\n".join(f"error {tag} {type(error).__name__}" for tag in tags))
        else:
            told = zip(tags, results, strict=True)
            append(journal, "\n".join(f"ok {tag} {r.id} {r.outcome}" for tag, r in told))

    n = 0
    while not stopping:
        n += 1
        tag = f"{name}.{n}"
        if n % 40 == 0:
            tags = [f"{tag}.{k}" for k in range(rng.randrange(2, 40))]
            admit(tags, lambda tags=tags: tasks.plain.enqueue_many([((t,), {}) for t in tags]))
        else:
            _, make = rng.choices(kinds, weights)[0]
            enqueue = make()
            admit([tag], lambda enqueue=enqueue, tag=tag: [enqueue(tag)])
        time.sleep(rng.uniform(0, 0.06))
        while n % 10 == 0 and not stopping:
            try:
                if queue.metrics.counts("pending")["pending"] < MOST_WAITING:
                    break
            except (EchoMQError, *LOST):
                pass
            time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), os.environ["SOAK_JOURNAL"])
