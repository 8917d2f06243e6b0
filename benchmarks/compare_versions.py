"""Does another commit write the same files: ``python -m benchmarks.compare_versions BEFORE``.

Runs the demo, and recorded conversations where they are given, in a worktree of BEFORE and in this
tree, and compares what both write and print. Durations, versions and texts that
``benchmarks/rewordings.tsv`` maps (old, tab, new) may differ; every other byte counts. With
``--by-value`` the files are compared as the values that their JSON holds, in any order of keys and
without the recorded options.
``benchmarks/respellings.tsv`` maps the words of command lines of BEFORE to those of today.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from pathlib import Path
from typing import Annotated

import typer

from core.git import git
from runs.storage.versions import HARNESS_VERSION

TOP = Path(__file__).resolve().parents[1]
SECONDS = 3600


@dataclass(frozen=True)
class Tree:
    """A checkout of the harness and the folders that its commands write to."""

    name: str
    top: Path
    work: Path
    respellings: Mapping[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        """The folder that holds ``predictions/``."""
        return self.work / f"out-{self.name}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which this tree has a cache of its own."""
        return {**os.environ, "XDG_CACHE_HOME": str(self.work / f"cache-{self.name}")}

    def run_folder(self, run: str) -> Path:
        """Return a run's folder."""
        return self.out / "predictions" / run

    def command(self, *words: str, folders: bool = True) -> list[str]:
        """Return a command line of this tree."""
        line = respelled(words, self.respellings)
        if folders and line[0] == "harness.py" and line[1] != "list":
            line += ["--out", str(self.out)]
        return [sys.executable, *line]

    def call(
        self, *words: str, folders: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of this tree to its end."""
        command = self.command(*words, folders=folders)
        return subprocess.run(
            command,
            cwd=self.top,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def done(self, *words: str) -> None:
        """Run a command that must succeed; what failed for some instances (1) is a result."""
        print(f"{self.name}: python {' '.join(words)}", flush=True)
        result = self.call(*words)
        if result.returncode not in (0, 1):
            raise SystemExit(f"{self.name}: exit {result.returncode}\n{result.stderr}")


@contextmanager
def worktree(commit: str, work: Path) -> Iterator[Tree]:
    """Check a commit out beside this tree for as long as it is needed."""
    top = work / f"tree-{commit}"
    git("worktree", "add", "--quiet", "--detach", top, commit, cwd=TOP)
    try:
        yield Tree(commit, top, work)
    finally:
        git("worktree", "remove", "--force", top, cwd=TOP)


def respelled(words: Sequence[str], respellings: Mapping[str, str]) -> list[str]:
    """Return a command line in which each old spelling, of one or several words, is the new one.

    A spelling is looked for at each word, the longest first: ``--select evidence`` goes before
    ``--select``. An empty new spelling leaves the words out.
    """
    line: list[str] = []
    index = 0
    while index < len(words):
        for length in range(len(words) - index, 0, -1):
            spelling = " ".join(words[index : index + length])
            if spelling in respellings:
                line += respellings[spelling].split()
                break
        else:
            length = 1
            line.append(words[index])
        index += length
    return line


RESPELLINGS = Path(__file__).with_name("respellings.tsv")
REWORDINGS = Path(__file__).with_name("rewordings.tsv")
WRONG = Path(__file__).with_name("wrong_command_lines.txt")
SAME = ("*.json", "trajectories/*.json", "all_preds.jsonl")
MAY_DIFFER = ("run.json", "unfinished")
DEMO = (
    "--dataset",
    "demo",
    "--models",
    "scripted-a,scripted-b",
    "--replay",
    "demo/replies",
)
PARTS = ("demo", "exits", "continued", "older", "recorded")
# What people read on a run, in the spelling of BEFORE; RUN is its folder.
COMMANDS = (
    "harness.py --status --run demo",
    "harness.py --list-models --models gpt-4o,opus@diff",
    "harness.py --run demo --clean",
    "harness.py --run demo --dataset demo --models scripted-a --replay demo/replies",
    "report.py RUN --evaluator none --no-page",
    "report.py RUN --table",
    "report.py RUN --verify",
    "report.py RUN --submission RUN-package",
)
_SPACES = re.compile(r"[ \t─━]+")
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[ \dT:Z]*|\b\d+(\.\d+)? ?(s|ms|min|seconds)\b|\b\d+\.\d+\.\d+\b"
)
# Durations, alone or summed up in an object, and versions.
_VARIES = re.compile(
    r'"(seconds)": ([\d.e+-]+|\{[^{}]*\})|"(harness|harness_commit)": "[^"\n]*"',
)


def differences(
    before: Path,
    after: Path,
    *,
    by_value: bool = False,
) -> Iterator[str]:
    """Yield how the files of two folders of runs differ."""
    names = {name for folder in (before, after) for name in _compared(folder)}
    if not names:
        yield f"{before.name}: no files to compare"
    for name in sorted(names):
        old = before / name
        new = after / name
        if not old.is_file() or not new.is_file():
            yield f"{before.name}/{name} is only {'after' if new.is_file() else 'before'}"
            continue
        read = _text_of
        if by_value:
            read = _value_of
        expected = reworded(_plain(read(old)))
        actual = _plain(read(new))
        if expected != actual:
            yield f"{before.name}/{name} differs: {_first(expected, actual)}"
    requests = [list(_requests(folder)) for folder in (before, after)]
    print(f"{before.name}: {len(names)} files and {len(requests[1])} requests compared")
    if requests[0] != requests[1]:
        yield f"{before.name}: the hashes of requests differ"


def _compared(folder: Path) -> Iterator[str]:
    for pattern in SAME:
        for path in folder.glob(pattern):
            if path.name not in MAY_DIFFER:
                yield path.relative_to(folder).as_posix()


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _value_of(path: Path) -> str:
    """Return the JSON values of a file, with keys in order and without the options of its run.

    Versions have different options; their values are compared by what the run did.
    """
    text = _text_of(path)
    documents = text.splitlines() if path.suffix == ".jsonl" else [text]
    values = [json.loads(document) for document in documents]
    for value in values:
        if isinstance(value, dict):
            value.pop("config", None)
    return "\n".join(json.dumps(value, indent=1, sort_keys=True) for value in values)


def _plain(text: str) -> str:
    """Return a text without what may differ."""
    return _VARIES.sub(r'"\1\3": …', text)


def reworded(text: str) -> str:
    """Return a text of BEFORE with today's messages."""
    for old, new in rewordings().items():
        text = text.replace(old, new)
    return text


def rewordings() -> dict[str, str]:
    """Return the table of reworded messages, which is one to one."""
    pairs = read_pairs(REWORDINGS)
    table = dict(pairs)
    if not len(table) == len(set(table.values())) == len(pairs):
        raise SystemExit(f"{REWORDINGS.name} is not one to one")
    return table


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Return the pairs of a table: old, a tab, new; lines that start with # are comments."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            old, _, new = line.partition("\t")
            pairs.append((old, new))
    return pairs


def _first(old: str, new: str) -> str:
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    first = next(((a, b) for a, b in pairs if a != b), ("one is longer", ""))
    return " | ".join(text.strip()[:150] for text in first)


def _requests(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("trajectories/*.json")):
        for attempt in json.loads(path.read_text(encoding="utf-8"))["attempts"]:
            yield from (call["request_sha256"] for call in attempt["calls"])


def compare_demo(
    before: Tree,
    after: Tree,
    environment: str,
    *,
    by_value: bool,
) -> Iterator[str]:
    """Run and evaluate the demo in both trees."""
    for tree in (before, after):
        tree.done("harness.py", *DEMO, "--environment", environment, "--run", "demo")
        tree.done("report.py", str(tree.run_folder("demo")), "--evaluator", "local")
    folders = [tree.run_folder("demo") for tree in (before, after)]
    yield from differences(*folders, by_value=by_value)


def compare_messages(before: Tree, after: Tree) -> Iterator[str]:
    """Compare what commands print on the demo's run, which ``compare_demo`` left."""
    count = 0
    for words in COMMANDS:
        said = [list(_printed(tree, words)) for tree in (before, after)]
        count += len(said[1])
        old = [reworded(line) for line in said[0]]
        for line in unified_diff(old, said[1], "before", "after", n=0, lineterm=""):
            if not line.startswith(("---", "+++", "@@")):
                yield f"{words}: {line}"
    print(f"{len(COMMANDS)} commands: {count} lines compared")


def _printed(tree: Tree, words: str) -> Iterator[str]:
    """Yield the lines that a command prints, without what may differ and with single spaces."""
    run = str(tree.run_folder("demo"))
    argv = respelled(words.split(), tree.respellings)
    result = tree.call(*(word.replace("RUN", run) for word in argv))
    for line in (result.stdout + result.stderr).splitlines():
        line = line.replace(str(tree.out), "OUT").replace(str(tree.top), "TOP")
        line = _TIMES.sub("…", _SPACES.sub(" ", line)).strip()
        if line:
            yield line


def compare_recorded(
    before: Tree,
    after: Tree,
    recorded: Path,
    rows: Path,
    repos: Path,
    matching: str,
    *,
    by_value: bool,
) -> Iterator[str]:
    """Replay recorded conversations in both trees."""
    run = f"recorded-{matching}"
    ids = ",".join(sorted(path.stem for path in recorded.glob("*.json")))
    words = (
        "harness.py",
        "--dataset",
        str(rows),
        "--repos",
        str(repos),
        "--instances",
        ids,
        "--models",
        "gpt-4o@diff,opus@diff",
        "--replay",
        str(recorded),
        "--environment",
        "none",
        "--all-attempts",
        "--matching",
        matching,
        "--run",
        run,
    )
    for tree in (before, after):
        tree.done(*words)
        tree.done("report.py", str(tree.run_folder(run)), "--evaluator", "none")
    folders = [tree.run_folder(run) for tree in (before, after)]
    yield from differences(*folders, by_value=by_value)


def compare_exit_codes(before: Tree, after: Tree) -> Iterator[str]:
    """Give both trees wrong command lines, and compare exit codes and messages."""
    lines = [line for line in WRONG.read_text(encoding="utf-8").splitlines() if line]
    codes = []
    for line in lines:
        results = [tree.call(*line.split(), folders=False) for tree in (before, after)]
        old, new = (result.returncode for result in results)
        codes.append(new)
        if old != new:
            yield f"exit {old} before, {new} after: {line}\n  {results[1].stderr.strip()[-300:]}"
        said = []
        for r, t in zip(results, (before, after), strict=True):
            said.append(r.stderr.strip().replace(str(t.top), "TOP"))
        if reworded(said[0]) != said[1]:
            yield f"{line}: -{said[0]}\n{line}: +{said[1]}"
    counts = ", ".join(
        f"{codes.count(code)} exit {code}" for code in sorted(set(codes))
    )
    print(f"{len(lines)} wrong command lines: {counts}")


def continued(
    before: Tree,
    after: Tree,
    *,
    by_value: bool,
) -> Iterator[str]:
    """Kill a run of BEFORE after its first prediction and continue it in this tree."""
    words = (
        "harness.py",
        *DEMO,
        "--environment",
        "none",
        "--workers",
        "1",
        "--run",
        "killed",
    )
    whole = replace(before, name="whole")
    before = replace(before, name="killed")
    shutil.rmtree(before.out, ignore_errors=True)
    whole.done(*words)
    process = subprocess.Popen(
        before.command(*words),
        cwd=before.top,
        env=before.environment,
        stdout=subprocess.DEVNULL,
    )
    folder = before.run_folder("killed")
    while process.poll() is None and not [*folder.glob("demo__*.json")]:
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = {path.name: path.read_bytes() for path in folder.glob("demo__*.json")}
    print(f"killed after {len(done)} of 6 predictions")
    shutil.copytree(before.out / "logs/killed", after.out / "logs/killed")
    shutil.copytree(folder, after.run_folder("killed"))
    after.done(*words)
    for name, content in done.items():
        if (after.run_folder("killed") / name).read_bytes() != content:
            yield f"continuing changed {name}"
    log = (after.run_folder("killed") / "harness.log").read_text(encoding="utf-8")
    if f"{len(done)} done before" not in log:
        yield "the run was not continued"
    folders = [tree.run_folder("killed") for tree in (whole, after)]
    yield from differences(*folders, by_value=by_value)


def older(tree: Tree, after: Tree) -> Iterator[str]:
    """Read, report, verify and try to continue a run that an older version wrote."""
    words = ("harness.py", *DEMO, "--environment", "none", "--run", f"by-{tree.name}")
    tree.done(*words)
    folder = tree.run_folder(f"by-{tree.name}")
    shutil.copytree(folder, after.run_folder(folder.name))
    place = str(after.run_folder(folder.name))
    version = json.loads((folder / "run.json").read_text(encoding="utf-8"))["versions"][
        "harness"
    ]
    for command in (
        ("harness.py", "status", folder.name),
        ("report.py", place, "--evaluator", "local"),
        ("report.py", place, "--evaluator", "none", "--format", "markdown"),
        ("report.py", "verify", place),
    ):
        result = after.call(*command)
        print(f"run of {version}: {' '.join(command)}: exit {result.returncode}")
        if result.returncode:
            yield f"run of {version}: {' '.join(command)}: {result.stderr or result.stdout}"
    refused = after.call(*words)
    lines = refused.stderr.strip().splitlines()
    print(f"run of {version}: {refused.stderr.strip()}")
    if refused.returncode != 2 or len(lines) != 1:
        yield f"continuing a run of {version} is not refused in one line"
    if not {version, HARNESS_VERSION} <= set(
        re.findall(r"\d+\.\d+\.\d+", refused.stderr)
    ):
        yield f"the refusal does not name {version} and {HARNESS_VERSION}"


def main(
    before: Annotated[
        str, typer.Argument(help="Commit whose files are the right ones.")
    ],
    recorded: Annotated[
        Path | None, typer.Option(help="Recorded trajectories.")
    ] = None,
    rows: Annotated[Path | None, typer.Option(help="Rows of their instances.")] = None,
    repos: Annotated[
        Path | None, typer.Option(help="Bare mirrors of their repositories.")
    ] = None,
    older_commit: Annotated[str, typer.Option(help="Commit of an older version.")] = "",
    environment: Annotated[
        str, typer.Option(help="Where the demo's tests run.")
    ] = "local",
    only: Annotated[str, typer.Option(help="Some of these parts, A,B.")] = ",".join(
        PARTS
    ),
    work: Annotated[
        Path | None, typer.Option(help="Folder that keeps runs of BEFORE.")
    ] = None,
    by_value: Annotated[bool, typer.Option(help="Compare values, not bytes.")] = False,
) -> None:
    """Print each difference; exit 1 when there is one."""
    parts = only.split(",")
    found: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = (work or Path(scratch)).resolve()
        after = Tree("after", TOP, place, dict(read_pairs(RESPELLINGS)))
        # Runs of BEFORE may be kept from an earlier comparison; those of this tree may not.
        shutil.rmtree(after.out, ignore_errors=True)
        with worktree(before, place) as tree:
            if "demo" in parts:
                found += compare_demo(tree, after, environment, by_value=by_value)
                found += compare_messages(tree, after)
            if "exits" in parts:
                found += compare_exit_codes(tree, after)
            if "continued" in parts:
                found += continued(tree, after, by_value=by_value)
            if "recorded" in parts and recorded and rows and repos:
                for matching in ("reference", "tolerant"):
                    found += compare_recorded(
                        tree, after, recorded, rows, repos, matching, by_value=by_value
                    )
        if "older" in parts and older_commit:
            with worktree(older_commit, place) as tree:
                found += older(tree, after)
    print("\n".join(found) or "no difference")
    raise typer.Exit(bool(found))


if __name__ == "__main__":
    typer.run(main)
