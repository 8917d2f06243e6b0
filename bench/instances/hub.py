"""Load datasets from the Hugging Face hub, or from its local cache while it cannot be reached."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from core.errors import InfrastructureError, UserError

Row = Mapping[str, Any]

_REVISION = re.compile(r"^hf://datasets/[^@]+@([0-9a-f]{40})/")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_TIMEOUT = 10.0


def rows_of_hub(
    name: str, split: str, revision: str = "", config: str = ""
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
            found = load_from_hub(name, config or None, split=split, revision=revision or None)
            held = revision_of(found.info.download_checksums or ())
            _check_revision(name, revision, held)
            return list(found), held
    except DatasetNotFoundError as error:
        raise UserError(f"the hub has no dataset {name} that you may read: {error}") from error
    except ValueError as error:
        wanted = f"split {split!r}" + (f" in the configuration {config!r}" if config else "")
        raise UserError(f"the dataset {name} has no {wanted}: {error}") from error
    except InfrastructureError:
        raise
    except Exception as error:  # the client raises errors of many libraries
        raise InfrastructureError(f"cannot load {name} from the hub: {error}") from error


def _check_revision(name: str, asked: str, held: str) -> None:
    """Refuse other rows than those asked for: offline, the library takes what its cache has."""
    if _COMMIT.fullmatch(asked) and held and not held.startswith(asked):
        raise InfrastructureError(
            f"cannot load {name}@{asked}: the hub is not reached, and the local cache has the "
            f"revision {held}"
        )


@contextmanager
def _offline_if_unreachable(name: str) -> Iterator[None]:
    """Ask the hub once; if it does not answer, let the libraries use their cache only."""
    unreachable = _hub_unreachable(name)
    if not unreachable:
        yield
        return
    import datasets.config
    import huggingface_hub.constants

    places: tuple[Any, ...] = (huggingface_hub.constants, datasets.config)
    before = [place.HF_HUB_OFFLINE for place in places]
    for place in places:
        place.HF_HUB_OFFLINE = True
    try:
        yield
    except Exception as error:
        raise InfrastructureError(
            f"cannot load {name} from the hub: {unreachable}; nor is it in the local cache"
        ) from error
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


def _hub_unreachable(name: str) -> str:
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        HfApi().dataset_info(name, timeout=_TIMEOUT)
    except HfHubHTTPError as error:
        status = error.response.status_code
        return f"it answers HTTP {status}" if status >= 500 else ""
    except (httpx.TransportError, OfflineModeIsEnabled, OSError) as error:
        return str(error) or type(error).__name__
    return ""


def revision_of(sources: Iterable[str]) -> str:
    """Return the hub's commit in the addresses of a dataset's files; empty if there is not one.

    The library writes them as ``hf://datasets/OWNER/NAME@COMMIT/FILE``.
    """
    commits = {match[1] for source in sources if (match := _REVISION.search(source))}
    return commits.pop() if len(commits) == 1 else ""
