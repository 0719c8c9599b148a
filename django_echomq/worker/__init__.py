"""The loop that claims, runs and settles jobs. Needs no Django."""

from .consumer import Handler, Stopped, Worker
from .promoter import Promoter

__all__ = ["Handler", "Promoter", "Stopped", "Worker"]
