"""The fixture of the checks: a worker, in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent
ECHO = os.environ["APPS_ENGINE"] == "echomq"

if not ECHO:
    import site_celery  # noqa: F401 - shared tasks belong to the app that was made last

QUEUES = ("default", "mail", "feeds")
COMMAND = (
    ("-m", "django", "echomq_worker", *QUEUES)
    if ECHO
    else ("-m", "celery", "-A", "site_celery", "worker", "-c2", "-Qcelery,mail,feeds", "-lWARNING")
)


@pytest.fixture(scope="session")
def worker():
    with (RUN / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *COMMAND], cwd=RUN, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
            assert not (ECHO and "celery" in sys.modules)
        finally:
            process.terminate()
            process.wait(30)
