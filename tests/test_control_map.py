"""The control map of ``docs/index.md`` beside the scripts and the verbs that there are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import redis

from django_echomq.queue import Queue
from django_echomq.wire.client import _NODES_KEY
from django_echomq.wire.scripts import script
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "index.md").read_text()
SCRIPTS = {
    path.relative_to(ROOT / "lua").with_suffix("").as_posix()
    for path in (ROOT / "lua").rglob("*.lua")
    if path.parent.name != "lib"
}

NODES = _NODES_KEY.decode()


class Row(NamedTuple):
    control: str
    verbs: str
    touches: str
    effect: str
    script: str


ROWS = [
    Row(*(cell.strip() for cell in line.strip("|").split(" | ")))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| control")
]
NAMED = [row for row in ROWS if row.script.startswith("[")]


def script_of(row: Row) -> str:
    match = re.fullmatch(r"\[([\w/]+)\]\(\.\./lua/([\w/]+)\.lua\)", row.script)
    assert match, row
    assert match[1] == match[2], row
    return match[1]


def verbs_of(row: Row) -> list[tuple[str, str]]:
    """The verbs of a row, as scope and name; what follows one without its scope has the same."""
    found, scope = [], ""
    for text in re.findall(r"`([^`]+)`", row.verbs):
        if match := re.fullmatch(r"queue\.(\w+)\.(\w+)\(\)", text):
            scope, name = match.groups()
        elif scope and (match := re.fullmatch(r"(\w+)\(\)", text)):
            name = match[1]
        else:
            scope = ""
            continue
        found.append((scope, name))
    return found


class Module:
    """What each function of a module of the queue names: scripts, and other functions."""

    def __init__(self, name: str) -> None:
        self.scripts: dict[str, set[str]] = {}
        self.calls: dict[str, set[str]] = {}
        tree = ast.parse((ROOT / "django_echomq" / "queue" / f"{name}.py").read_text())
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                nodes = list(ast.walk(function))
                self.scripts[function.name] = {
                    str(node.value) for node in nodes if isinstance(node, ast.Constant)
                } & SCRIPTS
                self.calls[function.name] = {
                    node.attr for node in nodes if isinstance(node, ast.Attribute)
                }


MODULES = {
    name: Module(name)
    for name in ("jobs", "admin", "lanes", "repeat", "metrics", "stalled", "workers")
}


def reached(scope: str, verb: str) -> set[str]:
    """The scripts that a verb may call, itself or by way of others."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    left = [(scope, verb)]
    while left:
        at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        module, name = at
        found |= MODULES[module].scripts.get(name, set())
        for called in MODULES[module].calls.get(name, ()):
            if called in MODULES[module].scripts:
                left.append((module, called))
            elif called == "drain_places":
                left.append(("admin", called))
    return found


def test_the_first_lines_work(site: Callable[[str], Queue]) -> None:
    queue = site("mail")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(block, {})
    assert queue.admin.is_paused()


def test_each_script_is_on_the_map_once() -> None:
    named = Counter(map(script_of, NAMED))
    assert set(named) == SCRIPTS
    assert not [name for name, times in named.items() if times > 1]


def test_a_row_without_a_script_names_the_row_that_has_it() -> None:
    controls = {row.control for row in NAMED}
    for row in ROWS:
        if row not in NAMED:
            match = re.fullmatch(r"as \*(\w+)\*", row.script)
            assert match, row
            assert match[1] in controls, row


def test_the_verbs_of_a_row_call_its_script() -> None:
    queue = Queue("mail", redis.Redis())  # asked nothing
    for row in NAMED:
        for scope, name in verbs_of(row):
            assert callable(getattr(getattr(queue, scope), name)), row
            assert script_of(row) in reached(scope, name), row


def test_the_script_of_a_row_names_what_it_touches() -> None:
    for row in NAMED:
        code = re.sub(r"--.*", "", script(script_of(row)).text.decode())
        words = re.findall(r"'([^'\n]*)'", code)
        structures = re.findall(r"`([^`]+)`", row.touches)
        assert structures or row.touches in ("every key of the queue", "the set of the state"), row
        if structures == [NODES]:
            continue  # the only script whose key does not come from a queue's base
        for structure in structures:
            # `g:<lane>:pending` is put together from 'g:' and ':pending'.
            for part in filter(None, re.split(r"<\w+>|\*", structure)):
                assert any(part in word for word in words), (row, structure)
