"""The verbs of ``manage.py echomq``, one module per scope. Each prints what a verb of ``queue/``
answers."""
