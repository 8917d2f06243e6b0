"""Read the issue that ``--issue`` names: a text, a file, or one of a server that is not trusted."""

from __future__ import annotations

import os
import re
import time
from typing import Any, TextIO
from urllib.parse import quote, urlsplit

from pydantic import AliasChoices, AliasPath, BaseModel, Field, ValidationError

from core.address import parse_address, without_logins
from core.errors import InfrastructureError, UserError
from core.parsing.untrusted import MIB, fault_of, json_of
from core.plaintext import shortened

_MOST_BYTES, _MOST_ANSWER, _MOST_PAGES = MIB, 4 * MIB, 30
_TIMEOUT, _ALL_SECONDS = 10.0, 60.0
_GITHUB = "https://github.com"
# GitLab has groups in groups and /-/; its work items are issues in another view.
_NAME = r"(?!(?:\.+|-)/)[\w.~-]+"
_PATH = re.compile(
    rf"/({_NAME}(?:/{_NAME})+)(/-)?/(?:issues|work_items)/([0-9]{{1,18}})"
)
_FAULTS = dict.fromkeys((404, 410), "there is no such issue, or it is not public")
_FAULTS |= dict.fromkeys((401, 403, 429), "the server wants a login or fewer requests")
_FAULTS |= dict.fromkeys((301, 302, 303, 307, 308), "it has moved to another address")
_USER = AliasChoices(AliasPath("user", "login"), AliasPath("author", "username"))


class Issue(BaseModel, frozen=True):
    """What an agent is asked to solve; without a number where it is not from a server."""

    text: str  # title, body, and what its author wrote below
    title: str
    number: int | None = None
    repo: str = ""  # OWNER/NAME on its server
    url: str = ""  # without query and fragment
    note: str = ""  # what could not be read, for the user


class _Post(BaseModel):
    title: str = ""  # a comment has none
    body: str | None = Field(None, validation_alias=AliasChoices("body", "description"))
    user: str | None = Field(None, validation_alias=_USER)  # None for a deleted account
    pull_request: Any = None
    system: bool = False  # GitLab also lists its own remarks as comments


def read_issue(given: str, stdin: TextIO) -> Issue:
    """Return the issue that the value of ``--issue`` means.

    Raises:
        UserError: the value, the file or the address is of no use, with the fix.
        InfrastructureError: the server or the way to it failed.
    """
    shown = f"--issue {without_logins(shortened(given, 300))}"
    try:
        if given == "-":
            return _of_text(stdin.read(_MOST_BYTES + 1), shown)
        if os.path.exists(name := os.path.expanduser(given)):  # noqa: PTH110, PTH111 - of any length
            with open(name, "rb") as file:  # noqa: PTH123 - also the pipe of a shell's <(...)
                return _of_text(file.read(_MOST_BYTES + 4).decode(), shown)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{shown}: cannot be read as UTF-8 of at most 1 MiB: {error}"
        ) from error
    if re.fullmatch(r"https?://\S*", given.strip(), re.IGNORECASE):
        return _fetch(given.strip(), shown)
    if not re.search(r"\s", given.strip()) and re.search(
        r"[/\\]|\w\.\w+$", given.strip()
    ):
        raise UserError(
            f"{shown}: there is no such file; give a file, -, an address or a text"
        )
    return _of_text(given, "--issue")


def _of_text(text: str, shown: str, **more: Any) -> Issue:  # noqa: ANN401 - fields of Issue
    # Neither JSON files nor arguments of commands can hold the rest.
    clean = (
        text.encode("utf-8", "replace")
        .decode()
        .removeprefix("\ufeff")
        .replace("\0", "")
    )
    clean = clean.replace("\r\n", "\n").strip()
    if not clean or len(clean.encode()) > _MOST_BYTES:
        wrong = "larger than 1 MiB; give the part that matters" if clean else "empty"
        raise UserError(f"{shown}: is {wrong}")
    title = shortened(clean.partition("\n")[0].lstrip("# "), 200)
    return Issue(text=clean, title=title, **more)


def _fetch(given: str, shown: str) -> Issue:
    import httpx

    parts = urlsplit(parse_address("--issue", given).given)
    host, match = parts.netloc.lower(), _PATH.fullmatch(parts.path.rstrip("/"))
    if "@" in host or not match:  # nothing of a login is shown
        raise UserError(
            f"--issue: give an address as {_GITHUB}/OWNER/NAME/issues/5, without login"
        )
    (repo, gitlab, number), origin, token = (
        match.groups(),
        f"{parts.scheme}://{host}",
        "",
    )
    api, comments = f"{origin}/api/v1/repos/{repo}/issues/{number}", "comments"
    server = (os.environ.get("GITHUB_SERVER_URL") or _GITHUB).rstrip("/")
    if gitlab:
        api, comments = (
            f"{origin}/api/v4/projects/{quote(repo, '')}/issues/{number}",
            "notes",
        )
    elif host.removeprefix("www.") == urlsplit(server).netloc.lower():
        usual = "https://api.github.com" if server == _GITHUB else f"{server}/api/v3"
        base = (os.environ.get("GITHUB_API_URL") or usual).rstrip("/")
        api, token = (
            f"{base}/repos/{repo}/issues/{number}",
            os.environ.get("GITHUB_TOKEN", ""),
        )
    try:
        text, note = _read(api, comments, token.strip())
    except (
        UserError,
        httpx.HTTPError,
        httpx.InvalidURL,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        kind = UserError if isinstance(error, UserError) else InfrastructureError
        words = (
            fault_of(error)
            if isinstance(error, ValidationError)
            else str(error) or repr(error)
        )
        raise kind(f"{shown}: cannot be read: {shortened(words, 300)}") from error
    return _of_text(
        text, shown, number=number, repo=repo, url=origin + match[0], note=note
    )


def _read(api: str, comments: str, token: str) -> tuple[str, str]:
    end = time.monotonic() + _ALL_SECONDS
    post = _Post.model_validate(_get(api, token, end)[0])
    if post.pull_request is not None or not post.title:
        raise UserError(
            "it is a pull request or another thing; give the address of an issue"
        )
    blocks = [post.title, post.body]
    query = "per_page=100&sort=asc&order_by=created_at" if post.user else ""
    try:
        for _ in range(_MOST_PAGES):
            found, query = (
                _get(f"{api}/{comments}?{query}", token, end) if query else ([], "")
            )
            said = map(_Post.model_validate, found)
            blocks += [
                one.body for one in said if one.user == post.user and not one.system
            ]
        note = f"only {_MOST_PAGES} pages of comments were read" if query else ""
    except UserError as error:
        note = f"comments were not read: {error}"
    return "\n\n".join(
        block.strip() for block in blocks if block and block.strip()
    ), note


def _get(address: str, token: str, end: float) -> tuple[Any, str]:
    """Return an answer, and the query of the next page, whose address could be on any server."""
    import httpx

    # Other codings could expand to gigabytes.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if re.fullmatch(r"[!-~]+", token):  # the message about another would show it
        headers["Authorization"] = f"Bearer {token}"
    content = bytearray()
    with httpx.stream("GET", address, headers=headers, timeout=_TIMEOUT) as response:
        for part in response.iter_raw():
            content += part
            if len(content) > _MOST_ANSWER or time.monotonic() > end:
                raise ValueError(
                    "an answer has more than 4 MiB, or takes more than 60 s"
                )
    status = response.status_code
    if status in _FAULTS:
        raise UserError(
            f"{_FAULTS[status]} (HTTP {status}); set GITHUB_TOKEN, or give the text"
        )
    if status != 200:
        raise ValueError(f"the server answers HTTP {status}")
    return json_of(bytes(content)), urlsplit(
        response.links.get("next", {}).get("url", "")
    ).query
