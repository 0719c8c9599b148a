"""The example site: its demo, run as a newcomer runs it."""

from __future__ import annotations

import ast
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import time
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.ports import free_port

EXAMPLE = Path(__file__).resolve().parent.parent / "example_project"
STDLIB = Path(sysconfig.get_paths()["stdlib"])
FILES = 150

pytestmark = pytest.mark.timeout(900)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Starts ``manage.py demo`` with its data in a folder of its own."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "example.settings",
        "EXAMPLE_DATA_DIR": str(folder),
    }
    environment.pop("ECHOMQ_URL", None)
    return subprocess.Popen(
        [sys.executable, EXAMPLE / "manage.py", "demo", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(demo: subprocess.Popen[str]) -> str:
    output, _ = demo.communicate(timeout=800)
    return output


def query(folder: Path, sql: str) -> list[tuple]:
    with closing(sqlite3.connect(folder / "db.sqlite3", timeout=20)) as database:
        return database.execute(sql).fetchall()


def poll(condition: Callable[[], object], demo: subprocess.Popen[str]) -> None:
    """Waits for a condition, for as long as the demo runs and at most two minutes."""
    deadline = time.monotonic() + 120
    while not condition():
        assert demo.poll() is None, finish(demo)
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def parses(path: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse((STDLIB / path).read_bytes())
        except (SyntaxError, ValueError):
            return False
    return True


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a demo that has ended."""
    folder = tmp_path_factory.mktemp("example")
    process = start(folder, "--exit", "--limit", str(FILES))
    output = finish(process)
    assert process.returncode == 0, output
    return folder, output


def test_demo_prints_a_summary(demo: tuple[Path, str]) -> None:
    folder, output = demo
    lines = [line.split(None, 2) for line in output.splitlines()]
    assert ["Files", "analysed", str(FILES)] in lines
    assert "100 %" in output
    assert "RuntimeError: This never works." in output
    assert str(folder / "demo.log") in output


def test_each_file_is_analysed_once(demo: tuple[Path, str]) -> None:
    rows = query(demo[0], "select path, runs, bytes, analysed_at from stdlib_sourcefile")
    assert len({path for path, *_ in rows}) == FILES
    assert {runs for _, runs, *_ in rows} == {1}
    assert all(size == (STDLIB / path).stat().st_size for path, _, size, _ in rows)
    assert all(analysed_at for *_, analysed_at in rows)


def test_files_that_do_not_parse_are_kept_with_their_error(demo: tuple[Path, str]) -> None:
    rows = query(demo[0], "select path, error from stdlib_sourcefile")
    assert {path for path, error in rows if error} == {path for path, _ in rows if not parses(path)}
    if (STDLIB / "test" / "tokenizedata" / "bad_coding.py").exists():  # some systems leave it out
        assert dict(rows)["test/tokenizedata/bad_coding.py"] == "unknown encoding: uft-8"


@pytest.mark.parametrize(
    ("task", "outcomes"),
    [
        ("flaky", ["failed", "failed", "succeeded"]),
        ("broken", ["failed", "failed", "failed"]),
        ("delayed", ["succeeded"]),
        ("long_report", ["succeeded"]),
    ],
)
def test_attempts(task: str, outcomes: list[str], demo: tuple[Path, str]) -> None:
    rows = query(
        demo[0],
        f"select outcome, number from stdlib_attempt where task = '{task}' order by number",
    )
    assert rows == [(outcome, number) for number, outcome in enumerate(outcomes, 1)]


def test_an_interrupted_demo_ends_its_worker_and_the_next_one_is_whole(tmp_path: Path) -> None:
    first = start(tmp_path, "--exit", "--limit", str(FILES))

    def halfway() -> bool:
        try:
            return query(tmp_path, "select count(*) > 5 from stdlib_sourcefile where runs") == [
                (1,)
            ]
        except sqlite3.OperationalError:  # the table is not there yet
            return False

    poll(halfway, first)
    children = psutil.Process(first.pid).children()
    assert children
    first.send_signal(signal.SIGTERM)
    output = finish(first)
    assert first.returncode == 130, output
    assert "Interrupted." in output
    assert not [child for child in children if child.is_running()]

    second = start(tmp_path, "--exit", "--limit", "20")
    output = finish(second)
    assert second.returncode == 0, output
    assert "left from an earlier demo" in output
    assert query(tmp_path, "select count(*), max(runs) from stdlib_sourcefile") == [(20, 1)]


def test_demo_serves_the_page_until_it_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    process = start(tmp_path, "--limit", "10", "--port", str(port))

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as response:
            return response.read().decode()

    def done() -> bool:
        try:
            return ">done<" in get("/live/")
        except OSError:  # the site is not there yet
            return False

    poll(done, process)
    page = get("/")
    assert "<strong>10</strong> of 10 files analysed" in page
    assert "This never works." in page
    assert "setTimeout" in get("/static/stdlib/refresh.js")

    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    process.send_signal(signal.SIGTERM)
    output = finish(process)
    assert process.returncode in {0, 130}, output
    assert not [child for child in children if child.is_running()]


def test_a_port_in_use_is_refused_at_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(tmp_path, "--port", str(taken.getsockname()[1]))
        output = finish(process)
    assert process.returncode == 1
    assert "is in use: choose another with --port" in output
    assert not list(tmp_path.iterdir())


def test_examples_in_the_analysis() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "doctest", EXAMPLE / "stdlib" / "analysis.py"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert (done.returncode, done.stdout) == (0, "")
