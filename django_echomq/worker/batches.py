"""A consumer of batches: claims when enough jobs wait, hands them to one call of a handler, and
settles each on its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Literal, TypeAlias

from redis.exceptions import ResponseError

from ..queue import Claim, Queue, Settled
from ..queue.backoff import Backoff
from ..queue.clock import Duration, duration_ms
from ..queue.jobs import CLAIMS, Exchange, Settlement
from ..wire.client import LOST, Call
from ..wire.errors import EchoMQError, ServerUnavailable, VersionFence, WritesRefused
from .hand import Hand
from .leases import LeaseKeeper
from .promoter import Promoter

logger = logging.getLogger("django_echomq.worker")

_MOST = 500
_AWAY_PAUSE = 0.1  # seconds between tries while a server is away, on top of the client's own
_REFUSED_PAUSE = 1.0  # seconds until what a script failed at is asked for again
_GRACE = 5.0  # seconds that a stop waits for a server that is away, with a batch to settle
#: After these the same call is sent again: it did not run, or its answer is not known.
_AGAIN = (*LOST, ServerUnavailable, WritesRefused, VersionFence)

#: How a job of a batch ended: well; with an error; or not now, but after a while.
BatchVerdict: TypeAlias = Literal["ok"] | BaseException | timedelta
#: Runs the jobs of a batch and answers a verdict per job id.
BatchHandler: TypeAlias = Callable[[list[Claim]], Mapping[str, BatchVerdict]]


def decide(depth: int, waited: float, min_size: int, timeout: float, max_size: int = _MOST) -> int:
    """How many jobs to claim now; 0 to go on waiting.

    Args:
        depth: how many jobs wait.
        waited: how long there have been some, in the unit of ``timeout``.
        min_size: so many are worth a batch at once.
        timeout: after so long any number is.
        max_size: most jobs of a batch.

    >>> [decide(depth, 50, 10, 200) for depth in (0, 3, 10, 12)], decide(3, 200, 10, 200)
    ([0, 0, 10, 12], 3)
    """
    if depth >= min_size or (depth > 0 and waited >= timeout):
        return min(depth, max_size)
    return 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that has ended.

    Attributes:
        claims: its jobs, in the order in which they were claimed.
        settled: what settling did, by job id. A job that the server could not settle, as a foreign
            key was in the way, is missing: its lease lapses, and the sweep decides.
    """

    claims: list[Claim]
    settled: dict[str, Settled]


class BatchConsumer:
    """Serves a queue in batches.

    A batch is claimed as soon as ``min_size`` jobs wait, or when some have waited for ``timeout``.
    The handler gets its claims and answers a verdict per job id: ``"ok"`` completes the job, an
    exception fails it, a :class:`~datetime.timedelta` parks it for so long without counting the
    attempt. A job without a verdict has failed; where the handler raises, all have. What failed is
    tried again on the queue's curve, within its budget. Leases are extended while the handler runs.

    Use one on one thread; only :meth:`stop` may be called from elsewhere.

    Args:
        queue: the queue, or one of the ``parts`` of a partitioned one.
        handler: runs a batch, on the thread that called :meth:`step` or :meth:`run`.
        min_size, max_size: jobs of a batch, 1 to 500; fewer than ``min_size`` after ``timeout``,
            and where another consumer or a limit of the queue leaves less.
        timeout: seconds or a timedelta that a job waits for others at most.
        poll: seconds between looks at how many wait.
        lease, max_attempts, backoff: in place of the queue's own.
        promoter: promote and recover meanwhile, as any worker does; only in :meth:`run`.
        clock: what time it is, in seconds from anywhere.

    Raises:
        TypeError, ValueError: for sizes and durations that cannot be, and a partitioned queue.
    """

    def __init__(
        self,
        queue: Queue,
        handler: BatchHandler,
        *,
        min_size: int = 1,
        max_size: int = CLAIMS,
        timeout: Duration = 1.0,
        poll: Duration = 0.05,
        lease: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        promoter: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if queue.parts != (queue,):
            raise TypeError(
                f"queue {queue.name!r} is partitioned: make a consumer for each of its parts"
            )
        for size in (min_size, max_size):
            if isinstance(size, bool) or not isinstance(size, int):
                raise TypeError(f"the size of a batch is a whole number, not {size!r}")
        if not 1 <= min_size <= max_size <= _MOST:
            raise ValueError(
                f"a batch has 1 to {_MOST} jobs, and no less at most than at least: not "
                f"min_size={min_size}, max_size={max_size}"
            )
        options = queue.options
        if lease is not None:
            options = replace(options, lease_ms=duration_ms(lease, "the lease"))
        if max_attempts is not None:
            options = replace(options, max_attempts=max_attempts)
        if backoff is not None:
            options = replace(options, backoff=backoff)
        if options.lease_ms < 1:
            raise ValueError("a lease lasts at least a millisecond")
        self._queue = Queue(queue.name, queue.client, options)
        self._handler = handler
        self._min_size, self._max_size = min_size, max_size
        self._timeout = duration_ms(timeout, "the timeout") / 1000
        self._poll = duration_ms(poll, "the poll") / 1000
        self._promoter = promoter
        self._clock = clock
        self._since: float | None = None  # since when there have been jobs that wait
        self._slot = self._queue.client.take_slot()
        self._name = self._slot.name.decode()
        # A call whose answer is not known yet; nothing else is asked before it is answered.
        self._call: Call | None = None
        self._wanted = 0
        self._claims: list[Claim] = []  # not handed over yet
        self._batch = Batch([], {})
        self._ends: list[Settlement] = []  # not settled yet
        self._at_once = CLAIMS
        self._stopping = False
        self._stops: SimpleQueue[None] = SimpleQueue()

    def stop(self) -> None:
        """Claims nothing more: :meth:`run` ends when the batch in the handler's hand is settled.
        May be called from a signal handler, and from other threads."""
        self._stopping = True
        self._stops.put(None)

    def step(self) -> Batch | None:
        """Looks once, and where there is a batch, runs and settles it.

        After an error the next step takes up where this one ended. What the handler was given it is
        not given again.

        Returns:
            The batch; ``None`` where it is to wait, and after :meth:`stop`.

        Raises:
            EchoMQError: the server is away or refuses.
            ResponseError: a key of another type was in the way of the claim.
        """
        if not self._ends:
            if not self._taken():
                return None
            self._hand_over()
        self._settle()
        self._since = None
        return self._batch

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Steps until stopped; goes on when a server that was away is back.

        Args:
            until: asked between steps; ends it as :meth:`stop` does.

        Raises:
            VersionFence: the server belongs to another wire version.
        """
        promoter = Promoter([self._queue])
        if self._promoter:
            threading.Thread(target=promoter.run, name=f"{self._name}-beat", daemon=True).start()
        try:
            self._run(until)
        finally:
            promoter.stop()

    def _run(self, until: Callable[[], bool] | None) -> None:
        away: float | None = None
        give_up_at: float | None = None
        while True:
            if until is not None and not self._stopping and until():
                self.stop()
            if self._stopping:
                if not (self._ends or self._claims or self._call):
                    return
                give_up_at = give_up_at or time.monotonic() + _GRACE
            pause = 0.0
            try:
                if self.step() is None:
                    pause = self._poll
            except VersionFence:
                raise
            except (*LOST, EchoMQError) as error:
                pause = _AWAY_PAUSE
                if away is None:
                    away = time.monotonic()
                    logger.warning("The server is away, will go on when it is back: %s", error)
                if give_up_at and time.monotonic() >= give_up_at:
                    logger.error(
                        "A batch of queue %s could not be settled, its leases will lapse: %s",
                        self._queue.name,
                        error,
                    )
                    return
            except ResponseError as error:
                pause = _REFUSED_PAUSE
                logger.error("Claiming from queue %s failed: %s", self._queue.name, error)
            else:
                if away is not None:
                    logger.warning("The server is back after %.1f s", time.monotonic() - away)
                    away = None
            if pause:
                self._wait(pause)

    def _wait(self, seconds: float) -> None:
        try:
            self._stops.get(timeout=seconds)
        except Empty:
            return

    # Claim

    def _taken(self) -> bool:
        """Claims a batch if it is time; answers whether there is one."""
        resumed = bool(self._claims)
        if not self._claims and self._call is None:
            self._wanted = 0 if self._stopping else self._due()
        while self._call or (self._wanted and not self._stopping):
            asked = min(CLAIMS, self._wanted)
            claims = self._exchange((), asked).claims
            self._claims += claims
            # A short answer is a short batch.
            self._wanted = self._wanted - asked if len(claims) == asked else 0
        if resumed:
            # The leases of those claimed before a call was lost may have lapsed meanwhile.
            over = set(self._queue.jobs.extend_locks(self._claims))
            self._claims = [claim for claim in self._claims if claim.job_id not in over]
        return bool(self._claims)

    def _due(self) -> int:
        depth = self._queue.metrics.counts("pending")["pending"]
        now = self._clock()
        if not depth:
            self._since = None
            return 0
        if self._since is None:
            self._since = now
        return decide(depth, now - self._since, self._min_size, self._timeout, self._max_size)

    def _exchange(self, settlements: Sequence[Settlement], limit: int) -> Exchange:
        """Settles and claims; after a call whose answer was lost, asks that one again."""
        jobs = self._queue.jobs
        if self._call is None:
            self._call = jobs.exchange_call(self._slot, settlements, limit, self._name)
        try:
            reply = self._queue.client.ask(self._call)
        except _AGAIN:
            raise
        except (EchoMQError, ResponseError):
            self._call = None
            raise
        self._call = None
        return jobs.exchange_answer(reply)

    # Run

    def _hand_over(self) -> None:
        """Runs the batch in hand; what is left to do is to settle it."""
        claims, self._claims = self._claims, []
        self._batch = Batch(claims, {})
        if self._stopping:
            self._ends = [self._queue.jobs.giving_back(claim) for claim in claims]
            return
        try:
            verdicts = self._run_handler(claims)
        except BaseException as error:
            logger.exception(
                "A batch of %d job(s) of queue %s failed", len(claims), self._queue.name
            )
            reason = _told(error)
            self._ends = [self._failure(claim, reason) for claim in claims]
            if not isinstance(error, Exception):
                # The process is to end, and may not come back to this.
                with suppress(*_AGAIN):
                    self._settle()
                raise
        else:
            self._ends = [self._ending(claim, verdicts) for claim in claims]

    def _run_handler(self, claims: list[Claim]) -> object:
        leases = LeaseKeeper([self._queue], self._name)
        leases.add(Hand(self._queue, claim) for claim in claims)
        try:
            return self._handler(list(claims))
        finally:
            # From here on they end for a good reason.
            leases.drop(self._queue, claims)
            leases.close()

    def _ending(self, claim: Claim, verdicts: object) -> Settlement:
        """What a handler said of one job. What cannot be understood is a failure."""
        jobs = self._queue.jobs
        try:
            if not isinstance(verdicts, Mapping):
                reason = f"bad verdict: {verdicts!r}"
            elif claim.job_id not in verdicts:
                reason = "missing verdict"
            else:
                match verdicts[claim.job_id]:
                    case "ok":
                        return jobs.completion(claim)
                    case timedelta() as delay:
                        return jobs.delaying(claim, delay)
                    case BaseException() as error:
                        reason = _told(error)
                    case other:
                        reason = f"bad verdict: {other!r}"
        except Exception as fault:  # a delay below zero, a repr that fails
            reason = f"bad verdict: {_told(fault)}"
        settlement = self._failure(claim, reason)
        logger.warning(
            "Job %s of queue %s failed in its batch: %s",
            claim.job_id,
            self._queue.name,
            reason,
            extra=Hand(self._queue, claim).extra(),
        )
        return settlement

    def _failure(self, claim: Claim, reason: str) -> Settlement:
        delay_ms = self._queue.options.backoff.delay_ms(max(1, claim.attempt))
        return self._queue.jobs.failure(claim, delay_ms / 1000, error=reason)

    # Settle

    def _settle(self) -> None:
        while self._ends:
            sent = self._ends[: self._at_once]
            try:
                words = self._exchange(sent, 0).settled
            except _AGAIN:
                raise
            except (EchoMQError, ResponseError) as error:
                if len(sent) > 1:
                    # One of them is in the way; alone, each stands for itself.
                    self._at_once = 1
                    continue
                logger.error("Job %s could not be settled: %s", sent[0].claim.job_id, error)
                words = []
            del self._ends[: len(sent)]
            # (What had ended before one that was in the way is told to be stale or gone.)
            for settlement, word in zip(sent, words, strict=False):
                self._note(settlement, word)
        self._at_once = CLAIMS

    def _note(self, settlement: Settlement, word: Settled) -> None:
        claim = settlement.claim
        self._batch.settled[claim.job_id] = word
        if word is Settled.STALE or word is Settled.GONE:
            logger.warning(
                "Job %s of queue %s was no longer this consumer's: its %s was refused (%s)",
                claim.job_id,
                self._queue.name,
                settlement.verb,
                word.value,
                extra=Hand(self._queue, claim).extra(),
            )


def _told(error: BaseException) -> str:
    """An error in one line."""
    try:
        text = str(error).strip().partition("\n")[0]
    except Exception:
        text = "(its message cannot be shown)"
    return f"{type(error).__name__}: {text}"
