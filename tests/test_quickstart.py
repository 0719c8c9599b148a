"""``docs/learn/ten-minutes.md``, typed into an empty folder as it is written, with the wheel."""

from __future__ import annotations

import http.cookiejar
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import django
import pytest

from tests.conftest import ROOT, wait_until
from tests.ports import free_port, listens
from tests.test_packaging import build

PAGE = (ROOT / "docs" / "learn" / "ten-minutes.md").read_text()
BLOCKS = re.findall(r"^```(console|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(django.VERSION < (6, 0), reason="pip brings the newest Django all the same"),
    pytest.mark.skipif("PIP_NO_INDEX" in os.environ, reason="pip has no index"),
]


class Reader:
    """Somebody who types the page in."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder / "shop"
        self.folder.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        python = programs / "python3"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        self._wheel = wheel
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DJANGO", "ECHOMQ", "PYTHON", "PYTEST", "VIRTUAL_ENV"))
        }
        self._environment = {
            **clean,
            "PATH": f"{programs}{os.pathsep}{clean['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self.log = folder / "log"
        self._left: list[subprocess.Popen[bytes]] = []

    def _shell(self, line: str) -> list[str]:
        inside = "[ ! -e .venv ] || . .venv/bin/activate"
        return ["bash", "-c", f"{inside}\n{line}"]

    def types(self, line: str) -> str:
        # Of this checkout, not of an index.
        line = line.replace("'django-echomq[", f"'{self._wheel}[")
        done = subprocess.run(
            self._shell(line),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def leaves_running(self, line: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                self._shell(f"exec {line}"),
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._left.append(started)
        return started

    def writes(self, block: str) -> None:
        head, _, text = block.partition("\n")
        path = self.folder / head.removeprefix("# ")
        if path.name == "settings.py":  # at its end
            text = f"{path.read_text()}\n{text}"
        path.write_text(text)

    def waits_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.log.read_text().count(text) >= times, text)

    def stops(self) -> None:
        for process in self._left:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, build("wheel", tmp_path / "dist"))
    yield reader
    reader.stops()


def console_page(port: int, password: str) -> str:
    """The list of queues, after a login."""
    site = f"http://127.0.0.1:{port}"
    cookies = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    address = f"{site}/admin/login/?next=/admin/django_echomq/queue/"
    with browser.open(address) as answer:
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', answer.read().decode())
    form = {"csrfmiddlewaretoken": token, "username": "admin", "password": password}
    with browser.open(address, urllib.parse.urlencode(form).encode()) as answer:
        assert answer.url.endswith("/queue/"), answer.url
        return str(answer.read().decode())


@pytest.mark.once
@pytest.mark.timeout(1_200)
def test_the_page_from_its_first_line_to_its_last(reader: Reader) -> None:
    port = free_port()
    said: dict[str, str] = {}
    for kind, text in BLOCKS:
        if kind == "python":
            reader.writes(text)
            continue
        for line in text.splitlines():
            line = line.removeprefix("$ ")
            if line.endswith("echomq_worker"):
                worker = reader.leaves_running(line)
                reader.waits_for("a welcome to ada@example.com")
                reader.waits_for("dead")
            elif line.endswith("runserver"):
                reader.leaves_running(f"{line} {port} --noreload")
                wait_until(lambda: listens(port), "the site")
            else:
                said[line] = reader.types(line)

    sent = [text.split()[-1] for line, text in said.items() if "enqueue" in line]
    (dead,) = (text for line, text in said.items() if "--state dead" in line)
    assert sent[0] not in dead
    assert sent[1] in dead
    assert "KeyError: 8" in dead
    (password,) = re.findall(r"DJANGO_SUPERUSER_PASSWORD=(\w+)", PAGE)
    page = re.sub(r"<[^>]+>|\s+", " ", console_page(port, password))
    assert " Dead 1 " in re.sub(" +", " ", page)

    for command in re.findall(r"`manage\.py (echomq (?:edit|retry) [^`]+)`", PAGE):
        reader.types(f"python manage.py {command.replace('ID', sent[1])}")
    reader.waits_for("a welcome to ada@example.com", times=2)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(60) == 0
