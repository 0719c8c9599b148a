"""Django's Tasks API on top of the queue."""
