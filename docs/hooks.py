"""Takes into the site what stands beside ``docs``: the pages of the root, and each script.

A page's links lead out of ``docs`` as GitHub follows them; on the site they lead to the copies.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in PAGES:
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(_beside(config, name, text))
    for script in sorted((ROOT / "lua").rglob("*.lua")):
        name = script.relative_to(ROOT / "lua").with_suffix("").as_posix()
        files.append(_beside(config, f"lua/{name}.md", _page_of(name, script.read_text())))
    return files


def _beside(config: MkDocsConfig, name: str, text: str) -> File:
    return File.generated(config, name, content=text, inclusion=InclusionLevel.NOT_IN_NAV)


def _page_of(name: str, text: str) -> str:
    fragments = re.findall(r"^-- @splice (lib/\w+)$", text, re.MULTILINE)
    links = ", ".join(f"[{fragment}](../{fragment}.md)" for fragment in fragments)
    parts = [f"# {name}", links and f"Spliced in: {links}.", f"```lua\n{text}```"]
    return "\n\n".join(part for part in parts if part) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    # From a folder deeper by one each "../" more leads to the root, where the site has one less.
    up = "../" * page.file.src_uri.count("/")
    out = rf"\]\({re.escape(up)}\.\./((?:{'|'.join(map(re.escape, PAGES))})|lua/[\w/]+)(?:\.lua)?\)"

    def into(match: re.Match[str]) -> str:
        name = match[1]
        return f"]({up}{name if name.endswith('.md') else name + '.md'})"

    return re.sub(out, into, markdown)
