"""The spine: admit, claim, settle; jobs parked in time; single rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..wire.client import Argument, Call, Slot, Steps
from ..wire.errors import (
    EchoMQError,
    JobGone,
    JobLocked,
    NotDead,
    PayloadTooLarge,
    StaleToken,
    WrongState,
)
from ..wire.ids import check, check_job, is_id
from ..wire.keys import check_lane
from .clock import Duration, When, duration_ms, instant_ms
from .values import (
    Admission,
    Cancellation,
    Claim,
    Job,
    Listed,
    NotReplicated,
    Outcome,
    Page,
    Settled,
    Unique,
    Verdict,
)

if TYPE_CHECKING:
    from .queue import Look, Queue

MIN_PRIORITY, MAX_PRIORITY = -100, 100
#: Most jobs that one script call admits, so that none holds the server for long.
BATCH = 250
#: Most of a stream's: small enough for the server and its client to work side by side.
STREAMED = 125
#: Most jobs that one script call claims.
CLAIMS = 100
_CLAIMS_AT_ONCE = 500
_BATCH_BYTES = 1_048_576
_VERDICTS = 50  # jobs that one call removes, reprocesses or cancels
_REASON_MAX = 4_096
_LISTED_MAX = 4_096
_SETS = {
    "pending": b"pending",
    "active": b"active",
    "scheduled": b"schedule",
    "dead": b"dead",
    "completed": b"outcomes",
}


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one claim ends; made by :meth:`Jobs.completion`, :meth:`Jobs.failure`,
    :meth:`Jobs.delaying`, :meth:`Jobs.cancellation` and :meth:`Jobs.giving_back`."""

    verb: str
    claim: Claim
    args: tuple[Argument, ...] = ()


class Exchange:
    """The answer to settling and claiming in one step. What it holds of jobs is read when it is
    first looked at.

    Attributes:
        claimed: how many jobs were claimed.
        next_due_ms: ms until the next scheduled job is due; ``None`` where none waits.
        token_ms: ms until the queue's rate lets another of its waiting jobs start; ``None`` where
            it holds none back, or none was asked for.
    """

    _PER_CLAIM = 7

    def __init__(self, reply: Any) -> None:
        self._words, self._flat, next_due, token = reply
        self.claimed = len(self._flat) // self._PER_CLAIM
        self.next_due_ms = None if next_due < 0 else int(next_due)
        self.token_ms = None if token < 0 else int(token)

    @cached_property
    def settled(self) -> list[Settled]:
        """One word per settlement, in order."""
        return [Settled(word.decode()) for word in self._words]

    @cached_property
    def claims(self) -> list[Claim]:
        """The jobs claimed."""
        flat = self._flat
        return [
            Claim(
                _id(flat[i]),
                flat[i + 1],
                flat[i + 2],
                flat[i + 4].decode("utf-8", "backslashreplace") or None,
                flat[i + 3],
                flat[i + 5],
                flat[i + 6],
            )
            for i in range(0, len(flat), self._PER_CLAIM)
        ]


class Jobs:
    """The verbs of jobs. Each is one script call."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._client = queue.client

    # Admission

    def enqueue(
        self,
        payload: bytes | str,
        *,
        job_id: str | None = None,
        lane: str | None = None,
        priority: int = 0,
        unique: Unique | None = None,
    ) -> Admission:
        """Admits a job that may be claimed at once.

        Args:
            payload: bytes, or text that is sent as UTF-8; at most ``MAX_PAYLOAD`` bytes.
            job_id: the caller's own ``JOB`` id; minted where ``None``.
            lane: the lane to wait in, instead of the flat set.
            priority: -100 to 100; a higher number is claimed first, mint order within one.
            unique: admit only while no other job holds the key, or in its place; see
                :class:`~django_echomq.queue.values.Unique`.

        Returns:
            ``enqueued``, or ``duplicate`` where a job holds ``job_id`` or the unique key.

        Raises:
            InvalidId, WrongKind, InvalidName, PayloadTooLarge, TypeError, ValueError: nothing was
                sent.
            ServerUnavailable: not known to be admitted.
            NotReplicated: admitted, and not known to survive a failover.
        """
        return self.admit(payload, "now", 0, job_id, lane, priority, unique)

    def enqueue_at(
        self,
        payload: bytes | str,
        when: When,
        *,
        job_id: str | None = None,
        lane: str | None = None,
        priority: int = 0,
        unique: Unique | None = None,
    ) -> Admission:
        """Parks a job until an instant: an aware datetime or Unix ms. The past is due at once."""
        return self.admit(payload, "at", instant_ms(when), job_id, lane, priority, unique)

    def enqueue_in(
        self,
        payload: bytes | str,
        delay: Duration,
        *,
        job_id: str | None = None,
        lane: str | None = None,
        priority: int = 0,
        unique: Unique | None = None,
    ) -> Admission:
        """Parks a job for a while, seconds or a timedelta, measured by the server's clock."""
        ms = duration_ms(delay, "the delay")
        return self.admit(payload, "in", ms, job_id, lane, priority, unique)

    def enqueue_many(
        self,
        payloads: Iterable[bytes | str],
        *,
        lane: str | None = None,
        priority: int = 0,
        progress: Callable[[int, int], object] | None = None,
    ) -> list[Admission]:
        """Admits jobs, some hundreds per round trip; one answer per payload, in order.

        All payloads are checked before the first is sent. Each round trip is one step for the
        server: where it goes away in the middle, each batch is admitted as a whole or not at all.

        Args:
            progress: called with (done, total) after each batch.

        Raises:
            NotReplicated: all are admitted, and some are not known to survive a failover. Batches
                behind the first of these are sent without waiting for replicas.
        """
        payloads = list(payloads)
        admissions: list[Admission] = []
        for batch in self.stream(payloads, lane=lane, priority=priority):
            admissions += batch
            if progress:
                progress(len(admissions), len(payloads))
        return admissions

    def stream(
        self,
        payloads: Sequence[bytes | str],
        *,
        lane: str | None = None,
        priority: int = 0,
        when: str = "now",
        ms: int = 0,
    ) -> Generator[list[Admission]]:
        """:meth:`enqueue_many`, batch by batch, so that what is made of one batch is made while
        the server admits the next, unless each is to be replicated; ``when`` and ``ms`` as of
        :meth:`admission`."""
        bodies = [self.body(payload) for payload in payloads]
        head = self._head(lane, priority, None, when, ms, False)
        client = self._client
        if client.endpoint.replicas:
            yield client.drive(self._admit(bodies, None, head))
            return
        sent: deque[tuple[Slot, list[str], list[bytes]]] = deque()

        def calls() -> Iterator[Call]:
            for batch in _batches(bodies, STREAMED):
                names = client.drive(self._queue.mint(len(batch)))
                slot = client.take_slot()
                sent.append((slot, names, batch))
                yield self._admit_call(slot, names, batch, head)

        try:
            for verdicts in client.stream(calls()):
                slot, names, batch = sent[0]
                steps = self._admitted(slot, names, batch, head, verdicts, waits=False)
                yield client.drive(steps)[0]
                sent.popleft()
                client.give_slot(slot)
        finally:
            for slot, _, _ in sent:
                client.give_slot(slot)

    def admit(
        self,
        payload: bytes | str,
        when: str,
        ms: int,
        job_id: str | None = None,
        lane: str | None = None,
        priority: int = 0,
        unique: Unique | None = None,
        minted_id: str | None = None,
    ) -> Admission:
        """Admits one job; ``when``, ``ms`` and minted ids as of :meth:`admission`."""
        body = self.body(payload)
        head = self._head(lane, priority, unique, when, ms, job_id is not None)
        client = self._client
        if job_id is not None or client.endpoint.replicas:
            given = minted_id if job_id is None else check_job(job_id)
            return client.drive(self._admit([body], given and [given], head))[0]
        name = minted_id or client.drive(self._queue.mint(1))[0]
        slot = client.take_slot()
        try:
            call = self._queue.call("jobs/enqueue", *slot.next(), *head, name, body)
            (verdict,) = client.ask(call)
        finally:
            client.give_slot(slot)
        if verdict == 0:
            return client.drive(self._admit([body], None, head))[0]
        return _admission(name, verdict, head)

    def admission(
        self,
        payloads: Sequence[bytes | str],
        *,
        own_ids: Sequence[str] | None = None,
        minted_ids: Sequence[str] | None = None,
        lane: str | None = None,
        priority: int = 0,
        unique: Unique | None = None,
        when: str = "now",
        ms: int = 0,
    ) -> Steps[list[Admission]]:
        """The steps of an admission, for a thread or an event loop to walk.

        Args:
            own_ids: the caller's ids; one that a row holds is a duplicate.
            minted_ids: ids minted earlier; one that a row holds is minted again.
            when: ``now``, ``at`` (``ms`` is Unix ms) or ``in`` (``ms`` from the server's now).
        """
        bodies = [self.body(payload) for payload in payloads]
        head = self._head(lane, priority, unique, when, ms, own_ids is not None)
        if own_ids is not None:
            for own in own_ids:
                check_job(own)
        given = own_ids if own_ids is not None else minted_ids
        if given is not None and len(given) != len(bodies):
            raise ValueError(f"{len(given)} ids were given for {len(bodies)} payloads")
        return self._admit(bodies, given, head)

    def _head(
        self,
        lane: str | None,
        priority: int,
        unique: Unique | None,
        when: str,
        ms: int,
        own: bool,
    ) -> tuple[Argument, ...]:
        """The arguments of an admission that are the same for all its jobs, checked."""
        if lane is not None:
            check_lane(lane)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"a priority is a whole number, not {priority!r}")
        if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
            raise ValueError(
                f"a priority lies between {MIN_PRIORITY} and {MAX_PRIORITY}, not {priority}"
            )
        if unique is not None:
            unique.check()
        return (
            when,
            ms,
            lane or "",
            priority,
            "own" if own else "minted",
            unique.key if unique else "",
            unique.ttl_ms() if unique else 0,
            unique.until if unique else "done",
            unique.on_conflict if unique else "skip",
            *self._keep(),
        )

    def _admit(
        self, bodies: list[bytes], ids: Sequence[str] | None, head: tuple[Argument, ...]
    ) -> Steps[list[Admission]]:
        admissions: list[Admission] = []
        endpoint = self._client.endpoint
        fewest = endpoint.replicas
        slot = self._client.take_slot()
        try:
            for batch in _batches(bodies, BATCH):
                if ids is None:
                    names = yield from self._queue.mint(len(batch))
                else:
                    names = list(ids[len(admissions) : len(admissions) + len(batch)])
                waits = fewest == endpoint.replicas  # once short, the verdict is known
                call = self._admit_call(slot, names, batch, head)
                verdicts, replicas = yield from self._client.admit(call, waits)
                admitted, fewer = yield from self._admitted(
                    slot, names, batch, head, verdicts, waits
                )
                admissions += admitted
                fewest = min(fewest, replicas, fewer)
        finally:
            self._client.give_slot(slot)
        if fewest < endpoint.replicas:
            raise NotReplicated(admissions, fewest, endpoint.replicas, endpoint.replicas_ms)
        return admissions

    def _admit_call(
        self, slot: Slot, names: list[str], bodies: list[bytes], head: tuple[Argument, ...]
    ) -> Call:
        pairs: Iterator[Argument] = chain.from_iterable(zip(names, bodies, strict=True))
        return self._queue.call("jobs/enqueue", *slot.next(), *head, *pairs)

    def _admitted(
        self,
        slot: Slot,
        names: list[str],
        bodies: list[bytes],
        head: tuple[Argument, ...],
        verdicts: Sequence[Any],
        waits: bool,
    ) -> Steps[tuple[list[Admission], int]]:
        """What became of a batch. Ids that met an existing row are minted again; how many replicas
        have what was admitted under others."""
        admissions = [
            _admission(name, verdict, head) for name, verdict in zip(names, verdicts, strict=True)
        ]
        replicas = self._client.endpoint.replicas
        if collided := [n for n, verdict in enumerate(verdicts) if verdict == 0]:
            fresh = yield from self._queue.mint(len(collided))
            again = [bodies[n] for n in collided]
            call = self._admit_call(slot, fresh, again, head)
            replies, replicas = yield from self._client.admit(call, waits)
            admitted, fewer = yield from self._admitted(slot, fresh, again, head, replies, waits)
            replicas = min(replicas, fewer)
            for n, admission in zip(collided, admitted, strict=True):
                admissions[n] = admission
        return admissions, replicas

    def body(self, payload: bytes | str) -> bytes:
        """The payload as bytes.

        Raises:
            TypeError: it is neither bytes nor text.
            PayloadTooLarge: it is longer than the queue takes.
        """
        if isinstance(payload, str):
            payload = payload.encode()
        elif not isinstance(payload, bytes):
            raise TypeError(f"a payload is bytes or str, not {type(payload).__name__}")
        limit = self._queue.options.max_payload
        if len(payload) > limit:
            raise PayloadTooLarge(
                f"the payload has {len(payload)} bytes, queue {self._queue.name!r} takes {limit}"
            )
        return payload

    # Claim and settle

    def claim(self, limit: int = 1, lease: Duration | None = None) -> list[Claim]:
        """Takes up to ``limit`` waiting jobs in hand, highest priority and oldest first.

        Args:
            limit: 1 to 500.
            lease: how long the claims hold unless extended; the queue's ``LEASE`` unless given.

        Returns:
            The claims; none while the queue is empty, paused or at a limit.
        """
        most = _CLAIMS_AT_ONCE
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
            raise ValueError(f"claim between 1 and {most} jobs at a time, not {limit!r}")
        lease_ms = None if lease is None else self._lease_ms(lease)
        claims: list[Claim] = []
        while len(claims) < limit:
            asked = min(CLAIMS, limit - len(claims))
            try:
                step = self._exchange((), asked, lease_ms).claims
            except EchoMQError:
                if not claims:
                    raise
                break  # what is in hand is the caller's
            claims += step
            if len(step) < asked:
                break
        return claims

    def complete(self, claim: Claim, result: bytes | str | None = None) -> None:
        """Ends a claim with success.

        The row becomes an outcome record for ``KEEP_COMPLETED``, or goes.

        Raises:
            StaleToken: the job is held under another token.
            JobGone: there is no such job.
        """
        self._settle(self.completion(claim, result))

    def retry(
        self,
        claim: Claim,
        delay: Duration = 0,
        max_attempts: int | None = None,
        error: str = "",
    ) -> Settled:
        """Ends a claim with failure: ``scheduled`` after ``delay``, or ``dead``.

        Args:
            delay: seconds or a timedelta until the next try.
            max_attempts: the budget; the try that reaches it is the last. The queue's unless given.
            error: the reason, kept as the row's ``last_error``.

        Raises:
            StaleToken, JobGone: as :meth:`complete`.
        """
        return self._settle(self.failure(claim, delay, max_attempts, error))

    def release(self, claim: Claim) -> None:
        """Gives a job back to where it came from; the attempt does not count.

        Raises:
            StaleToken, JobGone: as :meth:`complete`.
        """
        self._settle(self.giving_back(claim))

    def delay(self, claim: Claim, delay: Duration | None = None, *, at: When | None = None) -> None:
        """Parks a job in hand until a time of its worker's choosing; the attempt does not count.

        Args:
            delay: seconds or a timedelta, by the server's clock.
            at: instead, an aware datetime or Unix ms.

        Raises:
            StaleToken, JobGone: as :meth:`complete`.
        """
        self._settle(self.delaying(claim, delay, at))

    def completion(self, claim: Claim, result: bytes | str | None = None) -> Settlement:
        """The settlement of :meth:`complete`, for :meth:`exchange_call`."""
        return Settlement("complete", claim, (b"" if result is None else result,))

    def failure(
        self,
        claim: Claim,
        delay: Duration = 0,
        max_attempts: int | None = None,
        error: str = "",
        history: bytes = b"",
    ) -> Settlement:
        """The settlement of :meth:`retry`; ``history`` is one line of JSON about the attempt."""
        budget = self._queue.options.max_attempts if max_attempts is None else max_attempts
        if isinstance(budget, bool) or not isinstance(budget, int):
            raise TypeError(f"max_attempts is a whole number, not {budget!r}")
        return Settlement(
            "retry", claim, (duration_ms(delay, "the delay"), budget, _reason(error), history)
        )

    def delaying(
        self, claim: Claim, delay: Duration | None = None, at: When | None = None
    ) -> Settlement:
        """The settlement of :meth:`delay`."""
        if (delay is None) == (at is None):
            raise TypeError("give either a delay or an instant")
        when: tuple[Argument, Argument]
        if at is not None:
            when = ("at", instant_ms(at))
        else:
            assert delay is not None
            when = ("in", duration_ms(delay, "the delay"))
        return Settlement("delay", claim, when)

    def giving_back(self, claim: Claim) -> Settlement:
        """The settlement of :meth:`release`."""
        return Settlement("release", claim)

    def cancellation(self, claim: Claim, reason: str) -> Settlement:
        """The settlement of a handler that was told to stop and did."""
        return Settlement("cancel", claim, (_reason(reason),))

    def exchange_call(
        self,
        slot: Slot,
        settlements: Sequence[Settlement],
        limit: int,
        worker: str,
        lease_ms: int | None = None,
    ) -> Call:
        """One call that settles and claims. The same call may be sent again after a lost reply.

        Args:
            slot: the caller's slot; its calls must follow each other.
            settlements: what to settle.
            limit: how many jobs to claim, 0 to 500.
            worker: the name that claimed rows carry.
        """
        args: list[Argument] = [
            *slot.next(),
            limit,
            self._queue.options.lease_ms if lease_ms is None else lease_ms,
            worker,
            *self._keep(),
            self._queue.options.keep_dead_ms,
        ]
        for settlement in settlements:
            claim = settlement.claim
            args += settlement.verb, claim.job_id, claim.attempts
            args += settlement.args
        return self._queue.call("jobs/settle", *args)

    def exchange_answer(self, reply: Any) -> Exchange:
        """Reads the reply of :meth:`exchange_call`."""
        return Exchange(reply)

    def _keep(self) -> tuple[int, int]:
        options = self._queue.options
        return options.keep_completed_ms, options.keep_completed_max

    def _exchange(
        self, settlements: Sequence[Settlement], limit: int, lease_ms: int | None = None
    ) -> Exchange:
        slot = self._client.take_slot()
        try:
            call = self.exchange_call(slot, settlements, limit, slot.name.decode(), lease_ms)
            return Exchange(self._client.drive(self._client.run(call)))
        finally:
            self._client.give_slot(slot)

    def _settle(self, settlement: Settlement) -> Settled:
        (word,) = self._exchange((settlement,), 0).settled
        _refuse_lost(word.encode(), settlement.claim)
        return word

    def extend_lock(self, claim: Claim, lease: Duration | None = None) -> None:
        """Moves the deadline of a claim to ``lease`` from now.

        Raises:
            StaleToken: the claim is over.
            JobGone: there is no such job.
        """
        (word,) = self._extend([claim], lease)
        _refuse_lost(word, claim)

    def extend_locks(self, claims: Sequence[Claim], lease: Duration | None = None) -> list[str]:
        """Moves the deadlines of claims; answers the ids of those that are over."""
        if not claims:
            return []
        words = self._extend(claims, lease)
        return [c.job_id for c, word in zip(claims, words, strict=True) if word != b"ok"]

    def _extend(self, claims: Sequence[Claim], lease: Duration | None) -> list[bytes]:
        lease_ms = self._queue.options.lease_ms if lease is None else self._lease_ms(lease)
        args: list[Argument] = [lease_ms]
        for claim in claims:
            args += claim.job_id, claim.attempts
        words: list[bytes] = self._queue.run("jobs/extend_locks", *args)
        return words

    def _lease_ms(self, lease: Duration) -> int:
        ms = duration_ms(lease, "the lease")
        if ms < 1:
            raise ValueError("a lease lasts at least a millisecond")
        return ms

    def checkpoint(
        self, claim: Claim, lease: Duration | None = None, details: bytes = b""
    ) -> str | None:
        """Extends a claim from inside its handler.

        Args:
            lease: from now; the queue's unless given.
            details: kept in the row's field ``checkpoint`` for the next attempt; empty keeps what
                is there.

        Returns:
            Why the job is to be cancelled; ``None`` where nobody asked.

        Raises:
            StaleToken, JobGone: the claim is over.
        """
        lease_ms = self._queue.options.lease_ms if lease is None else self._lease_ms(lease)
        word, reason = self._queue.run(
            "jobs/checkpoint", claim.job_id, claim.attempts, lease_ms, details
        )
        _refuse_lost(word, claim)
        return reason.decode("utf-8", "backslashreplace") or None

    # Moved by time

    def promote(self, limit: int = 100) -> int:
        """Moves up to ``limit`` due jobs from the schedule to where they wait; answers how many."""
        return int(self._queue.run("jobs/promote", limit))

    def reschedule(self, job_id: str, when: When) -> None:
        """Moves a job that waits, in the schedule or for a claim, to another time.

        Args:
            when: an aware datetime or Unix ms; the past is due at once.

        Raises:
            JobGone: there is no such job.
            WrongState: it does not wait: it is in hand, dead or a flow's parent.
        """
        ms = instant_ms(when)
        if not self._queue.run("jobs/reschedule", check(job_id), ms):
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")

    def promote_now(self, job_id: str) -> None:
        """Lets a scheduled job be claimed at once.

        Raises:
            JobGone: there is no such job.
            WrongState: it is not scheduled.
        """
        (verdict,) = self.promote_many([job_id])
        if verdict is Verdict.REFUSED:
            raise WrongState(f"job {job_id} is not scheduled")
        self._refuse_gone(job_id, verdict)

    def promote_many(self, job_ids: Iterable[str]) -> list[Verdict]:
        """:meth:`promote_now` of many jobs, fifty per round trip.

        Returns:
            A verdict per id, in order: ``done``, ``gone``, or ``refused`` where
            :meth:`promote_now` raises ``WrongState``.

        Raises:
            InvalidId: nothing was sent.
        """
        return self._each("jobs/promote_now", job_ids)

    def reap(self, limit: int = 100) -> int:
        """Returns up to ``limit`` jobs whose lease lapsed to where they wait; answers how many."""
        return int(self._queue.run("jobs/reap", limit, *self._keep()))

    # One row

    def cancel(self, job_id: str, reason: str = "cancelled") -> Cancellation:
        """Cancels a job: one that waits ends at once, of one in hand its worker is told.

        A worker hears of it on its next beat, within a second, and tells the handler's token. A
        handler that never asks completes, and its result counts.

        Args:
            reason: kept as the job's last error.

        Returns:
            ``cancelled``, or ``asked`` where the job is in hand.

        Raises:
            JobGone: there is no such job.
            WrongState: it is dead, or a flow's parent.
        """
        (verdict,) = self.cancel_many([job_id], reason)
        if verdict is Verdict.REFUSED:
            raise WrongState(f"job {job_id} does not wait and is not in hand")
        self._refuse_gone(job_id, verdict)
        return Cancellation.ASKED if verdict is Verdict.ASKED else Cancellation.CANCELLED

    def cancel_many(self, job_ids: Iterable[str], reason: str = "cancelled") -> list[Verdict]:
        """:meth:`cancel` of many jobs, fifty per round trip.

        Returns:
            A verdict per id, in order: ``done``, ``asked``, ``gone``, or ``refused`` where
            :meth:`cancel` raises ``WrongState``.

        Raises:
            InvalidId: nothing was sent.
        """
        return self._each("jobs/cancel", job_ids, _reason(reason), *self._keep())

    def reprocess(self, job_id: str) -> None:
        """Brings a dead or cancelled job back to where it came from, with a fresh budget.

        Raises:
            JobGone: there is no such job.
            NotDead: it is neither dead nor cancelled.
        """
        (verdict,) = self.reprocess_many([job_id])
        if verdict is Verdict.REFUSED:
            raise NotDead(f"job {job_id} is neither dead nor cancelled")
        self._refuse_gone(job_id, verdict)

    def reprocess_many(self, job_ids: Iterable[str]) -> list[Verdict]:
        """:meth:`reprocess` of many jobs, fifty per round trip.

        Returns:
            A verdict per id, in order: ``done``, ``gone``, or ``refused`` where :meth:`reprocess`
            raises ``NotDead``.

        Raises:
            InvalidId: nothing was sent.
        """
        return self._each("jobs/reprocess", job_ids)

    def _each(self, verb: str, job_ids: Iterable[str], *args: Argument) -> list[Verdict]:
        ids = [check(job_id) for job_id in job_ids]
        verdicts: list[Verdict] = []
        slot = self._client.take_slot()
        try:
            for start in range(0, len(ids), _VERDICTS):
                chunk = ids[start : start + _VERDICTS]
                words = self._queue.run(verb, *slot.next(), *args, *chunk)
                verdicts += [Verdict(word.decode()) for word in words]
        finally:
            self._client.give_slot(slot)
        return verdicts

    def _refuse_gone(self, job_id: str, verdict: Verdict) -> None:
        if verdict is Verdict.GONE:
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")

    def state(self, job_id: str) -> str:
        """Where a job stands.

        Returns:
            ``pending active scheduled dead awaiting_children unknown absent``, or ``completed`` or
            ``cancelled`` while an outcome record lives.
        """
        return _id(self._queue.run("jobs/state", check(job_id)))

    def get(self, job_id: str) -> Job:
        """The row of a job, or the outcome record of one that ended.

        Raises:
            JobGone: there is neither.
        """
        return self._client.drive(self.reading(job_id))

    def reading(self, job_id: str) -> Steps[Job]:
        """The steps of :meth:`get`."""
        state, flat = yield from self._client.run(self._queue.call("jobs/get", check(job_id)))
        return self.row(job_id, state, flat)

    def row(self, job_id: str, state: bytes, flat: list[bytes]) -> Job:
        """Reads the reply of ``jobs/get``."""
        if not flat:
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")
        return Job.from_row(job_id, state.decode("utf-8", "backslashreplace"), flat)

    def browse(
        self,
        state: str = "pending",
        offset: int = 0,
        limit: int = 50,
        newest_first: bool = True,
        lane: str | None = None,
    ) -> list[Job]:
        """A page of jobs of one state.

        Args:
            state: ``pending active scheduled dead completed``.
            offset, limit: the page, by rank.
            newest_first: the order.
            lane: with ``pending``, a lane instead of the flat set.
        """
        where = self._place(state, offset, limit, lane)
        flat = self._queue.run(
            "jobs/browse",
            where,
            offset,
            offset + limit - 1,
            "newest" if newest_first else "oldest",
        )
        return [
            Job.from_row(_id(flat[i]), state, flat[i + 2])
            for i in range(0, len(flat), 3)
            if flat[i + 2]
        ]

    def page(
        self,
        state: str = "pending",
        offset: int = 0,
        limit: int = 50,
        newest_first: bool = True,
        lane: str | None = None,
        behind: tuple[bytes, bytes] | None = None,
    ) -> Page:
        """As :meth:`browse`, without what is long: results, histories, payloads over 4 KiB; other
        texts end there. Rows under a name that is no id, which no verb takes, are left out.

        Args:
            behind: the ranks count from behind this place, the ``end`` of another page; oldest
                first only. Jobs that come and go before it move nothing.
        """
        if behind and newest_first:
            raise ValueError("only pages of the oldest first begin behind a place")
        return self._queue.look(self.page_look(state, offset, limit, newest_first, lane, behind))

    def page_look(
        self,
        state: str,
        offset: int = 0,
        limit: int = 50,
        newest_first: bool = True,
        lane: str | None = None,
        behind: tuple[bytes, bytes] | None = None,
    ) -> Look[Page]:
        """The steps of :meth:`page`."""
        where = self._place(state, offset, limit, lane)
        order = "newest" if newest_first else "oldest"
        last = offset + limit - 1
        score, member = behind or (b"", b"")
        flat = yield self._queue.call(
            "jobs/list", where, offset, last, order, _LISTED_MAX, score, member
        )
        listed = []
        for i in range(0, len(flat), 4):
            job_id = _id(flat[i])
            if not flat[i + 3] or not is_id(job_id):
                continue
            job = Job.from_row(job_id, state, flat[i + 3])
            if state == "completed" and "state" in job.fields:
                # Records of cancelled jobs stand among them.
                job = replace(job, state=job.fields["state"].decode("utf-8", "backslashreplace"))
            stands = float(flat[i + 1])
            due = stands if state == "scheduled" else None
            listed.append(Listed(job, int(flat[i + 2]), due, stands))
        length = len(flat) // 4
        end = (flat[-3], flat[-4]) if flat else behind
        return Page(listed, length, length == limit, end)

    def size(self, state: str, lane: str | None = None) -> int:
        """How many jobs :meth:`page` would go through; of pending ones those in no lane."""
        key = self._queue.keys.base + self._place(state, 0, 1, lane)
        return int(self._client.drive(self._client.command("ZCARD", key)))

    def _place(self, state: str, offset: int, limit: int, lane: str | None) -> bytes:
        if state not in _SETS:
            raise ValueError(f"unknown state {state!r}: use {', '.join(_SETS)}")
        if lane is not None and state != "pending":
            raise ValueError("only pending jobs stand in a lane")
        if offset < 0 or not 1 <= limit <= 1_000:
            raise ValueError("a page starts at rank 0 or later and has 1 to 1,000 jobs")
        if lane is not None:
            return f"g:{check_lane(lane)}:pending".encode()
        return _SETS[state]

    def remove(self, job_id: str) -> None:
        """Removes a job with everything that belongs to it, wherever it stands.

        Raises:
            JobLocked: a worker holds it.
            JobGone: there is nothing of it.
        """
        (verdict,) = self.remove_many([job_id])
        if verdict is Verdict.REFUSED:
            raise JobLocked(f"a worker holds job {job_id}")
        self._refuse_gone(job_id, verdict)

    def remove_many(self, job_ids: Iterable[str]) -> list[Verdict]:
        """:meth:`remove` of many jobs, fifty per round trip.

        Returns:
            A verdict per id, in order: ``done``, ``gone``, or ``refused`` where a worker holds it.

        Raises:
            InvalidId: nothing was sent.
        """
        return self._each("jobs/remove", job_ids)

    def update_data(self, job_id: str, payload: bytes | str) -> None:
        """Replaces the payload of a job; its next attempt gets the new one.

        Args:
            payload: as for :meth:`enqueue`.

        Raises:
            PayloadTooLarge, TypeError: nothing was sent.
            JobGone: there is no such job, or it has ended well.
            WrongState: a worker holds it; its attempt goes on with the payload that it was given.
        """
        if not self._queue.run("jobs/update_data", check(job_id), self.body(payload)):
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")

    def update_progress(self, job_id: str, progress: str) -> None:
        """Notes how far a job is, and publishes it on the queue's events channel.

        Args:
            progress: text, by custom a number or JSON.

        Raises:
            JobGone: there is no such job.
        """
        if not self._queue.run("jobs/update_progress", check(job_id), progress):
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")

    def add_log(self, job_id: str, line: str, keep: int | None = None) -> int:
        """Adds a line to a job's log; answers how many it has.

        Args:
            keep: keep only so many of the newest lines.

        Raises:
            JobGone: there is no such job.
        """
        if keep is not None and keep < 1:
            raise ValueError("keep at least one line")
        count = int(self._queue.run("jobs/add_log", check(job_id), line, keep or 0))
        if count < 0:
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")
        return count

    def logs(self, job_id: str) -> list[str]:
        """The lines of a job's log, oldest first.

        Raises:
            JobGone: there is no such job.
        """
        return self._logs(job_id, 0, 0)[0]

    def tail(self, job_id: str, lines: int) -> tuple[list[str], int]:
        """The newest lines of a job's log, each cut after 4 KiB, and how many there are in all.

        Raises:
            JobGone: there is no such job.
        """
        return self._logs(job_id, lines, _LISTED_MAX)

    def _logs(self, job_id: str, newest: int, longest: int) -> tuple[list[str], int]:
        reply = self._queue.run("jobs/logs", check(job_id), newest, longest)
        if reply == 0:
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")
        count, lines = reply
        return [line.decode("utf-8", "backslashreplace") for line in lines], int(count)


def _refuse_lost(word: bytes, claim: Claim) -> None:
    if word == b"gone":
        raise JobGone(f"job {claim.job_id} is gone")
    if word == b"stale":
        raise StaleToken(f"job {claim.job_id} is no longer held under token {claim.attempts}")


def _reason(text: str) -> bytes:
    return text[:_REASON_MAX].encode("utf-8", "backslashreplace")


def _batches(bodies: list[bytes], most: int) -> Iterator[list[bytes]]:
    """The payloads in pieces, none of which holds the server for long."""
    batch: list[bytes] = []
    size = 0
    for body in bodies:
        if batch and (len(batch) == most or size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(body)
        size += len(body)
    if batch:
        yield batch


def _admission(name: str, verdict: Any, head: tuple[Argument, ...]) -> Admission:
    """What the admission script said of a job; see ``lua/jobs/enqueue.lua``."""
    if isinstance(verdict, int):
        return Admission(name, Outcome.ENQUEUED if head[0] == "now" else Outcome.SCHEDULED)
    return Admission(_id(verdict), Outcome.DUPLICATE)


def _id(reply: bytes) -> str:
    return reply.decode("ascii", "backslashreplace")
