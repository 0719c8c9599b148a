"""The loop that owns a worker's rhythm.

One thread asks the server; handlers run elsewhere. In one round trip the loop settles what has
finished and claims as many jobs as slots are free. Without work it parks, and its beat promotes
and recovers. Everything that happens to it arrives in one inbox.
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from ..queue import Claim, Queue, Settled
from ..queue.cancel import Cause
from ..queue.jobs import CLAIMS, Exchange, Settlement
from ..queue.stalled import Lapsed
from ..wire import __version__
from ..wire.client import LOST, Call, Client, Reply, refusal_of
from ..wire.errors import EchoMQError, VersionFence, WritesRefused
from .hand import Hand, Handler
from .inbox import Inbox
from .leases import LeaseKeeper
from .parking import Parking
from .promoter import AFTER_FIRING_MS, AWAY_PATIENCE, RUNS_BATCH, tick_answer, tick_call
from .threads import ThreadPool

logger = logging.getLogger("django_echomq.worker")
_HOST = socket.gethostname()

BEAT = 1.0  # seconds: the longest park, and the promoter's rhythm
_TICK_BATCH = 100
_TOKEN_RETRY = 0.005  # seconds that the first claim which finds a rate's token taken lets pass
_AWAY_PAUSE = 0.1  # seconds between tries while a server is away, on top of the client's own
_SETTLE_BATCH = 100
_LAST_ORDERS = 2.0  # seconds that told handlers get, after the grace time
# Short jobs are claimed ahead: as many as should start within this many seconds, at most so many
# per thread, or of brief ones so many in all. One that has not started after the last figure is
# given back for others to take.
_AHEAD = 0.02
_AHEAD_PER_THREAD = 4
_AHEAD_OF_BRIEF = 192
_AHEAD_AT_MOST = 0.1
# Jobs that take less than this (seconds) are one thread's as long as its line moves within that.
_BRIEF = 0.0002
_MOVES = 0.002
_LONG = 1.0  # the run time (seconds) assumed before jobs have proved short
# Claims are parked with the wait for work where that is for at most so many queues.
_PARKED = 4
# What has finished waits so long (seconds) for company while jobs claimed ahead keep the threads
# busy; else for that share of a job's usual run time, at most as long.
_LINGER = 0.005
_LINGER_SHARE = 0.02


class Stopped(Enum):
    """How a worker ended."""

    FINISHED = "finished"
    GAVE_BACK = "gave back"


class _End(NamedTuple):
    """How a job in hand ends."""

    hand: Hand
    settlement: Settlement


class _Left(NamedTuple):
    """A thread is free again."""

    seconds: float
    end: _End | None  # None where the job goes on elsewhere


class _Late(NamedTuple):
    """A job that went on elsewhere has ended."""

    end: _End


class _Woken(NamedTuple):
    """A wait for work has ended."""

    parking: Parking
    queue: Queue | None  # that has work
    replies: Mapping[Queue, Reply]


class _Answer(NamedTuple):
    """What an exchange has brought: counted, and still to be taken in."""

    served: _Served
    exchange: Exchange
    sent: list[_End]


class _Served:
    """One queue as the loop sees it."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.slot = queue.client.take_slot()
        self.finished: list[_End] = []
        # A call whose answer is not known yet; nothing else is asked before it is answered.
        self.call: Call | None = None
        self.sent: list[_End] = []
        self.asked = 0
        # A claim that waits at the server for something to claim; it has a slot of its own.
        self.parked: Call | None = None
        self.parked_limit = 0
        self.parked_lost = False
        self.parked_slot = queue.client.take_slot()
        # Whether the queue may have more than was claimed.
        self.more = True
        # Jobs wait for the queue's rate: when to come for the next, and how long others may be
        # left to take what they wait for (seconds).
        self.token_at = 0.0
        self.patience = 0.0
        self.tick_at = 0.0
        self.rest_until = 0.0
        self.retries_until = 0.0
        self.told = ""

    def next_at(self) -> float:
        """When the server is to be asked next."""
        if self.call or self.finished:
            return self.rest_until
        return max(self.tick_at, self.rest_until)

    def rate_told(self, token_ms: int | None, claimed: int) -> None:
        """Notes what a claim learned of the queue's rate."""
        if token_ms is None:
            self.token_at = self.patience = 0.0
            return
        self.more = True
        # One that comes and finds nothing lets ever more time pass, so that of many workers few
        # ask, and the beat sees to it that they are not too few.
        self.patience = 0.0 if claimed else min(BEAT, max(_TOKEN_RETRY, 2 * self.patience))
        self.token_at = time.monotonic() + max(token_ms / 1000, self.patience)

    def ask(self, limit: int, worker: str) -> Call:
        self.sent, self.finished = self.finished[:_SETTLE_BATCH], self.finished[_SETTLE_BATCH:]
        self.asked = limit
        self.call = self.settling(self.sent, limit, worker)
        return self.call

    def park(self, limit: int, worker: str) -> Call:
        self.parked_limit = limit
        self.parked = self.queue.jobs.exchange_call(self.parked_slot, (), limit, worker)
        return self.parked

    def unpark(self, parked: Call) -> Call:
        """Asks what the parked claim took. Where it has not run it will not take anything: the
        server answers it as it answers this one, which has its number and claims nothing."""
        slot, number, _, *rest = parked.args
        self.parked, self.parked_lost = None, False
        self.call = Call(parked.script, parked.base, (slot, number, 0, *rest))
        return self.call

    def settling(self, ends: Sequence[_End], limit: int, worker: str) -> Call:
        settlements = [end.settlement for end in ends]
        return self.queue.jobs.exchange_call(self.slot, settlements, limit, worker)


class Worker:
    """Serves queues until told to stop.

    Args:
        queues: the queues, in any number and on any servers.
        handler: runs a job; called on one of the worker's threads. Where it answers ``None`` the
            job goes on elsewhere, and its thread is free for another.
        threads: handlers that hold a thread at once.
        name: unique among live workers; rows in hand carry it.
        grace: seconds that jobs in hand get to finish after :meth:`stop`.
        burst: end when nothing is left to claim and no retry of this worker's is outstanding;
            jobs scheduled for later are left.
        max_jobs: end after so many jobs were claimed.
        promoter: promote and recover on the beat.
        prepare: called once, when the server is first there.
        beat: called about once a second while the server answers.
        stalled: told of jobs whose lease had lapsed; must not block.
    """

    def __init__(
        self,
        queues: Sequence[Queue],
        handler: Handler,
        *,
        name: str,
        threads: int = 8,
        grace: float = 25.0,
        burst: bool = False,
        max_jobs: int | None = None,
        promoter: bool = True,
        prepare: Callable[[], object] | None = None,
        beat: Callable[[], object] | None = None,
        stalled: Callable[[Queue, list[Lapsed]], object] | None = None,
    ) -> None:
        self.name = name
        self._beat = beat
        self._stalled = stalled
        self._quiet = False
        self._started_ms = time.time_ns() // 1_000_000
        self._prepare = prepare
        self._prepare_at = 0.0
        self.claimed = 0
        self._handler = handler
        self._threads = threads
        self._grace = grace
        self._burst = burst
        self._left = math.inf if max_jobs is None else max_jobs
        self._promoter = promoter
        self._inbox: Inbox[_Left | _Late | _Woken | None] = Inbox()
        self._signals = 0
        self._told_to_stop = False
        self._told = False
        self._in_hand = 0
        self._elsewhere = 0  # of those in hand, those that hold no thread
        self._run_time = _LONG
        self._line_since = 0.0
        self._line = 0, 0.0  # how many wait, and since when it is so many
        self._finished_since = 0.0
        self._answers: list[_Answer] = []
        self._away: dict[Client, float] = {}  # since when
        self._served = {part: _Served(part) for queue in queues for part in queue.parts}
        self._turn = 0
        self._by_client: dict[Client, list[_Served]] = {}
        for served in self._served.values():
            self._by_client.setdefault(served.queue.client, []).append(served)

    def stop(self) -> None:
        """Claims nothing more and ends when the jobs in hand are done; a second call ends at once
        and gives them back. May be called from a signal handler."""
        self._signals += 1
        self._inbox.put(None)

    @property
    def told_to_stop(self) -> bool:
        """Whether somebody told this worker, by its name, to stop."""
        return self._told_to_stop

    @property
    def _stops(self) -> int:
        """0 while serving; 1 once it is to end; 2 once it is to end at once."""
        return self._signals or int(self._told_to_stop)

    def quiet(self) -> None:
        """Claims nothing more, but stays. May be called from a signal handler."""
        self._quiet = True
        self._inbox.put(None)

    def resume(self) -> None:
        """Claims again after :meth:`quiet`. May be called from a signal handler."""
        self._quiet = False

    def run(self) -> Stopped:
        """Serves until stopped.

        Raises:
            VersionFence: the server belongs to another wire version.
        """
        self._pool: ThreadPool[Hand] = ThreadPool(self._threads, self._run_job, self.name)
        self._leases = LeaseKeeper(self._served, self.name)
        self._parkings = [
            Parking(
                client,
                [served.queue for served in group],
                BEAT,
                lambda *woken: self._inbox.put(_Woken(*woken)),
                self.name,
            )
            for client, group in self._by_client.items()
        ]
        try:
            end = self._loop()
            self._leave()
            return end
        finally:
            for parking in self._parkings:
                parking.close()
            self._leases.close()
            self._pool.close()

    # Handlers

    def _run_job(self, hand: Hand) -> None:
        started = time.perf_counter()
        claim, options = hand.claim, hand.queue.options
        try:
            settlement = self._handler(hand)
        except BaseException as error:
            # The handler answers for what jobs raise; this is a fault of its own.
            logger.exception("Running job %s failed", claim.job_id, extra=hand.extra())
            delay_ms = options.backoff.delay_ms(max(1, claim.attempt))
            settlement = hand.queue.jobs.failure(claim, delay_ms / 1000, error=repr(error))
        end = None if settlement is None else _End(hand, settlement)
        # The last one of a line is waited for.
        self._inbox.put(_Left(time.perf_counter() - started, end), not self._pool.waiting)

    def _ended_elsewhere(self, hand: Hand, settlement: Settlement) -> None:
        self._inbox.put(_Late(_End(hand, settlement)), urgent=False)

    # The loop

    def _loop(self) -> Stopped:
        give_up_at = math.inf
        while True:
            now = time.monotonic()
            if self._answers and not self._asking_again():
                self._take_in()
            if self._stops and give_up_at == math.inf:
                give_up_at = now + self._grace
                logger.info("Stopping: %d job(s) in hand", self._in_hand)
            if self._stops == 1 and now >= give_up_at and not self._told:
                # Last orders: handlers that ask may still end by themselves.
                self._told = True
                give_up_at = now + _LAST_ORDERS
                for queue in self._served:
                    for hand in self._leases.hands(queue):
                        hand.token.cancel("shutdown", Cause.SHUTDOWN)
            if self._stops > 1 or now >= give_up_at:
                return self._give_back()
            if self._prepare and now >= self._prepare_at:
                self._prepare_at = now + BEAT
                self._get_ready(self._prepare)
            if self._pool.waiting and (self._stops or now - self._line_since > _AHEAD_AT_MOST):
                self._give_back_line()
            if self._pool.waiting:
                self._watch_line(now)
            if self._lingering(now):
                self._collect(self._linger(), self._enough())
                continue
            calls = self._plan(now)
            if calls:
                self._exchange(calls)
                self._collect(0.0)
                continue
            if self._answers:
                self._take_in()
                continue
            if self._finished(now):
                return Stopped.FINISHED
            self._collect(self._wait(now, give_up_at))

    def _finished(self, now: float) -> bool:
        if self._in_hand or any(s.finished or s.sent for s in self._served.values()):
            return False
        # With nothing to settle, a stop does not wait for a server that is away.
        if any(
            s.call and not (self._stops and s.queue.client in self._away)
            for s in self._served.values()
        ):
            return False
        if self._stops or self._left <= 0:
            return True
        return self._burst and all(
            not s.more and s.tick_at > 0 and now > s.retries_until for s in self._served.values()
        )

    def _wait(self, now: float, give_up_at: float) -> float:
        """Parks where slots are free, and answers how long the inbox may stay empty."""
        resting = {s.queue: s.token_at for s in self._served.values() if s.token_at > now}
        until = min(
            now + BEAT,
            give_up_at,
            *(s.next_at() for s in self._served.values()),
            *resting.values(),
        )
        if self._pool.waiting:
            until = min(until, self._line_since + _AHEAD_AT_MOST)
            if self._pool.brief:
                until = min(until, now + _MOVES)
        free = self._threads - (self._in_hand - self._elsewhere)
        if not self._stops and free > 0:
            for client, parking in zip(self._by_client, self._parkings, strict=True):
                waiting = [queue for queue in parking.queues if queue not in resting]
                if waiting and not parking.asked and client not in self._away:
                    parking.ask(max(0.001, until - now), waiting, self._claims(waiting, free))
        return max(0.0, until - now)

    def _claims(self, queues: Sequence[Queue], free: int) -> dict[Queue, Call]:
        """The claims to park with. None where there are reasons not to take what comes."""
        among = len(self._served)
        if self._quiet or self._burst or among > _PARKED or self._left < 2 * self._slots():
            return {}
        each = max(1, free // among)
        return {queue: self._served[queue].park(each, self.name) for queue in queues}

    def _collect(self, seconds: float, enough: int = 1) -> None:
        """Takes in what has happened; waits at most so long until so many jobs have ended, or
        something else happens."""
        for event in self._inbox.take(seconds, enough):
            if isinstance(event, _Left):
                self._run_time += (event.seconds - self._run_time) / 16
                if event.end:
                    self._note_end(event.end)
                else:
                    self._elsewhere += 1
            elif isinstance(event, _Late):
                self._elsewhere -= 1
                self._note_end(event.end)
            elif isinstance(event, _Woken):
                self._wake(event)

    def _wake(self, event: _Woken) -> None:
        event.parking.asked = False
        if event.queue is not None:
            self._served[event.queue].more = True
        for queue in event.parking.queues:
            served = self._served[queue]
            reply = event.replies.get(queue)
            # One that is not parked any more was asked for, and that answer counts.
            if served.parked and reply is not None:
                asked, served.parked = served.parked_limit, None
                if not isinstance(reply, Exception):
                    self._count(served, reply, asked, [])
            served.parked_lost = served.parked is not None

    def _unwanted(self, served: _Served) -> bool:
        """Whether a parked claim is not to take anything any more, or its answer was lost."""
        return served.parked_lost or self._quiet or self._stops > 0

    def _note_end(self, end: _End) -> None:
        served = self._served[end.hand.queue]
        if not served.finished:
            self._finished_since = time.monotonic()
        served.finished.append(end)
        self._in_hand -= 1

    def _ended(self) -> int:
        """How many jobs have ended that the server has not been told of."""
        return sum(len(served.finished) for served in self._served.values())

    def _asking_again(self) -> bool:
        """Whether so much has ended meanwhile that the server is asked again at once. What its last
        answer brought is taken in while it is at work on the next."""
        return self._ended() >= self._enough() and not self._stops and not self._away

    def _lingering(self, now: float) -> bool:
        """Whether what has finished should wait for more of it before the server is asked."""
        return (
            0 < self._ended() < self._enough()
            and self._in_hand > 0
            and not self._stops
            and now - self._finished_since < self._linger()
        )

    def _enough(self) -> int:
        """How many ended jobs are worth a round trip at once."""
        return self._slots() // 4

    def _linger(self) -> float:
        if self._pool.waiting:
            return _MOVES if self._pool.brief else _LINGER
        if self._elsewhere > self._slots():
            return _MOVES
        return min(_LINGER, _LINGER_SHARE * self._run_time)

    def _watch_line(self, now: float) -> None:
        """Lets more threads take from a line on which one is slow."""
        waiting = self._pool.waiting
        if waiting != self._line[0]:
            self._line = waiting, now
        elif self._pool.brief and now - self._line[1] > _MOVES:
            self._run_time = _LONG
            self._pool.nudge()

    def _give_back_line(self) -> None:
        """Gives back what was claimed ahead and has not started."""
        self._run_time = _LONG
        hands = self._pool.withdraw()
        self._unstarted(hands)
        for hand in hands:
            self._served[hand.queue].more = True

    def _unstarted(self, hands: Sequence[Hand]) -> None:
        """Gives back what has not started, as if it had not been claimed."""
        for hand in hands:
            end = _End(hand, hand.queue.jobs.giving_back(hand.claim))
            self._served[hand.queue].finished.append(end)
        self._in_hand -= len(hands)
        self._left += len(hands)
        self.claimed -= len(hands)

    def _slots(self) -> int:
        """How many jobs may hold or await a thread: one per thread, and what is claimed ahead."""
        in_time = _AHEAD / max(self._run_time, 1e-9)  # for one thread
        if self._run_time < _BRIEF:
            return self._threads + int(min(_AHEAD_OF_BRIEF, in_time))
        return self._threads + int(self._threads * min(_AHEAD_PER_THREAD, in_time))

    def _plan(self, now: float) -> list[tuple[_Served, Call, bool]]:
        """The calls to make now: (queue, call, whether it is a beat)."""
        calls: list[tuple[_Served, Call, bool]] = []
        shares = self._shares(now)
        for served in self._served.values():
            if not served.call and served.parked and self._unwanted(served):
                served.unpark(served.parked)
            if served.call:
                if now >= served.rest_until:
                    calls.append((served, served.call, False))
                continue
            share = shares.get(served, 0)
            if now >= served.rest_until and (served.finished or share):
                call = served.ask(share, self.name)
                # From here on their leases end for a good reason.
                self._leases.drop(served.queue, [end.hand.claim for end in served.sent])
                calls.append((served, call, False))
            if now >= served.tick_at and now >= served.rest_until:
                served.tick_at = now + BEAT
                batch = _TICK_BATCH if self._promoter else 0
                call = tick_call(served.queue, batch, self.name, self._info(served.queue))
                calls.append((served, call, True))
        return calls

    def _shares(self, now: float) -> dict[_Served, int]:
        """Free slots, dealt out among the queues that may have more, each in turn first."""
        asked = sum(s.asked for s in self._served.values() if s.call)
        held = self._in_hand - self._elsewhere
        free = int(min(self._slots() - held - asked, self._left, CLAIMS))
        if self._stops or self._quiet or free <= 0:
            return {}
        hungry = [
            s
            for s in self._served.values()
            if s.more and not s.call and now >= max(s.rest_until, s.token_at)
        ]
        if not hungry:
            return {}
        self._turn += 1
        first = self._turn % len(hungry)
        hungry = hungry[first:] + hungry[:first]
        each, rest = divmod(free, len(hungry))
        return {s: each + (i < rest) for i, s in enumerate(hungry) if each + (i < rest)}

    def _exchange(self, calls: list[tuple[_Served, Call, bool]]) -> None:
        for client in self._by_client:
            mine = [entry for entry in calls if entry[0].queue.client is client]
            if not mine:
                continue
            asked = time.monotonic()
            alone = len(self._by_client) == 1 or client not in self._away
            patience = client.retry_for if alone else AWAY_PATIENCE
            try:
                steps = client.run_many([call for _, call, _ in mine], patience)
                replies = client.drive(steps, meanwhile=self._take_in)
                for reply in replies:
                    # For all jobs alike, so none of them is given up: asked again when it does.
                    if isinstance(reply, Exception):
                        refused = refusal_of(reply)
                        if isinstance(refused, WritesRefused):
                            raise refused
            except VersionFence:
                raise
            except (*LOST, EchoMQError) as error:
                self._lost(client, error)
                now = time.monotonic()
                for served, _, beat in mine:
                    # So that one that is slow to fail leaves others half of the time.
                    served.rest_until = now + max(_AWAY_PAUSE, now - asked)
                    if beat:
                        served.tick_at = 0.0
                continue
            if (since := self._away.pop(client, None)) and not self._is_away(client):
                logger.warning("The server is back after %.1f s", time.monotonic() - since)
            for (served, _, beat), reply in zip(mine, replies, strict=True):
                if isinstance(reply, Exception):
                    self._refused(served, reply, beat)
                elif beat:
                    self._ticked(served, reply)
                else:
                    self._answered(served, reply)

    def _is_away(self, client: Client) -> bool:
        """Whether a server is known to be away, or another node of its cluster."""
        return any(each.home is client.home for each in self._away)

    def _lost(self, client: Client, error: Exception) -> None:
        known = self._is_away(client)
        self._away.setdefault(client, time.monotonic())
        if not known:
            logger.warning(
                "The server is away, will go on when it is back (%d job(s) in hand): %s",
                self._in_hand,
                error,
            )

    def _refused(self, served: _Served, error: Exception, beat: bool) -> None:
        """A script failed on the server, through a foreign key in its way."""
        served.rest_until = time.monotonic() + BEAT
        if beat:
            logger.error("The beat on queue %s failed: %s", served.queue.name, error)
            return
        sent, served.sent, served.call = served.sent, [], None
        if len(sent) == 1:
            # Its lease lapses, and the sweep decides.
            hand = sent[0].hand
            logger.error(
                "Job %s could not be settled: %s", hand.claim.job_id, error, extra=hand.extra()
            )
        elif sent:
            # One of them is in the way; alone, each stands for itself.
            served.rest_until = 0.0
            for n, end in enumerate(sent, 1):
                served.sent = [end]
                served.asked = 0
                served.call = served.settling(served.sent, 0, self.name)
                self._exchange([(served, served.call, False)])
                if served.call:
                    served.finished += sent[n:]
                    return
        else:
            logger.error("Claiming from queue %s failed: %s", served.queue.name, error)

    def _ticked(self, served: _Served, reply: Reply) -> None:
        tick = tick_answer(served.queue, reply)
        for job_id, reason in tick.cancels.items():
            hand = self._leases.find(served.queue, job_id)
            if hand:
                hand.token.cancel(reason)
        self._hear(served, tick.told)
        if self._beat:
            self._beat()
        if tick.lapsed and self._stalled:
            self._stalled(served.queue, tick.lapsed)
        if tick.waiting:
            served.more = True
            served.token_at = 0.0
        if self._stops or not self._promoter:
            return
        if tick.runs_due and not self._fire(served):
            return  # tried again with the next beat
        if tick.full or tick.runs_due > RUNS_BATCH:
            served.tick_at = 0.0
        elif tick.runs_due:
            # The schedules have moved on from what the beat saw; look again soon, not at once,
            # should one of them be beyond firing.
            self._due_in(served, AFTER_FIRING_MS)
        else:
            self._due_in(served, tick.next_ms)

    def _info(self, queue: Queue) -> str:
        """What a beat says of the worker."""
        state = "stopping" if self._stops else "quiet" if self._quiet else "running"
        return json.dumps(
            {
                "host": _HOST,
                "pid": os.getpid(),
                "queues": list(dict.fromkeys(served.name for served in self._served)),
                "threads": self._threads,
                "in_hand": len(self._leases.hands(queue)),
                "started_at": self._started_ms,
                "state": state,
                "version": __version__,
            }
        )

    def _hear(self, served: _Served, told: str) -> None:
        """Does what the worker was told through a queue, once for each time it was told."""
        if told == served.told:
            return
        served.told = told
        logger.info("Told through queue %s to %s", served.queue.name, told or "go on")
        if told == "stop":
            self._told_to_stop = True
        elif told == "quiet":
            self.quiet()
        elif told == "":
            self.resume()

    def _leave(self) -> None:
        """Takes the worker off the lists; where that fails its entries end by themselves."""
        for queue in self._served:
            if queue.client in self._away:
                continue
            try:
                queue.run("workers/leave", self.name)
            except (*LOST, EchoMQError) as error:
                logger.debug("Not taken off the list of queue %s: %s", queue.name, error)

    def _get_ready(self, prepare: Callable[[], object]) -> None:
        try:
            prepare()
        except VersionFence:
            raise
        except (*LOST, EchoMQError) as error:
            # Of which server, it does not say; the first calls to each will.
            self._lost(next(iter(self._by_client)), error)
            return
        except Exception:
            logger.exception("Preparing failed")
        self._prepare = None

    def _fire(self, served: _Served) -> bool:
        """Fires what is due; answers whether that went well."""
        served.more = True
        try:
            served.queue.repeat.fire(RUNS_BATCH)
        except LOST as error:
            self._lost(served.queue.client, error)
        except EchoMQError as error:
            logger.error("Schedules of queue %s were not fired: %s", served.queue.name, error)
        except Exception:
            logger.exception("Firing schedules of queue %s failed", served.queue.name)
        else:
            return True
        return False

    def _due_in(self, served: _Served, ms: int | None) -> None:
        if ms is not None and self._promoter:
            served.tick_at = min(served.tick_at, time.monotonic() + ms / 1000)

    def _answered(self, served: _Served, reply: Reply) -> None:
        sent, asked = served.sent, served.asked
        served.call, served.sent, served.asked = None, [], 0
        self._count(served, reply, asked, sent)

    def _count(self, served: _Served, reply: Reply, asked: int, sent: list[_End]) -> None:
        """Counts what was claimed, so that the next call can be made."""
        exchange = served.queue.jobs.exchange_answer(reply)
        claimed = exchange.claimed
        if asked:
            served.more = claimed >= asked
            served.rate_told(exchange.token_ms, claimed)
        self.claimed += claimed
        self._left -= claimed
        self._in_hand += claimed
        self._answers.append(_Answer(served, exchange, sent))

    def _take_in(self) -> None:
        """Starts what was claimed, and looks at how what was settled has ended."""
        answers, self._answers = self._answers, []
        for served, exchange, sent in answers:
            self._settled(served, exchange, sent)
            if exchange.claims:
                self._start(served, exchange.claims)
            self._due_in(served, exchange.next_due_ms)

    def _settled(self, served: _Served, exchange: Exchange, sent: list[_End]) -> None:
        for (hand, settlement), word in zip(sent, exchange.settled, strict=True):
            if word is Settled.SCHEDULED:
                due = time.monotonic() + float(settlement.args[0]) / 1000
                served.retries_until = max(served.retries_until, due)
            elif word is Settled.STALE or word is Settled.GONE:
                logger.warning(
                    "Job %s of queue %s was no longer this worker's: its %s was refused (%s)",
                    settlement.claim.job_id,
                    served.queue.name,
                    settlement.verb,
                    word.value,
                    extra=hand.extra(),
                )

    def _start(self, served: _Served, claims: Sequence[Claim]) -> None:
        queue = served.queue
        hands = [Hand(queue, claim, later=self._ended_elsewhere) for claim in claims]
        if self._quiet or self._stops:
            self._unstarted(hands)
            return
        self._line_since = time.monotonic()
        self._leases.add(hands)
        self._line = len(hands) + self._pool.waiting, self._line_since
        self._pool.brief = self._run_time < _BRIEF
        self._pool.submit(hands)

    def _give_back(self) -> Stopped:
        """Ends at once: settles what has finished, gives back the rest."""
        self._collect(0.0)
        given = 0
        for queue, served in self._served.items():
            if served.parked and not served.call and queue.client not in self._away:
                asking = served.unpark(served.parked)
                with suppress(*LOST, EchoMQError):
                    self._answered(served, queue.client.ask(asking))
        self._take_in()
        for served in self._served.values():
            ends = served.sent + served.finished
            settled = {end.hand.claim.job_id for end in ends}
            still_open = [
                _End(hand, served.queue.jobs.giving_back(hand.claim))
                for hand in self._leases.hands(served.queue)
                if hand.claim.job_id not in settled
            ]
            given += len(still_open)
            ends += still_open
            try:
                for start in range(0, len(ends), _SETTLE_BATCH):
                    call = served.settling(ends[start : start + _SETTLE_BATCH], 0, self.name)
                    served.queue.drive(served.queue.client.run(call))
            except (*LOST, EchoMQError) as error:
                given += len(ends) - len(still_open)
                logger.error(
                    "Jobs of queue %s could not be given back, their leases will lapse: %s",
                    served.queue.name,
                    error,
                )
        logger.warning("Stopped at once: gave back %d job(s)", given)
        return Stopped.GAVE_BACK if given else Stopped.FINISHED
