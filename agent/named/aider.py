"""aider. It exits with 0 after errors, and would call a second model for messages of commits."""

from __future__ import annotations

from agent.named.base import NamedAgent, shell

AGENT = NamedAgent(
    name="aider",
    program="aider",
    words=shell(
        # Its own files in the checkout are not part of its edits.
        "echo '.aider*' >>.git/info/exclude; "
        'aider --model "openai/$1" --weak-model "openai/$1" --message-file "$0" '
        "--yes-always --no-check-update "
        "--analytics-disable --no-auto-commits --no-dirty-commits --no-gitignore "
        "--no-show-model-warnings --no-show-release-notes --no-pretty --no-detect-urls "
        "--no-suggest-shell-commands --edit-format diff "
        "--chat-history-file /dev/null --input-history-file /dev/null"
    ),
    dialect="chat",
    tested="0.86.2",
    install="pipx install aider-chat==0.86.2",
    licence="Apache-2.0",
)
