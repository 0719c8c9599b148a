"""EchoMQ's conformance scenarios, played against a server.

Each plays on a queue of its own, ``conformance.<run>.<name>``, which is obliterated whatever
happens; nothing else on the server is touched. Nothing here needs Django.
"""

from .run import NAMES, NOT_SERVED, Result, Verdict, run

__all__ = ["NAMES", "NOT_SERVED", "Result", "Verdict", "run"]
