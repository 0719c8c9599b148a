"""Measures Python source. Knows nothing of Django and nothing of queues."""

import ast
import os
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path

STDLIB = Path(sysconfig.get_paths()["stdlib"])

# Not of the standard library, though inside its folder.
_FOREIGN = {"site-packages", "dist-packages", "__pycache__"}

# The parser warns of doubtful code in the files it reads. warnings.catch_warnings() would not be
# safe on the worker's threads, so what concerns this file name is ignored for good.
_FILENAME = "<measured source>"
warnings.filterwarnings("ignore", module=_FILENAME)

_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
)


@dataclass
class Measures:
    """What there is to say about one file; all but ``lines`` is empty if it does not parse."""

    lines: int
    functions: int = 0
    classes: int = 0
    imports: int = 0
    complexity: int = 0
    most_complex: str = ""
    most_complex_value: int = 0
    error: str = ""


def source_paths():
    """The paths of all Python files of the standard library, relative to it, sorted."""
    paths = []
    for folder, subfolders, names in os.walk(STDLIB):
        subfolders[:] = [name for name in subfolders if name not in _FOREIGN]
        paths += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(path.relative_to(STDLIB).as_posix() for path in paths if path.is_file())


def module_name(path):
    """The dotted name of a module.

    >>> module_name("json/__init__.py"), module_name("json/decoder.py")
    ('json', 'json.decoder')
    """
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def measure(source):
    """Measures a file.

    Complexity is McCabe's: 1 for a function, and 1 more for each way to branch in it. What a
    nested function does counts for that function alone.

    >>> measure(b"def sign(n):\\n    return -1 if n < 0 else n and 1").complexity
    3

    Args:
        source: the bytes of the file, in whatever encoding it declares.
    """
    measures = Measures(lines=len(source.splitlines()))
    try:
        tree = ast.parse(source, _FILENAME)
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        measures.error = f"{error.msg}{line}"
        return measures
    except (ValueError, RecursionError, MemoryError) as error:
        measures.error = f"{type(error).__name__}: {error}"
        return measures

    functions = []  # [qualified name, complexity] of each
    # A stack of our own: expressions may nest deeper than Python's calls.
    todo = [(tree, "", None)]
    while todo:
        node, prefix, function = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = [prefix + node.name, 1]
            functions.append(function)
            prefix += f"{node.name}."
        elif isinstance(node, ast.ClassDef):
            measures.classes += 1
            prefix += f"{node.name}."
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            measures.imports += 1
        elif function is not None:
            function[1] += _branches(node)
        todo += [(child, prefix, function) for child in ast.iter_child_nodes(node)]

    measures.functions = len(functions)
    measures.complexity = sum(value for _, value in functions)
    if functions:
        name, value = max(functions, key=lambda function: function[1])
        measures.most_complex, measures.most_complex_value = name, value
    return measures


def _branches(node):
    """How many ways to branch a node adds."""
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(isinstance(node, _BRANCHES))
