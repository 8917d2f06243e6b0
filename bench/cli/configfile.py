"""Options from files: ``--config FILE.yaml``, and ``--continue RUN`` from a run's ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from core.address import HIDDEN_USER
from core.errors import UserError
from core.options import options_of
from core.parsing.untrusted import MIB, DamagedError, TextLoader, yaml_of
from environments.options import absolute
from runs.description import Run
from runs.keys import RUN_FILE
from runs.options import TOP
from runs.storage.store import RunStore
from runs.storage.versions import HARNESS_VERSION

CONTINUE = "continue_"
_FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
}


def recorded_defaults(
    params: Sequence[Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the defaults, by parameter, that the files on a command line give."""
    file = _of_file(Path(str(given["config"])), params) if given.get("config") else {}
    if given.get(CONTINUE) is None:
        return file
    run = str(given[CONTINUE])
    if given.get("run") or file.get("run"):
        raise UserError(f"--continue {run} names the run; leave --run out")
    return _of_run(run, {**file, **given}, params) | file


def options_given(
    groups: Sequence[type[Any]], context: typer.Context
) -> dict[str, Any]:
    """Return by name the options of a run that the command line or a file gave."""
    return {
        option.name.lstrip("-"): _plain(
            context.params[option.key], links=option.read is absolute
        )
        for option, _ in options_of(*groups)
        if option.recorded
        and (source := context.get_parameter_source(option.key))
        and source.name != "DEFAULT"
    }


def _of_run(
    run: str, given: Mapping[str, Any], params: Sequence[Any]
) -> dict[str, Any]:
    place = Path(run).expanduser()
    if not run:
        raise UserError("--continue is empty; give the name or the folder of a run")
    if place.name != run or (place / RUN_FILE).exists():
        folder = place.resolve()
    else:
        top = Path(given.get("out") or TOP)
        folder = top.expanduser().resolve() / "predictions" / run
    store = RunStore.of_folder(folder)
    description = store.read_run() or Run()
    version = description.versions.get("harness")
    if description.is_ours and version != HARNESS_VERSION:
        raise UserError(
            f"--continue {run}: version {version} of the harness started it, and "
            f"this is {HARNESS_VERSION}; continue it with that version, or start another --run"
        )
    if not description.has("options"):
        raise UserError(
            f"--continue {run}: {folder / RUN_FILE} records no options; repeat the command that "
            "started the run"
        )
    found = _by_parameter(description.options, params, f"--continue {run}")
    address = found.get("api_base")
    if (
        isinstance(address, str)
        and HIDDEN_USER in address
        and not given.get("api_base")
    ):
        raise UserError(
            f"--continue {run}: user, password and query of --api-base {address} are not recorded; "
            "give --api-base again"
        )
    return {**found, "run": folder.name, "out": str(store.out)}


def _of_file(path: Path, params: Sequence[Any]) -> dict[str, Any]:
    try:
        text = path.expanduser().read_text(encoding="utf-8-sig")
        data = yaml_of(text, TextLoader, MIB)
    except OSError as error:
        raise UserError(
            f"--config {path}: cannot be read ({error.strerror})"
        ) from error
    except (DamagedError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path}: is not YAML: {error}") from error
    if not isinstance(data, dict):
        raise UserError(
            f"--config {path}: give options with their values, as `models: gpt-4o`"
        )
    return _by_parameter(data, params, f"--config {path}")


def _by_parameter(
    data: Mapping[Any, Any], params: Sequence[Any], where: str
) -> dict[str, Any]:
    known = {name.removeprefix("--"): param for param in params for name in param.opts}
    found = {}
    for key, value in data.items():
        name = str(key).replace("_", "-")
        if name not in known or known[name].name in ("config", CONTINUE):
            close = get_close_matches(name, {*known} - {"config", "continue"}, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UserError(f"{where}: there is no option {name!r}{hint}")
        if value not in ("", "null", "~", None):
            found[known[name].name] = _value(known[name], value, f"{where}: {name}")
    return found


def _value(param: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - whatever YAML has
    if isinstance(value, dict):
        raise UserError(f"{where}: give a value or a list, not keys with values")
    if getattr(param, "is_flag", False):
        if str(value).lower() not in _FLAGS:
            raise UserError(f"{where}: give true or false")
        return _FLAGS[str(value).lower()]
    texts = [str(part) for part in value] if isinstance(value, list) else str(value)
    if param.multiple:
        return texts if isinstance(texts, list) else [texts]
    return ",".join(texts) if isinstance(texts, list) else texts


def _plain(value: Any, *, links: bool) -> Any:  # noqa: ANN401 - any value of an option
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(
            absolute("", [value], None)[0] if links else value.expanduser().resolve()
        )
    if isinstance(value, (list, tuple)):
        return [_plain(part, links=links) for part in value]
    return value
