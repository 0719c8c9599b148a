"""The systems that ``benchmarks/compare.py`` compares, and how each is measured.

A module named for a system holds its no-op and what sends it, for two processes: its worker, which
is started as the system's documentation says, and :mod:`peers.drive`, which sends:

``enqueue(number, sent)``
    sends one no-op; a coroutine function where the system's client is one.
``enqueue_many(numbers, sent)``
    the system's own bulk call, where it has one.
``enqueue_nap(number, sent)``
    sends a coroutine that sleeps for :data:`peers.effects.NAP`, where the system runs coroutines.
``open_client()``
    a coroutine function that is awaited first, where the client needs one.

Every job, of whatever system, does the same: :func:`peers.effects.effect`.
"""
