"""The README's code runs as it stands there: a new project, no setting of EchoMQ's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import django
import pytest

from tests.conftest import ROOT, wait_until

README = (ROOT / "README.md").read_text()


def snippets() -> tuple[str, str, str]:
    """The parts of the first code block: settings, tasks, use."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    match = re.fullmatch(
        r"# settings\.py\n(.*?)\n# mail/tasks\.py\n(.*?)\n# anywhere\n(.*)", block, re.DOTALL
    )
    assert match, block
    settings, tasks, use = match.groups()
    if django.VERSION < (6, 0):
        # As the comment of that line says.
        tasks = tasks.replace("from django.tasks import", "from django_tasks import")
    return settings, tasks, use


@pytest.fixture
def project(tmp_path: Path) -> Path:
    run(tmp_path, "-m", "django", "startproject", "config", ".")
    run(tmp_path, "manage.py", "startapp", "mail")
    settings, tasks, _ = snippets()
    with (tmp_path / "config" / "settings.py").open("a") as file:
        file.write("\n" + settings.replace("[...,", "[*INSTALLED_APPS, 'mail',"))
    (tmp_path / "mail" / "tasks.py").write_text(tasks)
    return tmp_path


def run(folder: Path, *args: str) -> str:
    env = {name: value for name, value in os.environ.items() if "DJANGO" not in name}
    done = subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_screen_works_literally(project: Path) -> None:
    _, _, use = snippets()
    assert "no issues" in run(project, "manage.py", "check")
    setup = (
        "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings'; "
        "django.setup(); from mail.tasks import send_welcome\n"
    )
    use = use.strip().replace("send_welcome", "result = send_welcome", 1)
    job_id = run(project, "-c", f"{setup}{use}\nprint(result.id)").split()[-1]
    assert "stopped after 1 jobs" in run(project, "manage.py", "echomq_worker", "--burst")
    told = run(project, "-c", f"{setup}print(send_welcome.get_result({job_id!r}).status)")
    assert told.split()[-1] == "SUCCESSFUL"
    assert oct((project / ".valkey").stat().st_mode)[-3:] == "700"
    wait_until(
        lambda: not (project / ".valkey" / "valkey.sock").exists(), "the embedded server to stop"
    )


def test_the_pages_it_names_are_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
