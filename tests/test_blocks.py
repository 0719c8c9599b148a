"""Every block of code on every page is run by its page's own test, or checked here by its kind."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
import yaml
from django.conf import settings
from django.core.management import CommandError, get_commands, load_command_class
from django.test import override_settings

from django_echomq.conf import read_settings
from tests.conftest import ROOT

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
#: Programs of others, which the pages call beside ours.
PROGRAMS = {
    *("pip", "twine", "docker", "valkey-cli", "systemctl", "mkdocs", "bash"),
    *("django-admin", "python3", "."),
}


class Block(NamedTuple):
    page: Path
    language: str
    text: str

    @property
    def id(self) -> str:
        line = self.page.read_text().partition(self.text)[0].count("\n")
        return f"{self.page.relative_to(ROOT)}:{line + 1}"


def blocks_of(page: Path) -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        yield Block(page, language, text)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of(*languages: str) -> pytest.MarkDecorator:
    chosen = [block for block in BLOCKS if block.language in languages]
    return pytest.mark.parametrize("block", chosen, ids=lambda block: block.id)


def is_valkey_conf(block: Block) -> bool:
    return block.text.startswith("# /etc/valkey/")


# Commands


def commands(text: str) -> Iterator[str]:
    """The command lines, whole, without what is said beside them."""
    for line in text.replace("\\\n", " ").splitlines():
        if match := re.match(r"(?:[$#] |(?=manage\.py))(.+?)(?:\s{3,}# .*)?$", line):
            yield re.sub(r"^(?:[A-Z_]+=\S+ )+", "", match[1])


def check_command(words: list[str]) -> None:
    program, *rest = words
    if program == "python" and rest[0] == "-c":
        exec(compile(rest[1], "<page>", "exec"), {})
        return
    if program == "python" and rest[0] != "-m":
        program, *rest = rest
    if program == "manage.py":
        check_manage(*rest)
    elif program == "make":
        goals = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in rest if "=" not in word} <= set(goals), rest
    elif program.endswith(".py"):
        assert (ROOT / program).is_file(), program
    elif program == "python" and rest[:2] == ["-m", "pytest"]:
        assert not [word for word in rest if word.startswith("tests/") and not Path(word).exists()]
    else:
        assert program in PROGRAMS or program == "python", words


def check_manage(name: str, *arguments: str) -> None:
    home = get_commands().get(name)
    assert home, f"there is no command {name}"
    command = home if not isinstance(home, str) else load_command_class(home, name)
    parser = command.create_parser("manage.py", name)
    try:
        parser.parse_args(list(arguments))
    except CommandError as error:
        raise AssertionError(f"manage.py {name} {shlex.join(arguments)}: {error}") from error


@of("console", "sh")
def test_every_command_is_understood(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = [shlex.split(line) for line in commands(block.text)]
    assert found, "no line begins with '$ '"
    for words in found:
        check_command(words)


# Python


@of("python")
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.id, "exec", dont_inherit=True)


WHOLE = [
    block
    for block in BLOCKS
    if block.language == "python" and re.search(r"^ECHOMQ = ", block.text, re.MULTILINE)
]


@pytest.mark.parametrize("block", WHOLE, ids=lambda block: block.id)
def test_settings_are_sound(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOMQ_PASSWORD", "sesame")
    monkeypatch.setenv("SENTINEL_PASSWORD", "open")
    names: dict[str, Any] = {"os": os, "BASE_DIR": settings.BASE_DIR, "INSTALLED_APPS": []}
    exec(compile(block.text, block.id, "exec"), names)
    with override_settings(ECHOMQ=names["ECHOMQ"]):
        assert [problem.message for problem in read_settings().problems] == []


# What others read


def worker_arguments(value: Any) -> Iterator[list[str]]:
    """The command lines of workers anywhere in a manifest."""
    if isinstance(value, dict):
        if "echomq_worker" in (value.get("command") or []):
            yield [*value["command"], *value.get("args", [])]
        for each in value.values():
            yield from worker_arguments(each)
    elif isinstance(value, list):
        for each in value:
            yield from worker_arguments(each)


@of("yaml")
def test_yaml_is_read(block: Block) -> None:
    for document in yaml.safe_load_all(block.text):
        assert isinstance(document, dict)
        for words in worker_arguments(document):
            check_command(words)
        if document.get("kind") == "Deployment":
            pod = document["spec"]["template"]
            assert document["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
            volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
            for container in pod["spec"]["containers"]:
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@of("ini")
def test_units_are_read(block: Block) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block.text)
    words = shlex.split(unit["Service"]["ExecStart"])
    check_command(["python", *words[1:]])


@of("dockerfile")
def test_dockerfiles_are_read(block: Block) -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    for line in block.text.splitlines():
        word, _, rest = line.partition(" ")
        assert word in known, line
        if word in ("CMD", "ENTRYPOINT"):
            check_command(json.loads(rest))  # the list form


@pytest.mark.parametrize("block", list(filter(is_valkey_conf, BLOCKS)), ids=lambda block: block.id)
def test_the_server_knows_each_setting(block: Block, raw: redis.Redis) -> None:
    lines = [line for line in block.text.splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        name, _, value = line.partition(" ")
        now = raw.config_get(name)
        assert list(now) == [name], f"there is no setting {name}"
        raw.config_set(name, value)
        raw.config_set(name, now[name])


def test_every_kind_of_block_is_checked() -> None:
    counts = Counter(block.language or "plain" for block in BLOCKS)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    sys.stdout.write(f"\n{len(BLOCKS)} blocks on {len(PAGES)} pages: {kinds}\n")
    known = {"python", "console", "sh", "yaml", "ini", "dockerfile"}
    # Nothing runs or reads these: pictures in letters, rights (tests/test_security.py), output.
    unread = {"plain", "text"}
    assert set(counts) <= known | unread, "give the block one of these languages, or a check here"


# Commands in the middle of a sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_exist(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for text in re.findall(r"`manage\.py ([^`]+)`", prose):
        name, *words = text.split()
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        known = parser.format_help()
        verbs = [
            action.choices for action in parser._actions if action.dest == "verb" and action.choices
        ]
        if verbs and words and re.fullmatch(r"[a-z]+", words[0]):
            assert words[0] in verbs[0], text
            known += verbs[0][words[0]].format_help()
        for option in re.findall(r"--[a-z-]+", text):
            assert option in known, text
