"""Writes the tables of this folder's pages from the code: ``python docs/reference/make.py``.

A table stands between two comments, the first of which names it. ``tests/test_reference.py`` fails
where a page is not what this writes.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import django

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))


def attributes(cls: type) -> dict[str, str]:
    """What a class's docstring says of its attributes."""
    section = (inspect.getdoc(cls) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    found = {}
    for names, text in re.findall(r"^ {4}([\w, ]+): (.+(?:\n {8}.+)*)", section, re.MULTILINE):
        for name in names.split(", "):
            found[name] = prose(text)
    return found


def prose(text: str) -> str:
    """A docstring's words as a page writes them."""
    text = re.sub(r":\w+:`[~.]*([\w.]+)`", r"`\1`", " ".join(text.split()))
    return text.replace("``", "`").replace("|", "\\|")


def table(*rows: tuple[str, ...]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def shown(name: str, value: object) -> str:
    """A default as the settings would say it."""
    if name.endswith("_ms") and isinstance(value, int):
        return f"`{value // 1000}` s"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{value!r}`"


def queue_options() -> str:
    from django_echomq.conf import _QUEUE_OPTIONS
    from django_echomq.queue import QueueOptions

    told, defaults = attributes(QueueOptions), QueueOptions()
    rows = []
    for key in _QUEUE_OPTIONS:
        field = key.lower() if key.lower() in told else f"{key.lower()}_ms"
        default, text = shown(field, getattr(defaults, field)), told[field]
        if key == "KEEP_DEAD":
            # The settings say None where the options have 0.
            default, text = "`None`", text.replace("0 for", "`None` for")
        rows.append((f"`{key}`", default, text))
    return table(("key", "default", "what it says"), *rows)


def schedule_options() -> str:
    from django_echomq.conf import _SCHEDULE_OPTIONS
    from django_echomq.queue.repeat import Definition

    told = attributes(Definition)
    defaults = {field.name: field.default for field in dataclasses.fields(Definition)}
    return table(
        ("key", "default", "what it says"),
        *(
            (f"`{key}`", shown("", defaults[field]), told[field])
            for key, (field, _) in _SCHEDULE_OPTIONS.items()
        ),
    )


def console_options() -> str:
    from django_echomq.conf import _CONSOLE_OPTIONS, ConsoleSettings

    told, defaults = attributes(ConsoleSettings), ConsoleSettings()
    return table(
        ("key", "default", "what it says"),
        *(
            (f"`{key}`", shown("", getattr(defaults, key.lower())), told[key.lower()])
            for key in _CONSOLE_OPTIONS
        ),
    )


def errors() -> str:
    import django_echomq
    from django_echomq.wire.errors import EchoMQError

    def below(cls: type[EchoMQError]) -> Iterator[type[EchoMQError]]:
        yield cls
        for each in cls.__subclasses__():
            if each.__module__ == cls.__module__:
                yield from below(each)

    rows = []
    for cls in below(EchoMQError):
        home = "django_echomq" if cls.__name__ in django_echomq.__all__ else cls.__module__
        bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
        word = cls.__dict__.get("wire_class")
        said = prose((cls.__doc__ or "").partition("\n\n")[0])
        rows.append((f"`{cls.__name__}`", bases, f"`{word}`" if word else "", said, f"`{home}`"))
    return table(("error", "is also", "on the wire", "what it says", "import from"), *rows)


def permissions() -> str:
    from django_echomq.models import Queue

    return table(
        ("permission", "who has it"),
        *((f"`django_echomq.{name}`", str(text).lower()) for name, text in Queue._meta.permissions),
    )


def names() -> str:
    import django_echomq

    rows = []
    for name in django_echomq.__all__:
        if name != "__version__":
            text = (inspect.getdoc(getattr(django_echomq, name)) or "").partition("\n\n")[0]
            rows.append((f"`{name}`", prose(text)))
    return table(("name", "what it is"), *rows)


def modules() -> str:
    rows = []
    for name in (
        "django_echomq.queue",
        "django_echomq.testing",
        "django_echomq.conformance",
        "django_echomq.contrib.celery",
    ):
        exported = importlib.import_module(name).__all__
        rows.append((f"`{name}`", ", ".join(f"`{each}`" for each in sorted(exported))))
    return table(("module", "names"), *rows)


TABLES: dict[str, Callable[[], str]] = {
    "queue options": queue_options,
    "schedule options": schedule_options,
    "console options": console_options,
    "errors": errors,
    "permissions": permissions,
    "names": names,
    "modules": modules,
}
_PLACE = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with its tables as the code has them now."""
    return _PLACE.sub(lambda match: f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}", page)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    for path in sorted(FOLDER.glob("*.md")):
        path.write_text(filled(path.read_text()))
