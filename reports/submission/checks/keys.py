"""Find API keys of providers by their format."""

from __future__ import annotations

import re
from collections.abc import Iterable

from core.redaction import Redactor

# Each pattern is long enough that no word or hash matches it.
_SHAPES = {
    "a key of Anthropic": r"sk-ant-[\w-]{24,}",
    "a key of OpenRouter": r"sk-or-v1-[0-9a-f]{32,}",
    "a key of OpenAI": r"sk-(?:proj|svcacct|admin)-[\w-]{40,}|sk-[A-Za-z0-9]{32,}",
    "a token of GitHub": r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50,}",
    "a token of GitLab": r"glpat-[\w-]{20,}",
    "a key of AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "a key of Google": r"AIza[\w-]{35}",
    "a token of Hugging Face": r"hf_[A-Za-z0-9]{34,}",
    "a key of Groq": r"gsk_[A-Za-z0-9]{40,}",
    "a key of xAI": r"xai-[A-Za-z0-9]{40,}",
    "a token of Slack": r"xox[abprs]-[A-Za-z0-9-]{20,}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40,}",
}
_ANY = re.compile(
    "|".join(f"(?P<s{n}>(?<![\\w-])(?:{shape}))" for n, shape in enumerate(_SHAPES.values()))
)
# A quick check before the regular expression, because most texts contain none of these.
_BEGINNINGS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza",
    "hf_", "gsk_", "xai-", "xox", "-----BEGIN",
)  # fmt: skip
_NAMES = tuple(_SHAPES)
# The overlap of two blocks; no key is longer.
OVERLAP = 512


def secret_in(text: str, redact: Redactor) -> str | None:
    """Return a description of a secret in ``text``, None if there is none.

    Args:
        text: the text to search.
        redact: contains the values of this environment's secrets.
    """
    if name := redact.named_in(text):
        return f"the value of {name}"
    if not any(beginning in text for beginning in _BEGINNINGS):
        return None
    match = _ANY.search(text)
    return _NAMES[int(str(match.lastgroup)[1:])] if match else None


def secret_in_blocks(blocks: Iterable[bytes], redact: Redactor) -> str | None:
    """Return a description of a secret in a text of several blocks; reads all blocks."""
    found, tail = None, b""
    for block in blocks:
        data = tail + block
        found = found or secret_in(data.decode("utf-8", "replace"), redact)
        tail = data[-OVERLAP:]
    return found
