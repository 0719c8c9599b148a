"""Several worker processes under one that serves nothing itself.

The supervisor starts children, replaces those that end, and passes on what it is told. It holds no
connection to a server or a database, and children are started as new processes, so nothing is
shared over a fork. A line (a socket pair) joins it to each child:

* A child says ``ready`` when it serves, ``relieve`` when it is about to reach a limit, and
  ``leave`` when it was told, by its name, to stop.
* The supervisor says ``finish``, ``give back``, ``quiet`` and ``resume``. Not by signals: a
  service manager may signal every process of a group, which must not count as a second stop.
* When the supervisor dies, the line ends, and its children finish what they have in hand.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from .consumer import Worker

logger = logging.getLogger("django_echomq.worker")

#: EX_TEMPFAIL of sysexits.h: ended with jobs in hand, which were given back.
GAVE_BACK = 75

_VARIABLE = "ECHOMQ_SUPERVISED"  # of a child's environment: "<descriptor of its line>:<name>"
_READY, _RELIEVE, _LEAVE = b"ready", b"relieve", b"leave"
_FINISH, _GIVE_BACK, _QUIET, _RESUME = b"finish", b"give back", b"quiet", b"resume"

_LOOK = 1.0  # seconds between looks at what nothing tells of: dead children, memory
_QUICK = 5.0  # a child that dies so soon (seconds) after it began to serve died quickly
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0  # seconds before another starts after a quick death
_MARGIN = 15.0  # seconds that a child gets beyond its grace time before it is killed
# The share of a limit at which a child asks to be relieved, so that the replacement serves before
# the limit is reached. Each child draws its own, so that they do not ask all at once.
_RELIEF = (0.9, 0.97)


def own_command_line() -> list[str]:
    """The words that start this program anew from this process's folder."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    script = sys.argv[0]
    words = [sys.executable, *sys.orig_argv[1:]]
    if file and Path(file).name == Path(script).name:
        # As typed it may be relative to a folder that the program has left since.
        words = [str(file) if word == script else word for word in words]
    return words


@dataclass(slots=True)
class _Start:
    """A child to be started."""

    at: float = 0.0
    failures: int = 0
    relieves: _Child | None = None


class _Child:
    """One child process as the supervisor sees it."""

    def __init__(self, words: Sequence[str], number: int, name: str, start: _Start) -> None:
        self.number = number
        self.name = name
        self.failures = start.failures
        self.relieves = start.relieves
        self.ready_at = math.inf
        self.kill_at = math.inf
        # Whether its replacement has been seen to.
        self.replaced = False
        self.leaves = False
        self.quiet = False
        self.told: set[bytes] = set()
        self.line, theirs = Pipe()
        try:
            self.process = subprocess.Popen(
                words,
                env={**os.environ, _VARIABLE: f"{theirs.fileno()}:{name}"},
                pass_fds=[theirs.fileno()],
                # Out of reach of the terminal, whose Ctrl-C is for the supervisor to pass on.
                start_new_session=True,
            )
        except BaseException:
            self.line.close()
            raise
        finally:
            theirs.close()

    def tell(self, word: bytes) -> None:
        """Tells it to end, once in each way."""
        if word in self.told:
            return
        self.told.add(word)
        self._say(word)
        if self.ready_at == math.inf:
            # It may not listen yet, and has nothing in hand.
            self.process.terminate()

    def be_quiet(self, quiet: bool) -> None:
        """Has it claim nothing more, or claim again."""
        if quiet is not self.quiet:
            self.quiet = quiet
            self._say(_QUIET if quiet else _RESUME)

    def _say(self, word: bytes) -> None:
        if not self.line.closed:
            with suppress(OSError):
                self.line.send_bytes(word)

    def hear(self) -> list[bytes]:
        """What it has said since."""
        heard: list[bytes] = []
        try:
            while not self.line.closed and self.line.poll():
                heard.append(self.line.recv_bytes())
        except (EOFError, OSError):
            self.line.close()
        return heard


class Supervisor:
    """Keeps worker processes running until told to stop.

    Args:
        words: the command line of a child; see :func:`own_command_line`. In the child,
            :meth:`Supervised.from_environment` answers its name and its line.
        processes: how many children serve at once.
        name: children are named ``<name>-<number>``, with the lowest number that no live child has.
        grace: seconds that children give to jobs in hand; one that is told to end and has not
            ended 15 seconds after that is killed.
        burst: do not replace a child that ends with 0, and end when all have.
    """

    def __init__(
        self,
        words: Sequence[str],
        processes: int,
        *,
        name: str,
        grace: float = 25.0,
        burst: bool = False,
    ) -> None:
        self._words = list(words)
        self._name = name
        self._grace = grace
        self._burst = burst
        self._starts = [_Start() for _ in range(processes)]
        self._children: list[_Child] = []
        self._codes: list[int] = []
        self._served = False
        self._stops = 0
        self._quiet = False
        self._restart = False
        self._awake, self._bell = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(self._bell, False)

    # Each of these may be called from a signal handler and from any thread.

    def stop(self) -> None:
        """Lets the children finish what they have in hand, then ends; at a second call they give
        it back at once."""
        self._stops += 1
        self._ring()

    def give_back(self) -> None:
        """Lets the children give back at once what they have in hand, then ends."""
        self._stops += 2
        self._ring()

    def quiet(self) -> None:
        """Lets the children, and those that replace them, claim nothing more."""
        self._quiet = True
        self._ring()

    def resume(self) -> None:
        """Lets the children claim again after :meth:`quiet`."""
        self._quiet = False
        self._ring()

    def restart(self) -> None:
        """Lets each child finish what it has in hand, and starts another when it has ended."""
        self._restart = True
        self._ring()

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake up all the same
            os.write(self._bell, b"!")

    def run(self) -> int:
        """Supervises until stopped. To be called in the main thread.

        Returns:
            An exit code: the worst of the children that were not replaced. 0 is best, then 75 (gave
            jobs back), then their other codes; 128 and the number of a signal that killed one.
        """
        signal.signal(signal.SIGCHLD, lambda *_: self._ring())
        while self._children or self._starts:
            self._pass_on()
            self._start_due()
            self._wait()
            for child in list(self._children):
                # In this order: what a dead child said last is heard before its end counts.
                code = child.process.poll()
                for word in child.hear():
                    self._heard(child, word)
                if code is not None:
                    self._ended(child, code)
                elif time.monotonic() >= child.kill_at:
                    logger.error("Worker %s does not end: killing it", child.name)
                    child.kill_at = math.inf
                    child.process.kill()
        return max(self._codes, key=lambda code: (code not in (0, GAVE_BACK), code), default=0)

    def _pass_on(self) -> None:
        """Passes on what the supervisor was told."""
        if self._stops:
            self._starts.clear()
        elif self._restart:
            self._starts = [_Start(relieves=start.relieves) for start in self._starts]
        for child in self._children:
            child.be_quiet(self._quiet)
            if self._stops or self._restart:
                self._finish(child)
            if self._stops > 1:
                child.tell(_GIVE_BACK)
                child.kill_at = min(child.kill_at, time.monotonic() + _MARGIN)
        self._restart = False

    def _finish(self, child: _Child) -> None:
        if _FINISH not in child.told:
            child.tell(_FINISH)
            child.kill_at = time.monotonic() + self._grace + _MARGIN

    def _start_due(self) -> None:
        now = time.monotonic()
        for start in [start for start in self._starts if start.at <= now]:
            self._starts.remove(start)
            taken = {child.number for child in self._children}
            number = next(n for n in itertools.count(1) if n not in taken)
            name = f"{self._name}-{number}"
            try:
                child = _Child(self._words, number, name, start)
            except OSError as error:
                self._again(f"Worker {name} could not be started: {error}", start, quick=True)
                continue
            self._children.append(child)
            child.be_quiet(self._quiet)

    def _wait(self) -> None:
        until = min((start.at for start in self._starts), default=math.inf)
        seconds = max(0.0, min(_LOOK, until - time.monotonic()))
        lines = [child.line for child in self._children if not child.line.closed]
        wait([self._awake, *lines], seconds)
        with suppress(BlockingIOError):
            os.read(self._awake, 4096)

    def _heard(self, child: _Child, word: bytes) -> None:
        if word == _READY:
            self._served = True
            child.ready_at = time.monotonic()
            if child.relieves:
                self._finish(child.relieves)
                child.relieves = None
        elif word == _RELIEVE and not child.replaced and not self._stops:
            child.replaced = True
            self._starts.append(_Start(relieves=child))
        elif word == _LEAVE:
            child.leaves = True

    def _ended(self, child: _Child, code: int) -> None:
        """Sees to the replacement of a child that has ended."""
        self._children.remove(child)
        child.line.close()
        start = _Start(failures=child.failures, relieves=child.relieves)
        if code == -signal.SIGTERM and _FINISH in child.told:
            code = 0  # it had not come as far as to hear of it in another way
        killed, code = code < 0, abs(code) + 128 if code < 0 else code
        end = f"was killed by signal {code - 128}" if killed else f"ended with {code}"
        what = f"Worker {child.name} (process {child.process.pid}) {end}"
        if self._stops:
            self._codes.append(code)
        elif child.leaves:
            logger.warning("%s; it was told to stop", what)
            self._codes.append(code)
        elif child.replaced:
            logger.log(logging.WARNING if code else logging.INFO, "%s; it was relieved", what)
        elif _FINISH in child.told:
            self._starts.append(_Start(relieves=child.relieves))
        elif self._burst and code == 0:
            self._codes.append(0)
        elif code and not killed and not self._served:
            logger.error("%s before any worker could serve: giving up", what)
            self._codes.append(code)
            self.stop()
        else:
            self._again(what, start, quick=time.monotonic() - child.ready_at < _QUICK)

    def _again(self, what: str, start: _Start, quick: bool) -> None:
        """Starts another, the later the more often those before it died quickly."""
        start.failures = start.failures + 1 if quick else 0
        delay = 0.0
        if quick:
            delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** min(start.failures - 1, 16))
        start.at = time.monotonic() + delay
        logger.warning("%s; another starts in %g s", what, delay)
        self._starts.append(start)


class Supervised:
    """A child's end of the line to its supervisor.

    Attributes:
        name: the worker's name.
    """

    def __init__(self, name: str, line: Connection[Any, Any]) -> None:
        self.name = name
        self._line = line
        self._asked = False

    @classmethod
    def from_environment(cls) -> Self | None:
        """The line of this process; ``None`` where it has no supervisor."""
        # Taken away, as processes that the worker starts are not the supervisor's.
        value = os.environ.pop(_VARIABLE, None)
        if value is None:
            return None
        descriptor, _, name = value.partition(":")
        os.set_inheritable(int(descriptor), False)
        return cls(name, Connection(int(descriptor)))

    def ready(self) -> None:
        """Says that the worker serves."""
        self._say(_READY)

    def relieve(self) -> None:
        """Asks for a replacement. When that serves, the supervisor has this worker finish."""
        if not self._asked:
            self._asked = True
            self._say(_RELIEVE)

    def leave(self) -> None:
        """Says that this worker was told to stop and is not to be replaced."""
        self._say(_LEAVE)

    def listen(
        self,
        finish: Callable[[], object],
        give_back: Callable[[], object],
        quiet: Callable[[], object],
        resume: Callable[[], object],
    ) -> None:
        """Calls, from a thread, what the supervisor says; ``finish`` when it has died."""
        acts = {_FINISH: finish, _GIVE_BACK: give_back, _QUIET: quiet, _RESUME: resume}

        def serve() -> None:
            with suppress(EOFError, OSError):
                while True:
                    acts[self._line.recv_bytes()]()
            finish()

        threading.Thread(target=serve, name=f"{self.name}-line", daemon=True).start()

    def _say(self, word: bytes) -> None:
        with suppress(OSError):
            self._line.send_bytes(word)


class Ending:
    """Stops a worker on behalf of several that ask for it; only signals count twice.

    Args:
        stop: the worker's.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._first = threading.Lock()  # never released
        self._signals = 0

    def finish(self) -> None:
        """Lets it finish what it has in hand."""
        if self._first.acquire(blocking=False):
            self._stop()

    def give_back(self) -> None:
        """Lets it give back at once what it has in hand."""
        self.finish()
        self._stop()

    def signalled(self) -> None:
        """Lets it finish, or give back where a signal has asked before."""
        self._signals += 1
        if self._signals == 1:
            self.finish()
        else:
            self.give_back()


def keep_within_limits(
    worker: Worker,
    ending: Ending,
    line: Supervised | None,
    *,
    max_jobs: int | None = None,
    max_memory: int | None = None,
) -> None:
    """Starts a thread that looks once a second what a worker has used.

    A worker ends at a limit. A supervised one asks before to be relieved, at a share of 90 to 97 %.

    Args:
        max_jobs: the worker's own; here only for the sake of the relief.
        max_memory: bytes of this process's resident set.
    """
    jobs, most = max_jobs or math.inf, max_memory or math.inf
    relief = random.uniform(*_RELIEF)

    def watch() -> None:
        memory = 0
        while memory < most:
            time.sleep(_LOOK)
            memory = resident_bytes() if max_memory else 0
            if line and max(worker.claimed / jobs, memory / most) >= relief:
                line.relieve()
        logger.warning(
            "Worker %s uses %.1f MiB of at most %.1f: it finishes what it has in hand",
            worker.name,
            memory / 2**20,
            most / 2**20,
        )
        ending.finish()

    threading.Thread(target=watch, name=f"{worker.name}-limits", daemon=True).start()


def resident_bytes() -> int:
    """This process's resident set; its highest so far where the system does not tell the present
    one."""
    try:
        with Path("/proc/self/statm").open() as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        # In bytes on macOS, in KiB elsewhere; see getrusage(2).
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
