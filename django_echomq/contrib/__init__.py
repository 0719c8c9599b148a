"""Doors from other job queues."""
