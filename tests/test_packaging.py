"""What is in the box: the built distributions, looked at without installing them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from django_echomq import __version__

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_echomq"
SCRIPTS = ROOT / "lua"


def build(kind: str, folder: Path) -> Path:
    """Build one distribution of the checkout with the backend that is installed here."""
    done = subprocess.run(
        [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


@pytest.fixture(scope="module")
def sdist_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    built = build("sdist", tmp_path_factory.mktemp("sdist"))
    with tarfile.open(built) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def metadata_of(wheel: Path) -> Metadata:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        # Validates every field.
        return Metadata.from_email(archive.read(name), validate=True)


def files_under(folder: Path) -> set[str]:
    """Paths of the files in a folder, relative to it, without bytecode."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_lua_script_is_inside_the_package(wheel_names: set[str]) -> None:
    scripts = {name for name in files_under(SCRIPTS) if name.endswith(".lua")}
    assert scripts, "no Lua script in the checkout"
    assert {f"django_echomq/lua/{name}" for name in scripts} <= wheel_names


def test_a_script_is_packed_unchanged(wheel: Path) -> None:
    script = min(SCRIPTS.rglob("*.lua"))
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read(f"django_echomq/lua/{script.relative_to(SCRIPTS).as_posix()}")
    assert packed == script.read_bytes()


def test_wheel_has_the_whole_package(wheel_names: set[str]) -> None:
    """Modules, and also what is not Python: py.typed, templates, static files."""
    assert "django_echomq/py.typed" in wheel_names
    assert {f"django_echomq/{name}" for name in files_under(PACKAGE)} <= wheel_names


def test_wheel_has_nothing_but_the_package(wheel_names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {"django_echomq", info}
    assert f"{info}/licenses/LICENSE" in wheel_names
    assert not [name for name in wheel_names if "__pycache__" in name or name.endswith(".pyc")]


def test_an_index_takes_the_metadata(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    assert str(metadata.version) == __version__
    assert metadata.license_expression == "BSD-3-Clause"
    assert not metadata.project_urls, "each must be a page that is there"
    readme = metadata.description or ""
    assert metadata.description_content_type == "text/markdown"
    assert "pip install 'django-echomq[embedded]'" in readme
    assert "Kill the worker, the connection or the server: what happens then." in readme
    assert not re.findall(r"\]\((?!https?:)[^)]+\)", readme), "an index resolves no such link"


@pytest.mark.parametrize(
    "name",
    [
        "pyproject.toml",
        "Makefile",
        "mkdocs.yml",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "django_echomq/py.typed",
        "tests/test_packaging.py",
    ],
)
def test_sdist_has(name: str, sdist_names: set[str]) -> None:
    assert name in sdist_names


def test_sdist_has_every_lua_script(sdist_names: set[str]) -> None:
    assert {f"lua/{name}" for name in files_under(SCRIPTS)} <= sdist_names
