"""What goes along with jobs, around their sending and around their running: tracing, for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from ..queue import Admission, Queue
from ..queue.jobs import Settlement
from ..worker.hand import Hand, Handler


@dataclass(slots=True)
class Sending:
    """Calls of one task on their way to a queue.

    Attributes:
        queue, task: where to, and the task's name.
        count: how many calls.
        many: they were sent by ``enqueue_many``.
        carried: JSON to be added to the options in each call's envelope. A worker leaves names that
            it does not know alone.
        admissions: what became of them, once they are sent.
    """

    queue: Queue
    task: str
    count: int
    many: bool
    carried: dict[str, Any] = field(default_factory=dict)
    admissions: Sequence[Admission] = ()


class Around:
    """Overrides what it wants to go around, and is put to use by :func:`add`."""

    def sending(self, sending: Sending) -> AbstractContextManager[object]:
        """Entered before calls are sent, and left when their admissions are known."""
        return nullcontext()

    def running(self, hand: Hand, run: Handler) -> Settlement | None:
        """Goes around one attempt: has to call ``run`` and answer what it answers.

        ``None`` says that the attempt goes on as a coroutine, which has a copy of the context of
        the call. It ends with a call of ``hand.later``, which may be replaced here.
        """
        return run(hand)


_all: tuple[Around, ...] = ()


def add(around: Around) -> None:
    """Goes around all that is sent from now on, and around what workers run that start later."""
    global _all
    _all = (*_all, around)


def remove(around: Around) -> None:
    global _all
    _all = tuple(each for each in _all if each is not around)


def anything() -> bool:
    """Whether there is something to go around what is sent."""
    return bool(_all)


@contextmanager
def around_sending(sending: Sending) -> Iterator[Sending]:
    with ExitStack() as stack:
        for around in _all:
            stack.enter_context(around.sending(sending))
        yield sending


def around_running(run: Handler) -> Handler:
    """The handler with all that goes around it."""
    for around in _all:
        run = _Around(around, run)
    return run


@dataclass(frozen=True, slots=True)
class _Around:
    around: Around
    inner: Handler

    def __call__(self, hand: Hand) -> Settlement | None:
        return self.around.running(hand, self.inner)
