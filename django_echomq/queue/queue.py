"""A queue: the control map's front door."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ..wire.client import Argument, Call, Client, Steps
from ..wire.endpoint import Endpoint
from ..wire.keys import Keys
from ..wire.scripts import script
from .backoff import Backoff, Exponential
from .limits import LaneOptions, Rate

if TYPE_CHECKING:
    from .admin import Admin
    from .events import Events
    from .jobs import Jobs
    from .lanes import Lanes
    from .metrics import Metrics
    from .repeat import Repeat
    from .stalled import Stalled
    from .values import Unique
    from .workers import Workers

T = TypeVar("T")
#: A reading of a queue: yields calls one by one, is sent their replies, and ends with what it read.
Look = Generator[Call, Any, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """How a queue treats its jobs.

    Attributes:
        lease_ms: how long a claim holds without being extended.
        max_attempts: tries before a job is dead.
        backoff: the curve between tries.
        timeout_ms: how long a handler may run; ``None`` for ever.
        max_stalled: lapsed leases before a job is buried; 0 never buries.
        keep_completed_ms: how long an outcome record lives; 0 keeps none.
        keep_completed_max: at most so many outcome records.
        keep_dead_ms: how long a dead job stays; 0 for ever.
        max_payload: bytes that a payload has at most.
        concurrency: jobs in hand at once, over all workers; ``None`` for no limit.
        rate_limit: starts within a window, over all workers; ``None`` for no limit.
        lanes: weights and limits, by the lane's name.
        events: what happens is published on the queue's channel.

    ``concurrency``, ``rate_limit`` and ``lanes`` take effect with :meth:`Admin.configure`.
    """

    lease_ms: int = 30_000
    max_attempts: int = 3
    backoff: Backoff = field(default_factory=lambda: Exponential().jittered())
    timeout_ms: int | None = None
    max_stalled: int = 3
    keep_completed_ms: int = 3_600_000
    keep_completed_max: int = 10_000
    keep_dead_ms: int = 0
    max_payload: int = 1_048_576
    concurrency: int | None = None
    rate_limit: Rate | None = None
    lanes: Mapping[str, LaneOptions] = field(default_factory=dict, hash=False)
    events: bool = True


class Queue:
    """One queue on one server.

    Args:
        name: 1 to 128 letters, digits, ``.``, ``_`` or ``-``.
        client: a :class:`~django_echomq.wire.client.Client`, or a ``redis.Redis`` or
            ``redis.RedisCluster`` whose addresses and credentials are taken over.
        options: how it treats its jobs; the defaults are those of the settings.

    Raises:
        InvalidName: for another name.
        UnsafeClient: for a client that decodes replies.
    """

    def __init__(self, name: str, client: Any, options: QueueOptions | None = None) -> None:
        self.keys = Keys(name)
        self.name = name
        self.client = client_from(client).of(self.keys.base)
        self.options = options or QueueOptions()

    def __repr__(self) -> str:
        return f"<Queue {self.name} at {self.client.endpoint.label}>"

    @cached_property
    def jobs(self) -> Jobs:
        """The spine, time, and single rows."""
        from .jobs import Jobs

        return Jobs(self)

    @cached_property
    def admin(self) -> Admin:
        """The whole queue."""
        from .admin import Admin

        return Admin(self)

    @cached_property
    def lanes(self) -> Lanes:
        """Fair lanes."""
        from .lanes import Lanes

        return Lanes(self)

    @cached_property
    def metrics(self) -> Metrics:
        """Reading."""
        from .metrics import Metrics

        return Metrics(self)

    @cached_property
    def events(self) -> Events:
        """What happens, told as it happens."""
        from .events import Events

        return Events(self)

    @cached_property
    def repeat(self) -> Repeat:
        """Schedules: what runs on a cadence."""
        from .repeat import Repeat

        return Repeat(self)

    @cached_property
    def stalled(self) -> Stalled:
        """Recovery of jobs whose lease lapsed."""
        from .stalled import Stalled

        return Stalled(self)

    @cached_property
    def workers(self) -> Workers:
        """Who serves the queue."""
        from .workers import Workers

        return Workers(self)

    # Of several partitions; see `partitions.py`

    @property
    def parts(self) -> tuple[Queue, ...]:
        """The queues as the server has them: this one, or its partitions."""
        return (self,)

    @property
    def whole(self) -> Queue:
        """The queue as it was defined: this one, or the one that this is a partition of."""
        return self

    def part_of(self, job_id: str) -> Queue:
        """The one of :attr:`parts` that a job stands in."""
        return self

    def part_for(self, lane: str | None = None, unique: Unique | None = None) -> Queue:
        """The one of :attr:`parts` that a new job goes to."""
        return self

    def mint(self, count: int) -> Steps[list[str]]:
        """Fresh ids for jobs of this queue."""
        return self.client.mint(count)

    def through(self, other: Callable[[Client], Client]) -> Queue:
        """The same queue by other clients: what ``other`` answers to each of its own."""
        return Queue(self.name, other(self.client), self.options)

    def client_of(self, call: Call) -> Client:
        """Whose server a call of a reading goes to."""
        return self.client

    @property
    def server(self) -> str:
        """Where it is, for people to read."""
        return ", ".join(dict.fromkeys(part.client.endpoint.label for part in self.parts))

    # Asking

    def call(self, name: str, *args: Argument) -> Call:
        """The call of a transition on this queue."""
        return Call(script(name), self.keys.base, args)

    def run(self, name: str, *args: Argument) -> Any:
        """Runs a transition on this queue and answers its reply."""
        return self.client.ask(self.call(name, *args))

    def run_all(self, name: str, *args: Argument) -> list[Any]:
        """Runs a transition on each of :attr:`parts`; answers their replies."""
        return [part.run(name, *args) for part in self.parts]

    def drive(self, steps: Steps[T]) -> T:
        return self.client.drive(steps)

    def look(self, look: Look[T]) -> T:
        """Walks a reading to its end."""
        try:
            call = next(look)
            while True:
                client = self.client_of(call)
                call = look.send(client.drive(client.run(call)))
        except StopIteration as end:
            value: T = end.value
            return value


def client_from(client: Any) -> Client:
    """A client of ours by that of others.

    Raises:
        UnsafeClient: it decodes replies.
    """
    return client if isinstance(client, Client) else Client(Endpoint.from_client(client))
