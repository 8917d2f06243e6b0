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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from swe_retry.core.git import git
from swe_retry.runs.storage.versions import HARNESS_VERSION

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
        cache = self.work / f"cache-{self.name}"
        return {**os.environ, "XDG_CACHE_HOME": str(cache)}

    def run_folder(self, run: str) -> Path:
        """Return a run's folder."""
        return self.out / "predictions" / run

    def command(self, *argv: str, folders: bool = True) -> list[str]:
        """Return a command line of this tree."""
        line = respelled(argv, self.respellings)
        if folders and line[0] == "harness.py" and line[1] != "list":
            line += ["--out", str(self.out)]
        return [sys.executable, *line]

    def call(
        self, *argv: str, folders: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of this tree to its end."""
        command = self.command(*argv, folders=folders)
        return subprocess.run(
            command,
            cwd=self.top,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def run(self, *argv: str) -> None:
        """Run a command that must succeed; what failed for some instances (1) is a result."""
        print(f"{self.name}: python {' '.join(argv)}", flush=True)
        result = self.call(*argv)
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


def respelled(argv: Sequence[str], respellings: Mapping[str, str]) -> list[str]:
    """Return a command line in which each old spelling, of one or several words, is the new one.

    A spelling is looked for at each word, the longest first: ``--select evidence`` goes before
    ``--select``. An empty new spelling leaves the words out.
    """
    line: list[str] = []
    start = 0
    while start < len(argv):
        for end in range(len(argv), start, -1):
            spelling = " ".join(argv[start:end])
            if spelling in respellings:
                line += respellings[spelling].split()
                start = end
                break
        else:
            line.append(argv[start])
            start += 1
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
    "swe_retry/demo/replies",
)
PARTS = ("demo", "exits", "continued", "older", "recorded")
# What people read on a run, in the spelling of BEFORE; RUN is its folder.
COMMANDS = (
    "harness.py --status --run demo",
    "harness.py --list-models --models gpt-4o,opus@diff",
    "harness.py --run demo --clean",
    "harness.py --run demo --dataset demo --models scripted-a --replay swe_retry/demo/replies",
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


def differences(before: Path, after: Path, *, by_value: bool = False) -> Iterator[str]:
    """Yield how the files of two folders of runs differ."""
    run = before.name
    names = {*_compared_files(before), *_compared_files(after)}
    if not names:
        yield f"{run}: no files to compare"
    read = _value_of if by_value else _text_of
    for name in sorted(names):
        old = before / name
        new = after / name
        if not new.is_file():
            yield f"{run}/{name} is only before"
        elif not old.is_file():
            yield f"{run}/{name} is only after"
        else:
            expected = reword(_without_varying(read(old)))
            actual = _without_varying(read(new))
            if expected != actual:
                yield f"{run}/{name} differs: {_first_difference(expected, actual)}"
    requests = list(_requests(after))
    print(f"{run}: {len(names)} files and {len(requests)} requests compared")
    if requests != list(_requests(before)):
        yield f"{run}: the hashes of requests differ"


def _compared_files(folder: Path) -> Iterator[str]:
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
    documents = [_text_of(path)]
    if path.suffix == ".jsonl":
        documents = documents[0].splitlines()
    texts = []
    for document in documents:
        value = json.loads(document)
        if isinstance(value, dict):
            value.pop("config", None)
        texts.append(json.dumps(value, indent=1, sort_keys=True))
    return "\n".join(texts)


def _without_varying(text: str) -> str:
    return _VARIES.sub(r'"\1\3": …', text)


def reword(text: str) -> str:
    """Return a text of BEFORE with today's messages."""
    for old, new in rewordings().items():
        text = text.replace(old, new)
    return text


def rewordings() -> dict[str, str]:
    """Return the table of reworded messages, which is one to one."""
    pairs = read_pairs(REWORDINGS)
    table = dict(pairs)
    inverse = {new: old for old, new in pairs}
    if len(table) < len(pairs) or len(inverse) < len(pairs):
        raise SystemExit(f"{REWORDINGS.name} is not one to one")
    return table


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Return the pairs of a table: old, a tab, new; lines that start with # are comments."""
    pairs = []
    for line in _text_of(path).splitlines():
        if line and not line.startswith("#"):
            old, _, new = line.partition("\t")
            pairs.append((old, new))
    return pairs


def _first_difference(old: str, new: str) -> str:
    lines = zip(old.splitlines(), new.splitlines(), strict=False)
    for old_line, new_line in lines:
        if old_line != new_line:
            return f"{old_line.strip()[:150]} | {new_line.strip()[:150]}"
    return "one is longer"


def _requests(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("trajectories/*.json")):
        trajectory = json.loads(_text_of(path))
        for attempt in trajectory["attempts"]:
            for call in attempt["calls"]:
                yield call["request_sha256"]


def compare_demo(
    before: Tree,
    after: Tree,
    environment: str,
    *,
    by_value: bool,
) -> Iterator[str]:
    """Run and evaluate the demo in both trees."""
    options = ["--environment", environment, "--run", "demo"]
    for tree in (before, after):
        tree.run("harness.py", *DEMO, *options)
        folder = str(tree.run_folder("demo"))
        tree.run("report.py", folder, "--evaluator", "local")
    yield from _run_differences("demo", before, after, by_value=by_value)


def _run_differences(
    run: str, before: Tree, after: Tree, *, by_value: bool
) -> Iterator[str]:
    folders = (before.run_folder(run), after.run_folder(run))
    return differences(*folders, by_value=by_value)


def compare_messages(before: Tree, after: Tree) -> Iterator[str]:
    """Compare what commands print on the demo's run, which ``compare_demo`` left."""
    count = 0
    for command in COMMANDS:
        old = [reword(line) for line in _output(before, command)]
        new = list(_output(after, command))
        count += len(new)
        diff = unified_diff(old, new, "before", "after", n=0, lineterm="")
        for line in diff:
            if not line.startswith(("---", "+++", "@@")):
                yield f"{command}: {line}"
    print(f"{len(COMMANDS)} commands: {count} lines compared")


def _output(tree: Tree, command: str) -> Iterator[str]:
    """Yield the lines that a command prints, without what may differ and with single spaces."""
    run = str(tree.run_folder("demo"))
    argv = respelled(command.split(), tree.respellings)
    result = tree.call(*(word.replace("RUN", run) for word in argv))
    output = result.stdout + result.stderr
    for line in output.splitlines():
        line = line.replace(str(tree.out), "OUT")
        line = line.replace(str(tree.top), "TOP")
        line = _SPACES.sub(" ", line)
        line = _TIMES.sub("…", line).strip()
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
    ids = sorted(path.stem for path in recorded.glob("*.json"))
    options = {
        "--dataset": str(rows),
        "--repos": str(repos),
        "--instances": ",".join(ids),
        "--models": "gpt-4o@diff,opus@diff",
        "--replay": str(recorded),
        "--environment": "none",
        "--matching": matching,
        "--run": run,
    }
    argv = list(chain.from_iterable(options.items()))
    for tree in (before, after):
        tree.run("harness.py", *argv, "--all-attempts")
        folder = str(tree.run_folder(run))
        tree.run("report.py", folder, "--evaluator", "none")
    yield from _run_differences(run, before, after, by_value=by_value)


def compare_exit_codes(before: Tree, after: Tree) -> Iterator[str]:
    """Give both trees wrong command lines, and compare exit codes and messages."""
    lines = list(filter(None, _text_of(WRONG).splitlines()))
    codes: Counter[int] = Counter()
    for line in lines:
        argv = line.split()
        old = before.call(*argv, folders=False)
        new = after.call(*argv, folders=False)
        codes[new.returncode] += 1
        if old.returncode != new.returncode:
            message = new.stderr.strip()[-300:]
            yield f"exit {old.returncode} before, {new.returncode} after: {line}\n  {message}"
        old_message = old.stderr.strip().replace(str(before.top), "TOP")
        old_message = reword(old_message)
        new_message = new.stderr.strip().replace(str(after.top), "TOP")
        if old_message != new_message:
            yield f"{line}: -{old_message}\n{line}: +{new_message}"
    counts = [f"{count} exit {code}" for code, count in sorted(codes.items())]
    print(f"{len(lines)} wrong command lines: {', '.join(counts)}")


def compare_continued(before: Tree, after: Tree, *, by_value: bool) -> Iterator[str]:
    """Kill a run of BEFORE after its first prediction and continue it in this tree."""
    options = ("--environment", "none", "--workers", "1", "--run", "killed")
    argv = ("harness.py", *DEMO, *options)
    complete = replace(before, name="whole")
    before = replace(before, name="killed")
    shutil.rmtree(before.out, ignore_errors=True)
    complete.run(*argv)
    process = subprocess.Popen(
        before.command(*argv),
        cwd=before.top,
        env=before.environment,
        stdout=subprocess.DEVNULL,
    )
    folder = before.run_folder("killed")
    while process.poll() is None:
        if list(folder.glob("demo__*.json")):
            break
        time.sleep(0.01)
    process.kill()
    process.wait()
    predictions = {}
    for path in folder.glob("demo__*.json"):
        predictions[path.name] = path.read_bytes()
    print(f"killed after {len(predictions)} of 6 predictions")
    shutil.copytree(before.out / "logs/killed", after.out / "logs/killed")
    continued = after.run_folder("killed")
    shutil.copytree(folder, continued)
    after.run(*argv)
    for name, content in predictions.items():
        if (continued / name).read_bytes() != content:
            yield f"continuing changed {name}"
    log = _text_of(continued / "harness.log")
    if f"{len(predictions)} done before" not in log:
        yield "the run was not continued"
    yield from _run_differences("killed", complete, after, by_value=by_value)


def check_older(tree: Tree, after: Tree) -> Iterator[str]:
    """Read, report, verify and try to continue a run that an older version wrote."""
    run = f"by-{tree.name}"
    argv = ("harness.py", *DEMO, "--environment", "none", "--run", run)
    tree.run(*argv)
    path = after.run_folder(run)
    shutil.copytree(tree.run_folder(run), path)
    folder = str(path)
    description = json.loads(_text_of(path / "run.json"))
    version = description["versions"]["harness"]
    for command in (
        ("harness.py", "status", run),
        ("report.py", folder, "--evaluator", "local"),
        ("report.py", folder, "--evaluator", "none", "--format", "markdown"),
        ("report.py", "verify", folder),
    ):
        result = after.call(*command)
        title = f"run of {version}: {' '.join(command)}"
        print(f"{title}: exit {result.returncode}")
        if result.returncode:
            yield f"{title}: {result.stderr or result.stdout}"
    refusal = after.call(*argv)
    message = refusal.stderr.strip()
    print(f"run of {version}: {message}")
    if refusal.returncode != 2 or len(message.splitlines()) != 1:
        yield f"continuing a run of {version} is not refused in one line"
    versions = set(re.findall(r"\d+\.\d+\.\d+", message))
    if not versions >= {version, HARNESS_VERSION}:
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
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = (work or Path(scratch)).resolve()
        after = Tree("after", TOP, folder, dict(read_pairs(RESPELLINGS)))
        # Runs of BEFORE may be kept from an earlier comparison; those of this tree may not.
        shutil.rmtree(after.out, ignore_errors=True)
        with worktree(before, folder) as tree:
            if "demo" in parts:
                lines += compare_demo(tree, after, environment, by_value=by_value)
                lines += compare_messages(tree, after)
            if "exits" in parts:
                lines += compare_exit_codes(tree, after)
            if "continued" in parts:
                lines += compare_continued(tree, after, by_value=by_value)
            if "recorded" in parts and recorded and rows and repos:
                for matching in ("reference", "tolerant"):
                    lines += compare_recorded(
                        tree, after, recorded, rows, repos, matching, by_value=by_value
                    )
        if "older" in parts and older_commit:
            with worktree(older_commit, folder) as tree:
                lines += check_older(tree, after)
    print("\n".join(lines) or "no difference")
    raise typer.Exit(bool(lines))


if __name__ == "__main__":
    typer.run(main)
