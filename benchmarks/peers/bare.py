"""The floor under our own figures: the same scripts, called in a loop with nothing around them.

python -m peers.bare            settles and claims in batches of 8, decodes JSON, has the effect;
                                without work, parks with its claim
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from django_echomq.queue import Claim, Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client, Parked
from django_echomq.wire.endpoint import Endpoint

from .effects import URL, effect

BATCH = 8

queue = Queue("bare", Client(Endpoint.from_url(URL)))
_slot = queue.client.take_slot()
_HEAD = ("now", 0, "", 0, "minted", "", 0, "done", "skip", 3_600_000, 10_000)


def _payload(number: int, sent: int) -> bytes:
    return b'{"task":"peers.site.tasks.noop","args":[%d,%d]}' % (number, sent)


def enqueue(number: int, sent: int) -> None:
    (job_id,) = queue.drive(queue.client.mint(1))
    call = queue.call("jobs/enqueue", *_slot.next(), *_HEAD, job_id, _payload(number, sent))
    (reply,) = queue.client.roundtrip([call.command])
    if isinstance(reply, Exception):  # the text is not known yet
        queue.drive(queue.client.run(call))


def enqueue_many(numbers: Sequence[int], sent: int) -> None:
    queue.jobs.enqueue_many([_payload(number, sent) for number in numbers])


def work() -> None:
    client, jobs = queue.client, queue.jobs
    queue.drive(client.run(jobs.exchange_call(_slot, (), 0, "bare")))
    parked = Parked(client, 1.0)
    ended: list[Settlement] = []
    claims: list[Claim] = []
    while True:
        call = jobs.exchange_call(_slot, ended, BATCH, "bare")
        if claims or ended:
            (reply,) = client.roundtrip([call.command])
        else:
            _, (reply,) = parked.wait([queue.keys.wake], 1.0, [call])
        claims = jobs.exchange_answer(reply).claims
        ended = [jobs.completion(claim) for claim in claims]
        for claim in claims:
            effect(*json.loads(claim.payload)["args"])


if __name__ == "__main__":
    work()
