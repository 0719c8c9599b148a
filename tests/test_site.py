"""The documentation site builds strictly and offline; every link inside leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import ROOT

pytest.importorskip("mkdocs", reason="the extra docs is not installed")


class Html(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loads.append(values["href"])
        elif "src" in values:
            self.loads.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}\nA page that is not in the nav has to be put into `nav` of "
        "mkdocs.yml, on its shelf."
    )
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    return {path: Html(path.read_text()) for path in site.rglob("*.html")}


def outside(target: str) -> bool:
    return bool(urlsplit(target).scheme or urlsplit(target).netloc)


def broken(site: Path, pages: dict[Path, Html], page: Path, targets: list[str]) -> Iterator[str]:
    for target in targets:
        if outside(target):
            continue
        parts = urlsplit(target)
        path = unquote(parts.path)
        other = (site / path[1:] if path.startswith("/") else page.parent / path).resolve()
        if not path:
            other = page
        elif other.is_dir():
            other /= "index.html"
        if not other.is_file():
            yield f"{page.relative_to(site)}: {target} is not there"
        elif parts.fragment and unquote(parts.fragment) not in pages[other].anchors:
            yield f"{page.relative_to(site)}: {target} has no such anchor"


@pytest.mark.once
def test_every_page_is_built_and_reached_from_the_nav(site: Path, pages: dict[Path, Html]) -> None:
    """The strict build has refused those that are not in the nav."""
    for source in (ROOT / "docs").rglob("*.md"):
        name = source.relative_to(ROOT / "docs").with_suffix(".html")
        built = site / (name.with_name("index.html") if name.stem == "README" else name)
        assert built in pages, f"{name} is not in the site"


@pytest.mark.once
def test_every_link_leads_somewhere(site: Path, pages: dict[Path, Html]) -> None:
    faults = [
        fault
        for page, html in pages.items()
        for fault in broken(site, pages, page, html.links + html.loads)
    ]
    assert sum(len(html.links) for html in pages.values()) > 1000
    assert not faults, "\n".join(faults)


@pytest.mark.once
def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Html]) -> None:
    loaded = {target for html in pages.values() for target in html.loads if outside(target)}
    assert not {target for target in loaded if not target.startswith("data:")}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text()), sheet


@pytest.mark.once
def test_what_stands_beside_the_pages_is_in_the_site(site: Path) -> None:
    for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY", "lua/jobs/settle", "lua/lib/claim"):
        assert (site / f"{name}.html").is_file()
    assert 'href="lua/jobs/settle.html"' in (site / "index.html").read_text()
