"""Floor 0: talks to Valkey. Knows keys, ids, scripts, clients and wire errors. Needs no Django."""

__version__ = "0.1.0"
