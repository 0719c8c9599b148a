"""The loop that claims, runs and settles jobs. Needs no Django."""

from .consumer import Stopped, Worker
from .hand import Hand, Handler
from .promoter import Promoter

__all__ = ["Hand", "Handler", "Promoter", "Stopped", "Worker"]
