"""The transitions: one Lua file each, shared fragments spliced in, known to the server by SHA-1.

A line ``-- @splice lib/ring`` stands for the text of ``lua/lib/ring.lua``. A fragment that several
fragments ask for is spliced once, before its first use. Inside a function, what is spliced is made
only where the function is called: each function of a script costs time on every call.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_BASE_ENDS = "-- Base ends.\n"
_SPLICE = re.compile(r"^ *-- @splice (\S+)$", re.MULTILINE)


class Script(NamedTuple):
    """A transition: its name below ``lua/``, its whole text, and the SHA-1 of that text."""

    name: str
    text: bytes
    sha: bytes


@cache
def lua_folder() -> Path:
    """Where the transitions lie: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "lua", package.parent / "lua"):
        if (folder / "lib").is_dir():
            return folder
    raise FileNotFoundError(
        f"the Lua transitions of django-echomq are missing beside {package}: reinstall the package"
    )


def _splice(name: str, seen: set[str]) -> str:
    text = (lua_folder() / f"{name}.lua").read_text(encoding="utf-8")

    def fragment(match: re.Match[str]) -> str:
        wanted = match[1]
        if wanted in seen:
            return ""
        seen.add(wanted)
        return _splice(wanted, seen)

    return _SPLICE.sub(fragment, text)


def _nested(text: str) -> str:
    """Puts what follows the base into a function of its own, which has found the base once; in one
    function each reference of a function to it would be looked for on every call."""
    base, mark, rest = text.partition(_BASE_ENDS)
    return f"{base}return (function()\n{rest}\nend)()\n" if mark else text


@cache
def script(name: str) -> Script:
    """The transition of that name, for example ``jobs/enqueue``."""
    text = _nested(_splice(name, set())).encode()
    return Script(name, text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())
