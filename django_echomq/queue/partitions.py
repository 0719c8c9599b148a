"""A queue too hot for one node of the server, as several that answer to one name.

Partition ``p`` of the queue ``mail`` is a queue of its own for the server, named ``mail.p<p>``. An
id, the name of a lane and a unique key belong to the partition that is their CRC-16 (the one of
cluster slots) modulo the number of partitions. Ids are minted until they fall where their job is to
go, so that an id alone tells where its job stands.
"""

from __future__ import annotations

import itertools
from binascii import crc_hqx
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from inspect import signature
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

from ..wire.client import Argument, Call, Client, Detour, Steps
from ..wire.errors import EchoMQError
from ..wire.ids import check, check_job
from ..wire.keys import check_lane, check_queue
from .clock import Duration
from .jobs import BATCH, Jobs, Settlement
from .limits import Rate, shares
from .metrics import Histograms, Metrics, Overview, Throughput, Totals
from .queue import Look, Queue, QueueOptions, client_from
from .values import Admission, Claim, Job, Listed, NotReplicated, Page, Settled, Unique, Verdict

P = ParamSpec("P")
T = TypeVar("T")

#: Most partitions of a queue.
MAX_PARTITIONS = 64
_NONE = 1, 0  # no rank


def partition_of(text: str, partitions: int) -> int:
    """The partition that an id, the name of a lane or a unique key belongs to.

    >>> partition_of("JOB0NgWEfAEJfs", 8)
    3
    """
    return crc_hqx(text.encode(), 0) % partitions


def partition_name(queue: str, number: int) -> str:
    """The name that a partition has on the server.

    >>> partition_name("mail", 3)
    'mail.p3'
    """
    return f"{queue}.p{number}"


class Partition(Queue):
    """One queue of the server, under the name of the whole."""

    def __init__(
        self, whole: PartitionedQueue, number: int, client: Any, options: QueueOptions
    ) -> None:
        super().__init__(partition_name(whole.name, number), client, options)
        self.name = whole.name
        self.number = number
        self._whole = whole

    def __repr__(self) -> str:
        return f"<Queue {self.keys.queue} at {self.client.endpoint.label}>"

    @property
    def whole(self) -> Queue:
        return self._whole

    def through(self, other: Callable[[Client], Client]) -> Queue:
        return self._whole.through(other).parts[self.number]

    def mint(self, count: int) -> Steps[list[str]]:
        """Fresh ids that belong here."""
        of = len(self._whole.parts)
        found: list[str] = []
        while len(found) < count:
            ids = yield from self.client.mint((count - len(found)) * of)
            found += [job_id for job_id in ids if partition_of(job_id, of) == self.number]
        return found[:count]


class PartitionedQueue(Queue):
    """A queue of several partitions, with the verbs of one.

    Its own ``client`` and ``keys`` are those of its first partition, where what belongs to the
    whole is kept.

    Args:
        name: the name of them all.
        clients: one for each partition, 2 to 64; several may have the same.
        options: how the whole treats its jobs. Its limits are divided among the partitions.

    Raises:
        InvalidName: for another name, or one that leaves no room for those of the partitions.
        ValueError: a limit is less than one for each partition.
    """

    def __init__(
        self, name: str, clients: Sequence[Any], options: QueueOptions | None = None
    ) -> None:
        count = len(clients)
        if not 2 <= count <= MAX_PARTITIONS:
            raise ValueError(f"a queue has 2 to {MAX_PARTITIONS} partitions, not {count}")
        check_queue(name)
        check_queue(partition_name(name, count - 1))
        self.name = name
        self.options = options or QueueOptions()
        made = {id(client): client_from(client) for client in {id(c): c for c in clients}.values()}
        self._parts = tuple(
            Partition(self, number, made[id(client)], divided)
            for number, (client, divided) in enumerate(
                zip(clients, _divided(self.options, count), strict=True)
            )
        )
        self.client = self._parts[0].client
        self.keys = self._parts[0].keys
        self._clients = {part.keys.base: part.client for part in self._parts}
        self._turn = itertools.count()

    def __repr__(self) -> str:
        return f"<PartitionedQueue {self.name}, {len(self._parts)} partitions at {self.server}>"

    @property
    def parts(self) -> tuple[Queue, ...]:
        return self._parts

    def part_of(self, job_id: str) -> Queue:
        return self._parts[partition_of(job_id, len(self._parts))]

    def part_for(self, lane: str | None = None, unique: Unique | None = None) -> Queue:
        """The partition that a new job goes to: that of its lane, so that the lane's order and
        limit hold; that of its unique key, so that the key is known to be taken; else the next in
        turn.

        Raises:
            ValueError: both are given.
        """
        if lane is not None and unique is not None:
            raise ValueError(
                f"queue {self.name!r} is partitioned, by lane and by unique key: a job of it has "
                "one of them, not both"
            )
        if lane is not None:
            return self.part_of(check_lane(lane))
        if unique is not None:
            unique.check()
            return self.part_of(unique.key)
        return self._parts[next(self._turn) % len(self._parts)]

    def in_turn(self) -> list[Queue]:
        """The partitions, each first in its turn."""
        first = next(self._turn) % len(self._parts)
        return [*self._parts[first:], *self._parts[:first]]

    def through(self, other: Callable[[Client], Client]) -> Queue:
        return PartitionedQueue(
            self.name, [other(part.client) for part in self._parts], self.options
        )

    def client_of(self, call: Call) -> Client:
        return self._clients[call.base]

    def call(self, name: str, *args: Argument) -> NoReturn:
        raise TypeError(f"queue {self.name!r} is partitioned: {name} is a call of one of its parts")

    def run(self, name: str, *args: Argument) -> NoReturn:
        self.call(name, *args)

    @cached_property
    def jobs(self) -> PartitionedJobs:
        return PartitionedJobs(self)

    @cached_property
    def metrics(self) -> PartitionedMetrics:
        return PartitionedMetrics(self)


def _divided(options: QueueOptions, count: int) -> Iterator[QueueOptions]:
    """The options of each partition."""
    most = options.concurrency and shares(options.concurrency, count)
    rate = options.rate_limit
    starts = rate and shares(rate.count, count)
    for number in range(count):
        yield replace(
            options,
            concurrency=most[number] if most else None,
            rate_limit=Rate(starts[number], rate.period_ms) if rate and starts else None,
            lanes={
                lane: how
                for lane, how in options.lanes.items()
                if partition_of(lane, count) == number
            },
        )


def _by_id(verb: Callable[P, T]) -> Callable[P, T]:
    """A verb of one job, of the partition that its id, or its claim, belongs to."""

    one: Callable[..., T] = verb
    _, name, *_ = signature(verb).parameters

    @wraps(verb)
    def spread(*args: P.args, **kwargs: P.kwargs) -> T:
        jobs, *given = cast("tuple[PartitionedJobs, Any]", args)
        of = given[0] if given else kwargs[name]
        job_id = of.job_id if isinstance(of, Claim) else check(of)
        return one(jobs._queue.part_of(job_id).jobs, *given, **kwargs)

    return spread


class PartitionedJobs(Jobs):
    """The verbs of jobs, each on the partition that it is meant for."""

    _queue: PartitionedQueue

    # Admission

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
        part = self._queue.part_for(lane, unique)
        if job_id is not None:
            part = self._given(check_job(job_id), lane, unique)
        elif lane is None and unique is None:
            # One id, and where it falls, instead of ids until one falls here.
            minted_id = minted_id or part.drive(part.client.mint(1))[0]
            part = self._queue.part_of(minted_id)
        elif minted_id and self._queue.part_of(minted_id) is not part:
            minted_id = None
        return part.jobs.admit(payload, when, ms, job_id, lane, priority, unique, minted_id)

    def _given(self, job_id: str, lane: str | None, unique: Unique | None) -> Queue:
        """Where a job goes under an id of the caller's."""
        part = self._queue.part_of(job_id)
        if (lane is not None or unique) and self._queue.part_for(lane, unique) is not part:
            what = f"unique key {unique.key!r}" if unique else f"lane {lane!r}"
            raise ValueError(
                f"job {job_id} and {what} belong to different partitions of queue "
                f"{self._queue.name!r}: leave the id out, or have one minted by "
                "queue.part_for(lane, unique).mint"
            )
        return part

    def stream(
        self,
        payloads: Sequence[bytes | str],
        *,
        lane: str | None = None,
        priority: int = 0,
        when: str = "now",
        ms: int = 0,
    ) -> Generator[list[Admission]]:
        bodies = [self.body(payload) for payload in payloads]
        if lane is not None:
            part = self._queue.part_for(lane)
            yield from part.jobs.stream(bodies, lane=lane, priority=priority, when=when, ms=ms)
            return
        most = BATCH * len(self._queue.parts)
        if any(part.client.endpoint.replicas for part in self._queue.parts):
            most = len(bodies) or 1  # all are admitted before it is told what is not replicated
        for start in range(0, len(bodies), most):
            some = bodies[start : start + most]
            yield self._client.drive(self.admission(some, priority=priority, when=when, ms=ms))

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
        bodies = [self.body(payload) for payload in payloads]
        self._head(lane, priority, unique, when, ms, own_ids is not None)
        # Before anything is sent, whatever is wrong.
        first = self._queue.part_for(lane, unique)
        parts = [self._given(check_job(job_id), lane, unique) for job_id in own_ids or ()]
        ids = own_ids if own_ids is not None else minted_ids
        if ids is not None and len(ids) != len(bodies):
            raise ValueError(f"{len(ids)} ids were given for {len(bodies)} payloads")

        def steps() -> Steps[list[Admission]]:
            kept = ids
            if kept is None and lane is None and unique is None:
                (kept,) = yield Detour(first.client, first.client.mint(len(bodies)))
            if own_ids is None:
                if lane is None and unique is None:
                    parts.extend(self._queue.part_of(job_id) for job_id in kept or ())
                else:
                    parts.extend([first] * len(bodies))
                    if any(self._queue.part_of(job_id) is not first for job_id in kept or ()):
                        kept = None  # minted for elsewhere
            admissions: dict[int, Admission] = {}
            short: list[NotReplicated] = []
            for part, numbers in _grouped(parts).items():
                some = None if kept is None else [kept[n] for n in numbers]
                admission = part.jobs.admission(
                    [bodies[n] for n in numbers],
                    own_ids=None if own_ids is None else some,
                    minted_ids=some if own_ids is None else None,
                    lane=lane,
                    priority=priority,
                    unique=unique,
                    when=when,
                    ms=ms,
                )
                try:
                    (told,) = yield Detour(part.client, admission)
                except NotReplicated as error:
                    told = error.admissions
                    short.append(error)
                admissions.update(zip(numbers, told, strict=True))
            done = [admissions[n] for n in range(len(bodies))]
            if short:
                worst = min(short, key=lambda error: error.replicas)
                raise NotReplicated(done, worst.replicas, worst.asked, worst.ms)
            return done

        return steps()

    # Claim and settle

    def claim(self, limit: int = 1, lease: Duration | None = None) -> list[Claim]:
        """As :meth:`Jobs.claim`, from one partition after the other, each first in its turn.

        Highest priority and oldest first holds within a partition.
        """
        first, *others = self._queue.in_turn()
        claims = first.jobs.claim(limit, lease)
        for part in others:
            if len(claims) >= limit:
                break
            try:
                claims += part.jobs.claim(limit - len(claims), lease)
            except EchoMQError:
                if not claims:
                    raise
                break  # what is in hand is the caller's
        return claims

    def _settle(self, settlement: Settlement) -> Settled:
        return self._queue.part_of(settlement.claim.job_id).jobs._settle(settlement)

    def _extend(self, claims: Sequence[Claim], lease: Duration | None) -> list[bytes]:
        return self._apart(
            claims,
            [claim.job_id for claim in claims],
            lambda part, some: part.jobs._extend(some, lease),
        )

    checkpoint = _by_id(Jobs.checkpoint)

    # Moved by time

    def promote(self, limit: int = 100) -> int:
        return self._up_to(limit, Jobs.promote)

    def reap(self, limit: int = 100) -> int:
        return self._up_to(limit, Jobs.reap)

    def _up_to(self, limit: int, verb: Callable[[Jobs, int], int]) -> int:
        moved = 0
        for part in self._queue.in_turn():
            if moved < limit:
                moved += verb(part.jobs, limit - moved)
        return moved

    # One row

    reschedule = _by_id(Jobs.reschedule)
    state = _by_id(Jobs.state)
    get = _by_id(Jobs.get)
    update_data = _by_id(Jobs.update_data)
    update_progress = _by_id(Jobs.update_progress)
    add_log = _by_id(Jobs.add_log)
    _logs = _by_id(Jobs._logs)

    def _each(self, verb: str, job_ids: Iterable[str], *args: Argument) -> list[Verdict]:
        ids = [check(job_id) for job_id in job_ids]
        return self._apart(ids, ids, lambda part, some: part.jobs._each(verb, some, *args))

    def _apart(
        self,
        values: Sequence[Any],
        ids: Sequence[str],
        verb: Callable[[Queue, list[Any]], list[T]],
    ) -> list[T]:
        """A verb over many, partition by partition; its answers in the order of the values."""
        answers: dict[int, T] = {}
        for part, numbers in _grouped([self._queue.part_of(job_id) for job_id in ids]).items():
            told = verb(part, [values[n] for n in numbers])
            answers.update(zip(numbers, told, strict=True))
        return [answers[n] for n in range(len(values))]

    # Pages

    def browse(
        self,
        state: str = "pending",
        offset: int = 0,
        limit: int = 50,
        newest_first: bool = True,
        lane: str | None = None,
    ) -> list[Job]:
        if lane is not None:
            part = self._queue.part_for(lane)
            return part.jobs.browse(state, offset, limit, newest_first, lane)
        ranks, places = self._ranks(state, offset, limit, newest_first)
        found = {
            job.id.encode(): job
            for part, first, many in ranks
            for job in part.jobs.browse(state, first, many, newest_first)
        }
        return [found[member] for _, member in places if member in found]

    def page(
        self,
        state: str = "pending",
        offset: int = 0,
        limit: int = 50,
        newest_first: bool = True,
        lane: str | None = None,
        behind: tuple[bytes, bytes] | None = None,
    ) -> Page:
        """As :meth:`Jobs.page`, of all partitions in one order. Behind a place it may be shorter
        than ``limit`` and not the last."""
        if lane is not None:
            part = self._queue.part_for(lane)
            return part.jobs.page(state, offset, limit, newest_first, lane, behind)
        if behind is not None:
            return self._page_behind(state, offset, limit, newest_first, behind)
        ranks, places = self._ranks(state, offset, limit, newest_first)
        pages = [part.jobs.page(state, first, many, newest_first) for part, first, many in ranks]
        jobs = sorted(
            (listed for page in pages for listed in page.jobs), key=_place, reverse=newest_first
        )
        end: tuple[float, bytes] | None = None
        if places and not newest_first:
            # Jobs may have come meanwhile: as far as each was read for certain.
            end = min([places[-1], *(_end(page.end) for page in pages if page.end)])
        return Page(jobs, len(places), len(places) == limit, _sent(end))

    def page_look(
        self,
        state: str,
        offset: int = 0,
        limit: int = 50,
        newest_first: bool = True,
        lane: str | None = None,
        behind: tuple[bytes, bytes] | None = None,
    ) -> Look[Page]:
        """The steps of :meth:`page`, of a first one only."""
        if lane is not None:
            jobs_of_lane = self._queue.part_for(lane).jobs
            return (
                yield from jobs_of_lane.page_look(state, offset, limit, newest_first, lane, behind)
            )
        if offset or behind:
            raise ValueError("only the first page of a partitioned queue has steps of its own")
        pages = []
        for part in self._queue.parts:
            pages.append((yield from part.jobs.page_look(state, 0, limit, newest_first)))
        jobs = sorted(
            (listed for page in pages for listed in page.jobs), key=_place, reverse=newest_first
        )
        length = sum(page.length for page in pages)
        return Page(jobs[:limit], min(length, limit), length >= limit, None)

    def _page_behind(
        self,
        state: str,
        offset: int,
        limit: int,
        newest_first: bool,
        behind: tuple[bytes, bytes],
    ) -> Page:
        """Reads on in every partition, as far as is known of all of them."""
        self._place(state, offset, limit, None)
        each = -(-(offset + limit) // len(self._queue.parts))
        pages = [
            part.jobs.page(state, 0, each, newest_first, None, behind) for part in self._queue.parts
        ]
        jobs = sorted((listed for page in pages for listed in page.jobs), key=_place)
        end = min((_end(page.end) for page in pages if page.full and page.end), default=None)
        if end is not None:
            jobs = [listed for listed in jobs if _place(listed) <= end]
        if len(jobs) > offset + limit:
            del jobs[offset + limit :]
            end = _place(jobs[-1])
        return Page(jobs[offset:], max(0, len(jobs) - offset), end is not None, _sent(end))

    def _ranks(
        self, state: str, offset: int, limit: int, newest_first: bool
    ) -> tuple[list[tuple[Queue, int, int]], list[tuple[float, bytes]]]:
        """Where a page lies in the partitions: (partition, first rank, how many), and its places,
        scores and ids."""
        place = self._place(state, offset, limit, None)
        sizes = [size for size, _, _ in self._places(place)]
        total = sum(sizes)
        if newest_first:
            first, last = max(0, total - offset - limit), max(0, total - offset)
            ends = self._split(place, sizes, last)
            spans = [(max(0, end - (last - first)), end - 1) if end else _NONE for end in ends]
        else:
            starts = self._split(place, sizes, min(offset, total))
            spans = [(start, start + limit - 1) for start in starts]
        found: list[tuple[float, bytes, int, int]] = []
        for n, ((start, _), (_, _, flat)) in enumerate(
            zip(spans, self._places(place, spans=spans), strict=True)
        ):
            found += [
                (float(flat[i + 1]), flat[i], n, start + i // 2) for i in range(0, len(flat), 2)
            ]
        found.sort(reverse=newest_first)
        del found[limit:]
        ranks = []
        for n, part in enumerate(self._queue.parts):
            mine = sorted(rank for _, _, m, rank in found if m == n)
            if mine:
                at = sizes[n] - mine[-1] - 1 if newest_first else mine[0]
                ranks.append((part, max(0, at), len(mine)))
        return ranks, [(score, member) for score, member, _, _ in found]

    def _split(self, place: bytes, sizes: list[int], rank: int) -> list[int]:
        """How many of the first so many jobs of all each partition has.

        The widest open span is halved at one of its places: the steps grow as the logarithm of the
        number of jobs.
        """
        if rank >= sum(sizes):
            return sizes
        low, high = [0] * len(sizes), [min(size, rank) for size in sizes]
        while sum(low) < rank and low != high:
            widest = max(range(len(sizes)), key=lambda n: high[n] - low[n])
            middle = (low[widest] + high[widest]) // 2
            spans = [(middle, middle) if n == widest else _NONE for n in range(len(sizes))]
            flat = self._places(place, spans=spans)[widest][2]
            if not flat:  # it has shrunk meanwhile
                high[widest] = middle
                continue
            below = [
                max(low[n], min(high[n], behind))
                for n, (_, behind, _) in enumerate(self._places(place, (flat[1], flat[0])))
            ]
            if sum(below) <= rank:
                low = below
                low[widest] = max(low[widest], middle + 1)
            else:
                high = below
                high[widest] = min(high[widest], middle)
        return low

    def _places(
        self,
        place: bytes,
        behind: tuple[bytes, bytes] = (b"", b""),
        spans: Sequence[tuple[int, int]] | None = None,
    ) -> list[tuple[int, int, list[bytes]]]:
        """Of each partition how many there are, the rank behind a place, and the places of a span;
        in one round trip per server."""
        by_client: dict[Client, dict[int, Call]] = {}
        for n, part in enumerate(self._queue.parts):
            span = spans[n] if spans else _NONE
            call = part.call("jobs/places", place, *behind, *span)
            by_client.setdefault(part.client, {})[n] = call
        answers: dict[int, tuple[int, int, list[bytes]]] = {}
        for client, calls in by_client.items():
            replies = client.drive(client.run_many(list(calls.values())))
            for n, reply in zip(calls, replies, strict=True):
                if isinstance(reply, Exception):
                    raise reply
                answers[n] = reply
        return [answers[n] for n in range(len(self._queue.parts))]

    def size(self, state: str, lane: str | None = None) -> int:
        parts = self._queue.parts if lane is None else (self._queue.part_for(lane),)
        return sum(part.jobs.size(state, lane) for part in parts)


def _grouped(parts: Iterable[Queue]) -> dict[Queue, list[int]]:
    """By partition, the numbers of what goes there."""
    groups: dict[Queue, list[int]] = {}
    for n, part in enumerate(parts):
        groups.setdefault(part, []).append(n)
    return groups


def _place(listed: Listed) -> tuple[float, bytes]:
    return listed.score, listed.job.id.encode()


def _end(end: tuple[bytes, bytes]) -> tuple[float, bytes]:
    return float(end[0]), end[1]


def _sent(place: tuple[float, bytes] | None) -> tuple[bytes, bytes] | None:
    return None if place is None else (repr(place[0]).encode(), place[1])


class PartitionedMetrics(Metrics):
    """Figures of all partitions as those of one queue."""

    _queue: PartitionedQueue

    def counts(self, *states: str) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for part in self._queue.parts:
            sums.update(part.metrics.counts(*states))
        return dict(sums)

    def depths_look(self) -> Look[tuple[list[int], dict[bytes, int]]]:
        flats: list[list[int]] = []
        depths: Counter[bytes] = Counter()
        for part in self._queue.parts:
            flat, some = yield from part.metrics.depths_look()
            flats.append(flat)
            depths.update(some)
        return [sum(column) for column in zip(*flats, strict=True)], dict(depths)

    def is_maxed(self) -> bool:
        return all(part.metrics.is_maxed() for part in self._queue.parts)

    def unique_holder(self, key: str) -> str | None:
        return self._queue.part_for(unique=Unique(key)).metrics.unique_holder(key)

    def throughput_look(self, unit: str, n: int) -> Look[list[Throughput]]:
        every: list[list[Throughput]] = []
        for part in self._queue.parts:
            every.append((yield from part.metrics.throughput_look(unit, n)))
        return _together(every)

    def histograms_look(self, hours: int) -> Look[Histograms]:
        sums: Histograms = {b"w": Counter(), b"r": Counter()}
        for part in self._queue.parts:
            found = yield from part.metrics.histograms_look(hours)
            for kind, buckets in found.items():
                sums[kind].update(buckets)
        return sums

    def totals_look(self) -> Look[Totals]:
        found: list[Totals] = []
        for part in self._queue.parts:
            found.append((yield from part.metrics.totals_look()))
        return Totals(
            **{
                name: sum(getattr(one, name) for one in found)
                for name in ("completed", "failed", "cancelled", "retried", "enqueued")
            },
            waits=_summed([one.waits for one in found]),
            runs=_summed([one.runs for one in found]),
        )

    def oldest(self) -> float | None:
        waits = [part.metrics.oldest() for part in self._queue.parts]
        return max((wait for wait in waits if wait is not None), default=None)

    def overview_look(self) -> Look[Overview]:
        found: list[Overview] = []
        for part in self._queue.parts:
            found.append((yield from part.metrics.overview_look()))
        counts: Counter[str] = Counter()
        for one in found:
            counts.update(one.counts)
        limits = [one.concurrency for one in found if one.concurrency is not None]
        rates = [one.rate for one in found if one.rate is not None]
        periods = {rate.period_ms for rate in rates}
        waits = [one.oldest for one in found if one.oldest is not None]
        whole = len(found)
        return Overview(
            counts=dict(counts),
            paused=all(one.paused for one in found),
            concurrency=sum(limits) if len(limits) == whole else None,
            rate=Rate(sum(rate.count for rate in rates), periods.pop())
            if len(rates) == whole and len(periods) == 1
            else None,
            limited=all(one.limited for one in found),
            oldest=max(waits, default=None),
            workers=max(one.workers for one in found),
            flat=sum(one.flat for one in found),
            # A lane has its jobs in one of them.
            depths={lane: depth for one in found for lane, depth in one.depths.items()},
            throughput=_together([one.throughput for one in found]),
        )


def _summed(buckets: Iterable[dict[float, int]]) -> dict[float, int]:
    sums: Counter[float] = Counter()
    for one in buckets:
        sums.update(one)
    return dict(sorted(sums.items()))


def _together(every: list[list[Throughput]]) -> list[Throughput]:
    """The sums by minute or hour, as many of the latest as each has."""
    by_time: dict[Any, list[Throughput]] = {}
    for points in every:
        for point in points:
            by_time.setdefault(point.at, []).append(point)
    sums = [
        Throughput(
            at,
            **{
                name: sum(getattr(point, name) for point in points)
                for name in ("completed", "failed", "cancelled", "retried", "enqueued")
            },
        )
        for at, points in sorted(by_time.items())
    ]
    return sums[-len(every[0]) :]
