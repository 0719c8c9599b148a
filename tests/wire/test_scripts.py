"""The Lua transitions: how they are put together, and the rules that each keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.wire.scripts import lua_folder, script
from tests.wire.monitor import recorded

FOLDER = lua_folder()
PACKAGE = Path(__file__).resolve().parents[2] / "django_echomq"


def names(inside_lib: bool) -> list[str]:
    found = (path.relative_to(FOLDER).with_suffix("") for path in FOLDER.rglob("*.lua"))
    return sorted(str(name) for name in found if (name.parts[0] == "lib") is inside_lib)


TRANSITIONS = names(inside_lib=False)
FRAGMENTS = names(inside_lib=True)


def source(name: str) -> str:
    return (FOLDER / f"{name}.lua").read_text(encoding="utf-8")


def header(name: str) -> str:
    """The comment that a file opens with."""
    lines = []
    for line in re.sub(r"^#!.*\n", "", source(name)).splitlines():
        if not line.startswith("--") or line.startswith("-- @splice"):
            break
        lines.append(line)
    return "\n".join(lines)


def wanted(name: str) -> set[str]:
    """The fragments that a file asks for, and those that they ask for."""
    found = set(re.findall(r"^ *-- @splice (\S+)$", source(name), re.MULTILINE))
    return found.union(*(wanted(each) for each in found))


def code(text: str) -> str:
    """The text without its comments."""
    return re.sub(r"--.*", "", text)


def test_there_are_transitions_and_fragments() -> None:
    assert "jobs/enqueue" in TRANSITIONS
    assert "lib/base" in FRAGMENTS


@pytest.mark.parametrize("name", TRANSITIONS)
def test_no_splice_line_is_left_over(name: str) -> None:
    assert b"@splice" not in script(name).text


@pytest.mark.parametrize("name", TRANSITIONS)
def test_each_fragment_is_spliced_once(name: str) -> None:
    text = script(name).text.decode()
    for fragment in wanted(name):
        functions = re.findall(r"^local function \w+\(.*$", source(fragment), re.MULTILINE)
        assert functions, f"{fragment} has no function to recognise it by"
        assert [text.count(line + "\n") for line in functions] == [1] * len(functions)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_no_fragment_comes_along_that_nobody_asked_for(name: str) -> None:
    text = script(name).text.decode()
    for fragment in set(FRAGMENTS) - wanted(name):
        function = re.search(r"^local function \w+\(", source(fragment), re.MULTILINE)
        assert function is not None
        assert function[0] not in text


@pytest.mark.parametrize("name", TRANSITIONS)
def test_what_a_script_calls_is_known_where_it_calls_it(name: str) -> None:
    known = {"call", "try", "tonumber", "tostring", "type", "ipairs", "pairs", "unpack", "error"}
    text = re.sub(r"'(\\.|[^'\\])*'", "''", code(script(name).text.decode()))
    known |= {"pcall", "collectgarbage"}
    words = {"function", "if", "and", "or", "not", "return", "while", "until", "elseif"}
    names = r"(\w+(?:, \w+)*)"
    for match in re.finditer(
        rf"(?:local )?function ?(\w*)\(([\w, .]*)\)|(?:local|for) {names}|(?<![\w.:])(\w+)\(", text
    ):
        function, parameters, made, called = match.groups()
        known.update(re.findall(r"\w+", f"{function} {parameters} {made}"))
        assert called is None or called in known | words


@pytest.mark.parametrize("name", TRANSITIONS)
def test_the_server_knows_a_script_by_the_same_sha(name: str, raw: redis.Redis) -> None:
    made = script(name)
    assert raw.script_load(made.text).encode() == made.sha


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_opens_with_its_keys_and_its_reply(name: str) -> None:
    opening = header(name)
    assert re.match(r"-- \w", opening)
    assert "KEYS  1 " in opening
    assert "Reply " in opening


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_names_every_argument_that_it_reads(name: str) -> None:
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", code(source(name)))}
    if used:
        assert "ARGV  1 " in header(name)
        named = {int(n) for n in re.findall(r"(?:^|\s)(\d+)(?:\.\.)? [^\d\s]", header(name))}
        assert used <= named


@pytest.mark.parametrize("name", TRANSITIONS + FRAGMENTS)
def test_a_script_never_walks_the_keyspace(name: str) -> None:
    commands = {word.upper() for word in re.findall(r"call\(\s*'(\w+)'", code(source(name)))}
    assert not commands & {"KEYS", "SCAN", "RANDOMKEY", "FLUSHDB", "FLUSHALL"}


@pytest.mark.parametrize("name", TRANSITIONS + FRAGMENTS)
def test_a_script_takes_time_and_chance_from_the_server_only(name: str) -> None:
    assert not re.search(r"\bos\.|\bmath\.random", code(source(name)))


@pytest.mark.parametrize("name", TRANSITIONS + FRAGMENTS)
def test_a_script_declares_one_key_and_builds_the_others_from_it(name: str) -> None:
    text = code(source(name))
    assert set(re.findall(r"KEYS\[(.+?)\]", text)) <= {"1"}
    assert "emq:{" not in text


def test_the_package_names_no_script_that_is_not_there() -> None:
    folders = "|".join(sorted({name.split("/")[0] for name in TRANSITIONS + FRAGMENTS}))
    asked = set()
    for path in PACKAGE.rglob("*.py"):
        asked |= set(re.findall(rf'"((?:{folders})/\w+)"', path.read_text(encoding="utf-8")))
    assert asked
    assert asked <= set(TRANSITIONS)


def test_a_script_is_read_once() -> None:
    assert script("jobs/enqueue") is script("jobs/enqueue")


def test_an_unknown_script_is_refused() -> None:
    with pytest.raises(FileNotFoundError):
        script("jobs/no_such_thing")


def test_a_script_travels_as_its_sha_and_one_key(queue: Queue, raw: redis.Redis) -> None:
    queue.metrics.is_maxed()
    with recorded(raw) as recording:
        queue.metrics.is_maxed()
        (sent,) = recording.sent()
    assert sent == f"EVALSHA {script('metrics/is_maxed').sha.decode()} 1 emq:{{{queue.name}}}:"
