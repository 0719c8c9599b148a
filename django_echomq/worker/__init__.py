"""The loop that claims, runs and settles jobs. Needs no Django."""

from .batches import Batch, BatchConsumer
from .consumer import Stopped, Worker
from .hand import Hand, Handler
from .promoter import Promoter

__all__ = ["Batch", "BatchConsumer", "Hand", "Handler", "Promoter", "Stopped", "Worker"]
