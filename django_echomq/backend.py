"""Where ``TASKS`` finds the backend."""

from .tasks.backend import EchoMQBackend

__all__ = ["EchoMQBackend"]
