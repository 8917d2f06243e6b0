"""The rules of the structure: each is a function from a source tree to its violations.

``python -m tests.architecture`` prints the violations of this tree, as ``architecture.json`` has
them: those that are left from before a rule was made, and the figures that may not get worse.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.measure import Figures, measure

TOP = Path(__file__).resolve().parents[1]
# From the ground up: a room imports only rooms before it. A room may be absent.
ROOMS = (
    "core",
    "llm",
    "agent",
    "environments",
    "runs",
    "bench",
    "reports",
    "exercises",
)
SCRIPTS = ("harness.py", "report.py")
ABOVE_ALL = ("demo", "benchmarks", "tests")
MAX_MODULES = 20
MAX_TOKENS = 4_000
# Files of others, which several modules may name.
FOREIGN = {"metadata.yaml", "setup.cfg", "pyproject.toml", "preds.json", "result.json"}
FILE_NAME = re.compile(r"[A-Za-z_][\w-]*\.(jsonl?|ya?ml|log|diff)")
PATH = re.compile(rf"(?<![\w/.-])({'|'.join((*ROOMS, *ABOVE_ALL, 'docs'))})/[\w/.-]*\w")
MODULE = re.compile(rf"python -m\s+((?:{'|'.join((*ROOMS, *ABOVE_ALL))})[\w.]*\w)")
DOTTED = re.compile(r"\w+(\.\w+)+")
CLASS_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
OPTION = re.compile(r"--[a-z][a-z-]*")
HIDDEN = {"Evaluation", "test_patch", "FAIL_TO_PASS", "PASS_TO_PASS", "hints_text"}
# The loader splits a row. Of all that harness.py imports, it alone may name the evaluation half.
LOADER = ("bench/instances/instance.py", "bench/instances/dataset.py")
# Packages of which others use what `__init__.py` names, and no module.
CLOSED = ("bench/attempts",)
BANNED = (
    "mend", "anew", "begun", "whoever", "nobody knows", "blot out", "parcel", "clerks", "crew",
    "flights", "mailbox", "last rites",
)  # fmt: skip
PUBLIC = ("not_begun",)  # values and keys that users know
BANNED_WORD = re.compile(
    rf"(?<![A-Za-z])({'|'.join(BANNED)})(?![A-Za-z])", re.IGNORECASE
)
SKIP_MARK = re.compile(r"#\s*fmt:\s*(skip|off)\b")
DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict)
DATA = (
    *DISPLAYS,
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Starred,
    ast.UnaryOp,
    ast.expr_context,
    ast.unaryop,
)
Figure = dict[str, float]
# The form of a room and its goal: a room at its goal is bounded by the goal, another by its best.
FORM: dict[str, tuple[Callable[[Figures], float], float]] = {
    "per row": (lambda figures: round(figures.per_row, 2), 7.0),
    "p90": (lambda figures: figures.p90, 15),
    "filler": (lambda figures: round(figures.per_1000_lines("filler"), 1), 5.0),
    "participles": (lambda figures: round(figures.participles, 1), 0.8),
    "conditionals": (
        lambda figures: round(figures.per_1000_lines("conditionals"), 1),
        15.0,
    ),
    "comprehensions": (
        lambda figures: round(figures.per_1000_lines("comprehensions"), 1),
        20.0,
    ),
    "tuples": (lambda figures: round(figures.per_1000_lines("tuples"), 1), 6.0),
}
TEXTS = {".py", ".md", ".json", ".yaml", ".html", ".js", ".css", ".toml", ".txt", ""}
# Texts that models read or that a run records, and this list itself.
NOT_READ = (
    "agent/prompts",
    "demo/repositories",
    "demo/tasks",
    "demo/replies",
    "tests/data",
    "tests/architecture",
    "tests/test_architecture",
)


def tree(path: Path) -> ast.Module:
    """Parse a file."""
    return _parsed(path.read_text(encoding="utf-8"))


_parsed = cache(ast.parse)


def sources(top: Path, *folders: str) -> Iterator[tuple[str, Path]]:
    """Yield the modules of folders and the scripts among them, with their relative paths."""
    for name in folders:
        place = top / name
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            shown = path.relative_to(top).as_posix()
            if not shown.startswith(("demo/repositories", "tests/data")):
                yield shown, path


def imported(path: Path, *, late: bool = True) -> set[str]:
    """Return the modules that a file imports, and the names that it takes from them.

    ``late`` says whether imports inside functions and conditions count.
    """
    found: set[str] = set()
    for node in ast.walk(tree(path)) if late else tree(path).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {
                node.module,
                *(f"{node.module}.{alias.name}" for alias in node.names),
            }
    return found


def upward_imports(top: Path) -> set[str]:
    """Rule 1: a room imports only rooms below it; only the two commands and tests import demo."""
    found = set()
    for number, room in enumerate(ROOMS):
        higher = {*ROOMS[number + 1 :], *ABOVE_ALL}
        for shown, path in sources(top, room):
            first = {
                name for name in imported(path) if name.partition(".")[0] in higher
            }
            found |= {
                f"{shown} imports {name}" for name in first if module_of(top, name)
            }
    # The two commands and the demo are about SWE-bench alone.
    for shown, path in sources(top, *SCRIPTS, "demo"):
        first = {name for name in imported(path) if name.partition(".")[0] == ROOMS[-1]}
        found |= {f"{shown} imports {name}" for name in first if module_of(top, name)}
    return found


def module_of(top: Path, name: str) -> str | None:
    """Return the path of a module of this tree, or None for a name that is no module here."""
    place = top.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path.relative_to(top).as_posix()
    return None


def circles(top: Path) -> set[str]:
    """Rule 1: folders of a room do not import each other in circles.

    A module beside subfolders stands for itself, the modules of another folder stand together.
    """
    found = set()
    for room in ROOMS:
        arrows: dict[str, set[str]] = defaultdict(set)
        for shown, path in sources(top, room):
            modules = {module_of(top, name) or "" for name in imported(path)}
            for other in modules if path.stem != "__init__" else ():
                if other.startswith(f"{room}/") and not other.endswith("__init__.py"):
                    arrows[_part(top, shown)].add(_part(top, other))
        reached = {part: _reached(arrows, part) for part in [*arrows]}
        for part, others in reached.items():
            ring = sorted(other for other in others if part in reached.get(other, ()))
            if len(ring) > 1:
                found.add(", ".join(ring))
    return found


def _part(top: Path, shown: str) -> str:
    folder = (top / shown).parent
    mixed = any(
        place.is_dir() and any(place.glob("*.py")) for place in folder.iterdir()
    )
    if mixed:
        return shown
    return shown.rpartition("/")[0]


def _reached(arrows: dict[str, set[str]], part: str) -> set[str]:
    found = set[str]()
    waiting = [part]
    while waiting:
        new = arrows[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def sizes(top: Path) -> set[str]:
    """Rule 2: bounds on the tokens of a module and on the modules of a folder."""
    violations = set()
    folders: Counter[str] = Counter()
    for name, path in sources(top, *SCRIPTS, *ROOMS, *ABOVE_ALL):
        if measure(path).tokens > MAX_TOKENS:
            violations.add(f"{name} is too long")
        folder = name.rpartition("/")[0]
        in_room = name.partition("/")[0] in ROOMS
        if in_room and path.stem not in ("__init__", "__main__"):
            folders[folder] += 1
    full = {folder for folder, modules in folders.items() if modules > MAX_MODULES}
    return violations | {f"{folder} is too full" for folder in full}


def shared_names(top: Path) -> set[str]:
    """Rule 3: no two public classes have one name; an alias of a class counts as one."""
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for shown, path in sources(top, *SCRIPTS, *ROOMS, "demo", "benchmarks"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                places[node.name][shown] = shown
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                places[node.targets[0].id][shown] = ast.unparse(node.value)
    public = {name: at for name, at in places.items() if CLASS_NAME.fullmatch(name)}
    # Two modules may give one alias one meaning.
    twice = {name: at for name, at in public.items() if len({*at.values()}) > 1}
    return {f"{name}: {', '.join(at)}" for name, at in twice.items()}


def repeated_facts(top: Path) -> set[str]:
    """Rule 4: one module names a file format, declares an option, states its default.

    A default is stated twice where two modules give one name of an option one value.
    """
    modules = [(shown, tree(path)) for shown, path in sources(top, *SCRIPTS, *ROOMS)]
    options = {option for _, module in modules for option in _options(module)}
    places: dict[str, set[str]] = defaultdict(set)
    for shown, module in modules:
        defaults = {d for d in _defaults(module) if d.partition(" = ")[0] in options}
        for fact in _files_named(module) | _options(module) | defaults:
            places[fact].add(shown)
    return {
        f"{fact}: {', '.join(sorted(at))}" for fact, at in places.items() if len(at) > 1
    }


def _files_named(module: ast.Module) -> set[str]:
    return {s for s in _strings(module) if FILE_NAME.fullmatch(s)} - FOREIGN


def _options(module: ast.Module) -> set[str]:
    """Return the names of the options that a module declares, by typer or in a group."""
    declared = [n for n in ast.walk(module) if isinstance(n, ast.Call) and _declares(n)]
    return {
        s
        for call in declared
        for a in call.args
        for s in _strings(a)
        if OPTION.fullmatch(s)
    }


def _declares(call: ast.Call) -> bool:
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in (
        "Option",
        "option",
    )


def _defaults(module: ast.Module) -> Iterator[str]:
    """Yield ``--some-name = 4`` for each field or argument with a number or a text as default."""
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from _default(node.target.id, node.value)
        elif isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            with_default = plain[len(plain) - len(node.defaults) :]
            pairs = [*zip(with_default, node.defaults, strict=True)]
            for arg, value in [
                *pairs,
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]:
                yield from _default(arg.arg, value)


def _default(name: str, value: ast.expr | None) -> Iterator[str]:
    if isinstance(value, ast.Call) and _declares(value) and value.args:
        value = value.args[0]
    if (
        isinstance(value, ast.Constant)
        and value.value
        and not isinstance(value.value, bool)
    ):
        said = value.value
        if isinstance(value.value, int | float):
            said = float(value.value)
        yield f"--{name.replace('_', '-')} = {said!r}"


def _strings(node: ast.AST) -> set[str]:
    values = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    return {value for value in values if isinstance(value, str)}


def hidden_names(top: Path) -> set[str]:
    """Rule 5: nothing that harness.py imports names the evaluation half, except the loader.

    ``tests/test_leaks.py`` runs the harness and looks for the values; this looks for the names.
    """
    found = set()
    for shown in closure(top, "harness.py"):
        if not shown.startswith(LOADER):
            found |= {
                f"{shown} names {name}" for name in HIDDEN & _words(tree(top / shown))
            }
    return found


def closure(top: Path, script: str) -> set[str]:
    """Return the modules of this tree that a script imports, directly or not, at any time."""
    found = set[str]()
    waiting = [script]
    while waiting:
        shown = waiting.pop()
        if shown not in found:
            found.add(shown)
            # harness.py names the module that it starts, and a string may do so elsewhere.
            dotted = {s for s in _strings(tree(top / shown)) if DOTTED.fullmatch(s)}
            names = imported(top / shown) | dotted
            waiting += filter(None, (module_of(top, name) for name in names))
    return found


def _words(module: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(module):
        for field in ("id", "attr", "value", "arg", "name"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                found.add(word)
    return found


def banned_words(top: Path) -> set[str]:
    """Rule 8: words that the project does not use, in texts, names and file names."""
    found = set()
    for path in texts(top):
        shown = path.relative_to(top).as_posix()
        words = f"{shown}\n{joined(path.read_text(encoding='utf-8'))}"
        words = re.sub("|".join(PUBLIC), "", words)
        found |= {f"{shown}: {m.group(1).lower()}" for m in BANNED_WORD.finditer(words)}
    return found


def texts(top: Path) -> Iterator[Path]:
    """Yield the texts of source, tests and documents."""
    folders = (*ROOMS, *ABOVE_ALL, "docs")
    inside = (path for folder in folders for path in sorted((top / folder).rglob("*")))
    for path in [*sorted(top.glob("*")), *inside]:
        shown = path.relative_to(top).as_posix()
        if (
            path.is_file()
            and path.suffix in TEXTS
            and not shown.startswith((".", *NOT_READ))
        ):
            yield path


def joined(text: str) -> str:
    """Join what lines, comments and adjacent strings break, and split names of classes."""
    text = re.sub(r"""["']\s*\n\s*(#\s*)?f?["']|\n\s*(#\s*)?""", " ", text)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", re.sub(r"[ \t]+", " ", text))


def stale_paths(top: Path) -> set[str]:
    """Documents name files that exist; the changelog names those of its time."""
    found = set()
    for path in [
        top / "README.md",
        top / "CONTRIBUTING.md",
        *sorted((top / "docs").rglob("*.md")),
    ]:
        shown = path.relative_to(top).as_posix()
        text = ""
        if path.is_file():
            text = path.read_text(encoding="utf-8")
        named = {match.group(): top / match.group() for match in PATH.finditer(text)}
        named |= {
            name: top / (module_of(top, name) or name) for name in MODULE.findall(text)
        }
        found |= {
            f"{shown} names {name}"
            for name, place in named.items()
            if not place.exists()
        }
    return found


def skipped_formatting(top: Path) -> set[str]:
    """Rule 7: only tables of data are formatted by hand."""
    violations = set()
    for name, path in sources(top, *SCRIPTS, *ROOMS, *ABOVE_ALL):
        tables = {node.end_lineno for node in _tables(tree(path))}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if SKIP_MARK.search(line) and number not in tables:
                violations.add(f"{name}:{number}")
    return violations


def _tables(module: ast.Module) -> Iterator[ast.expr]:
    """Yield the tables of a module: displays of constants and names.

    They are values of names of a module or a class, and arguments of a test's decorators.
    """
    for node in ast.walk(module):
        values: list[ast.expr] = []
        if isinstance(node, ast.Module | ast.ClassDef):
            assignments = []
            for n in node.body:
                if isinstance(n, ast.Assign | ast.AnnAssign):
                    assignments.append(n)
            values += [
                assignment.value for assignment in assignments if assignment.value
            ]
        if isinstance(node, ast.FunctionDef):
            values += node.decorator_list
        for value in values:
            arguments = value.args if isinstance(value, ast.Call) else [value]
            if any(isinstance(argument, DISPLAYS) for argument in arguments):
                parts = [part for argument in arguments for part in ast.walk(argument)]
                if all(isinstance(part, DATA) for part in parts):
                    yield value


def inner_imports(top: Path) -> set[str]:
    """Rule 9: only a closed package itself and its tests import its modules."""
    violations = set()
    for package in CLOSED:
        dotted = package.replace("/", ".")
        for name, path in sources(top, *SCRIPTS, *ROOMS, *ABOVE_ALL):
            if not name.startswith((f"{package}/", f"tests/{package}/")):
                for module in sorted(_inner_modules(top, path, dotted)):
                    violations.add(f"{name} imports {module}")
    return violations


def _inner_modules(top: Path, path: Path, package: str) -> Iterator[str]:
    """Yield the modules of a package that a file imports, under any spelling."""
    names = _imported_names(top / package.replace(".", "/") / "__init__.py")
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == package:
            others = [alias.name for alias in node.names if alias.name not in names]
            modules = [f"{package}.{name}" for name in others]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            if module.startswith(f"{package}."):
                yield module


def _imported_names(path: Path) -> set[str]:
    """Return the names that a module takes from others."""
    names = set()
    for node in ast.walk(tree(path)) if path.is_file() else ():
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
    return names


def best_figures(top: Path) -> dict[str, Figure]:
    """Rule 6, a ratchet: the size of all rooms together, and the form of each room."""
    total = Figures()
    bounds: dict[str, Figure] = {}
    for room in ROOMS:
        figures = measure(top / room)
        total.add(figures)
        bounds[room] = {
            name: max(form(figures), goal) for name, (form, goal) in FORM.items()
        }
    return {"all": {"tokens": total.tokens}, **bounds}


RULES: dict[str, Callable[[Path], set[str]]] = {
    "1 imports": upward_imports,
    "1 circles": circles,
    "2 sizes": sizes,
    "3 class names": shared_names,
    "4 one place": repeated_facts,
    "5 evaluation half": hidden_names,
    "7 formatting": skipped_formatting,
    "8 words": banned_words,
    "9 closed packages": inner_imports,
    "documents": stale_paths,
}


def worse_figures(now: dict[str, Figure], bounds: dict[str, Figure]) -> set[str]:
    """Return the figures of rooms that are worse than their bounds."""
    violations = set()
    for room, figures in now.items():
        for name, value in figures.items():
            bound = bounds[room][name]
            if value > bound:
                violations.add(
                    f"{room}: {name} is {value:g}, at most {bound:g} is allowed"
                )
    return violations


def main() -> None:
    """Print the violations and the figures, as architecture.json has them."""
    rest: dict[str, object] = {}
    for name, rule in RULES.items():
        violations = rule(TOP)
        if violations:
            rest[name] = sorted(violations)
    print(
        json.dumps({**rest, "figures": best_figures(TOP)}, indent=1, ensure_ascii=False)
    )


if __name__ == "__main__":
    main()
