"""Read the issue that ``--issue`` names: a text, a file, or one of a server that is not trusted."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, TextIO
from urllib.parse import quote, urlsplit

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
)

from swe_retry.core.address import parse_address, without_logins
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.plaintext import abbreviate
from swe_retry.core.untrusted import MIB, fault_of, json_of
from swe_retry.record.records import list_or_empty

_MAX_BYTES = MIB
_MAX_ANSWER = 4 * MIB
_MAX_PAGES = 30
_TIMEOUT = 10.0
_MAX_SECONDS = 60.0
_GITHUB = "https://github.com"
# GitLab has groups in groups and /-/; its work items are issues in another view.
_NAME = r"(?!(?:\.+|-)/)[\w.~-]+"
_PATH = re.compile(
    rf"/({_NAME}(?:/{_NAME})+)(/-)?/(?:issues|work_items)/([0-9]{{1,18}})"
)
_FAULTS = {
    404: "there is no such issue, or it is not public",
    410: "there is no such issue, or it is not public",
    401: "the server wants a login or fewer requests",
    403: "the server wants a login or fewer requests",
    429: "the server wants a login or fewer requests",
    301: "it has moved to another address",
    302: "it has moved to another address",
    303: "it has moved to another address",
    307: "it has moved to another address",
    308: "it has moved to another address",
}


class Issue(BaseModel, frozen=True):
    """What an agent is asked to solve; without a number where it is not from a server.

    Attributes:
        text: title, body, and what its author wrote below.
        url: without query and fragment.
        note: what could not be read, for the user.
    """

    text: str
    title: str
    number: int | None = None
    url: str = ""
    note: str = ""


class Post(BaseModel):
    """An issue, a pull request or a comment, as servers and their programs send them.

    Attributes:
        title: a comment has none.
        user: None for a deleted account.
        comments: as ``gh`` gives them; GitHub's API gives their number alone.
        source_branch: only a merge request of GitLab has one.
        system: GitLab also lists its own remarks as comments.
    """

    title: str = ""
    body: str | None = Field(None, validation_alias=AliasChoices("body", "description"))
    user: str | None = Field(
        None,
        validation_alias=AliasChoices(
            AliasPath("user", "login"),
            AliasPath("author", "username"),
            AliasPath("author", "login"),
        ),
    )
    number: int | None = Field(None, validation_alias=AliasChoices("number", "iid"))
    comments: Annotated[tuple[Any, ...], BeforeValidator(list_or_empty)] = ()
    pull_request: Any = None
    source_branch: Any = None
    system: bool = False


@dataclass(frozen=True)
class _Api:
    """The address of an issue for programs, and that of its comments.

    Attributes:
        trusted: it belongs to the server that runs the Action.
    """

    issue: str
    comments: str
    token: str = ""
    trusted: bool = False


def read_issue(value: str, stdin: TextIO) -> Issue:
    """Return the issue that the value of ``--issue`` means.

    Raises:
        UserError: the value, the file or the address is of no use, with the fix.
        InfrastructureError: the server or the way to it failed.
    """
    option = f"--issue {without_logins(abbreviate(value, 300))}"
    path = os.path.expanduser(value)  # noqa: PTH111 - of any length
    try:
        if value == "-":
            return _issue_of_input(stdin.read(_MAX_BYTES + 1), option)
        if os.path.exists(path):  # noqa: PTH110 - of any length
            with open(path, "rb") as file:  # noqa: PTH123 - also the pipe of a shell's <(...)
                return _issue_of_input(file.read(_MAX_BYTES + 4).decode(), option)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{option}: cannot be read as UTF-8 of at most 1 MiB: {error}"
        ) from error
    text = value.strip()
    if re.fullmatch(r"https?://\S*", text, re.IGNORECASE):
        return _fetch(text, option)
    has_space = re.search(r"\s", text)
    looks_like_path = re.search(r"[/\\]|\w\.\w+$", text)
    if looks_like_path and not has_space:
        raise UserError(
            f"{option}: there is no such file; give a file, -, an address or a text"
        )
    return _issue_of_input(value, "--issue")


def _issue_of_input(text: str, option: str) -> Issue:
    """Return the issue of a text, which may be the JSON of a server or of its program."""
    try:
        post = Post.model_validate(json_of(text.removeprefix("\ufeff")))
        joined = _join_posts(post, map(Post.model_validate, post.comments))
    except ValueError:
        return _issue_of_text(text, option)
    if not post.title:
        return _issue_of_text(text, option)
    return _issue_of_text(joined, option, number=post.number)


def _join_posts(issue: Post, comments: Iterable[Post]) -> str:
    """Return the text of an issue with the comments of its author."""
    texts = [issue.title, issue.body]
    for comment in comments:
        if issue.user and comment.user == issue.user and not comment.system:
            texts.append(comment.body)
    blocks = [text.strip() for text in texts if text]
    return "\n\n".join(filter(None, blocks))


def _issue_of_text(text: str, option: str, **values: Any) -> Issue:  # noqa: ANN401
    """Return the issue of a text; ``values`` are further fields of it."""
    # Neither JSON files nor arguments of commands can hold the rest.
    text = text.encode("utf-8", "replace").decode()
    text = text.removeprefix("\ufeff")
    text = text.replace("\0", "")
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise UserError(f"{option}: is empty")
    if len(text.encode()) > _MAX_BYTES:
        raise UserError(f"{option}: is larger than 1 MiB; give the part that matters")
    title = abbreviate(text.partition("\n")[0].lstrip("# "), 200)
    return Issue(text=text, title=title, **values)


def _fetch(address: str, option: str) -> Issue:
    import httpx

    parts = parse_address("--issue", address)
    host = parts.netloc.lower()
    match = _PATH.fullmatch(parts.path.rstrip("/"))
    if "@" in host or not match:  # nothing of a login is shown
        raise UserError(
            f"--issue: give an address as {_GITHUB}/OWNER/NAME/issues/5, without login"
        )
    origin = f"{parts.scheme}://{host}"
    repo, gitlab, number = match.groups()
    api = _api_of(
        origin,
        host,
        repo,
        number,
        is_gitlab=bool(gitlab),
    )
    try:
        text, note = _read_posts(api)
    except UserError as error:
        raise UserError(f"{option}: cannot be read: {_describe(error)}") from error
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise InfrastructureError(
            f"{option}: cannot be read: {_describe(error)}"
        ) from error
    url = origin + match[0]
    return _issue_of_text(
        text,
        option,
        number=number,
        url=url,
        note=note,
    )


def _describe(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return abbreviate(fault_of(error), 300)
    return abbreviate(str(error) or repr(error), 300)


def _api_of(origin: str, host: str, repo: str, number: str, *, is_gitlab: bool) -> _Api:
    """Return the address of GitLab, GitHub, or else of a server such as Gitea and Forgejo."""
    if is_gitlab:
        project = quote(repo, "")
        return _Api(f"{origin}/api/v4/projects/{project}/issues/{number}", "notes")
    server = (os.environ.get("GITHUB_SERVER_URL") or _GITHUB).rstrip("/")
    if host.removeprefix("www.") != urlsplit(server).netloc.lower():
        return _Api(f"{origin}/api/v1/repos/{repo}/issues/{number}", "comments")
    default = f"{server}/api/v3"
    if server == _GITHUB:
        default = "https://api.github.com"
    base = (os.environ.get("GITHUB_API_URL") or default).rstrip("/")
    token = os.environ.get("GITHUB_TOKEN", "").strip()
    address = f"{base}/repos/{repo}/issues/{number}"
    return _Api(address, "comments", token, trusted=True)


def _read_posts(api: _Api) -> tuple[str, str]:
    """Return an issue with its author's comments, and a note on comments that are missing."""
    deadline = time.monotonic() + _MAX_SECONDS
    answer, _ = _get(api.issue, api, deadline)
    issue = Post.model_validate(answer)
    if issue.pull_request is not None or not issue.title:
        raise UserError(
            "it is a pull request or another thing; give the address of an issue"
        )
    comments: list[Post] = []
    query = ""
    if issue.user:
        query = "per_page=100&sort=asc&order_by=created_at"
    pages = 0
    note = ""
    try:
        while query and pages < _MAX_PAGES:
            address = f"{api.issue}/{api.comments}?{query}"
            answer, query = _get(address, api, deadline)
            pages += 1
            comments += map(Post.model_validate, answer)
        if query:
            note = f"only {_MAX_PAGES} pages of comments were read"
    except UserError as error:
        note = f"comments were not read: {error}"
    return _join_posts(issue, comments), note


def _is_public(address: str) -> bool:
    """Return whether an address is in no private or reserved network."""
    ip = ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None) or ip
    return bool(mapped.is_global) and not mapped.is_multicast


def _public_address(host: str) -> str:
    """Return an address of ``host``; raises UserError unless all are public."""
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = [str(info[4][0]) for info in infos]
    if not all(map(_is_public, addresses)):
        raise UserError("its server is not public; give the text of the issue")
    return addresses[0]


def _get(address: str, api: _Api, deadline: float) -> tuple[Any, str]:
    """Return an answer, and the query of the next page, whose address could be on any server."""
    import httpx

    # Other codings could expand to gigabytes.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if re.fullmatch(r"[!-~]+", api.token):  # the message about another would show it
        headers["Authorization"] = f"Bearer {api.token}"
    url = httpx.URL(address)
    extensions = {}
    if os.environ.get("GITHUB_ACTIONS") and not api.trusted:
        # Another lookup of the name could lead elsewhere.
        headers["Host"] = url.netloc.decode()
        extensions["sni_hostname"] = url.host
        url = url.copy_with(host=_public_address(url.host))
    content = bytearray()
    with (
        httpx.Client(headers=headers, timeout=_TIMEOUT) as client,
        client.stream("GET", url, extensions=extensions) as response,
    ):
        for part in response.iter_raw():
            content += part
            if len(content) > _MAX_ANSWER or time.monotonic() > deadline:
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
    link = response.links.get("next", {})
    next_page = urlsplit(link.get("url", ""))
    return json_of(bytes(content)), next_page.query
