"""Rows of data sets on the hub, or in its local cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.instances.adapters.adapter import Row

_CACHED_REVISION = re.compile(r"^hf://datasets/[^@]+@([0-9a-f]{40})/")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_TIMEOUT = 10.0


_FIX = (
    "give its rows with --dataset FILE, run once where the hub is reached and copy its cache "
    "(HF_HOME), or try --dataset demo"
)


def rows_of_hub(
    name: str,
    split: str,
    revision: str = "",
    config: str = "",
) -> tuple[Iterable[Row], str]:
    """Return the rows of one split, and the hub's commit; empty where it is not known.

    Raises:
        UserError: there is no such dataset, split, revision or configuration.
        InfrastructureError: the hub cannot be reached, or the cache has another revision.
    """
    # Without a network the library retries for 23 s and warns each time.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    from datasets import load_dataset as load_from_hub
    from datasets.exceptions import DatasetNotFoundError

    try:
        with _offline_if_unreachable(name):
            rows = load_from_hub(
                name,
                config or None,
                split=split,
                revision=revision or None,
            )
            commit = revision_of(rows.info.download_checksums or ())
            # Offline, the library takes what its cache has.
            if (
                _COMMIT.fullmatch(revision)
                and commit
                and not commit.startswith(revision)
            ):
                raise InfrastructureError(
                    f"cannot load {name}@{revision}: the hub is not reached, and the local cache "
                    f"has the revision {commit}"
                )
            return list(rows), commit
    except DatasetNotFoundError as error:
        raise UserError(
            f"the hub has no dataset {name} that you may read: {error}"
        ) from error
    except ValueError as error:
        selection = f"split {split!r}"
        if config:
            selection += f" in the configuration {config!r}"
        raise UserError(f"the dataset {name} has no {selection}: {error}") from error
    except InfrastructureError:
        raise
    except Exception as error:  # the client raises errors of many libraries
        raise InfrastructureError(
            f"cannot load {name} from the hub: {error}; {_FIX}"
        ) from error


@contextmanager
def _offline_if_unreachable(name: str) -> Iterator[None]:
    """Ask the hub once; if it does not answer, let the libraries use their cache only."""
    unreachable = _hub_unreachable(name)
    if not unreachable:
        yield
        return
    import datasets.config
    import huggingface_hub.constants

    modules: tuple[Any, ...] = (huggingface_hub.constants, datasets.config)
    before = [module.HF_HUB_OFFLINE for module in modules]
    for module in modules:
        module.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:
        raise InfrastructureError(
            f"cannot load {name} from the hub: {unreachable}; nor is it in the local cache: {_FIX}"
        ) from error
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value


def _hub_unreachable(name: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(name, timeout=_TIMEOUT)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status >= 500:
            return f"it answers HTTP {status}"
    except Exception as error:  # of the HTTP library that the client's version uses
        return str(error) or type(error).__name__
    return ""


def revision_of(sources: Iterable[str]) -> str:
    """Return the hub's commit in the addresses of a dataset's files; empty if there is not one.

    The library writes them as ``hf://datasets/OWNER/NAME@COMMIT/FILE``.
    """
    commits = set()
    for source in sources:
        match = _CACHED_REVISION.search(source)
        if match:
            commits.add(match[1])
    if len(commits) == 1:
        return commits.pop()
    return ""
