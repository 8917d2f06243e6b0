"""Completion of options in bash, zsh and fish, also for a script that is not in PATH.

typer completes the words. Its own shell scripts call only commands in PATH; these call the script
as it was typed.
"""

from __future__ import annotations

import os
from pathlib import Path

from shellingham import ShellDetectionFailure, detect_shell

from core.errors import UserError

_BASH = """\
{function}() {{
    local IFS=$'\\n' program=${{1/#\\~\\//$HOME/}}
    COMPREPLY=( $(COMP_WORDS="${{COMP_WORDS[*]}}" COMP_CWORD=$COMP_CWORD \\
        {variable}=complete_bash "$program" 2>/dev/null </dev/null) )
}}
complete -o default -F {function} {name}
"""
_ZSH = """\
#compdef {name}
{function}() {{
    eval "$(_TYPER_COMPLETE_ARGS="${{words[1,$CURRENT]}}" {variable}=complete_zsh \\
        ${{~words[1]}} 2>/dev/null </dev/null)"
}}
compdef {function} {name}
"""
_FISH = """\
function {function}
    set -l program (string replace -r '^~/' "$HOME/" -- (commandline -opc)[1])
    set -l found (env _TYPER_COMPLETE_FISH_ACTION=get-args \\
        _TYPER_COMPLETE_ARGS=(commandline -cp) \\
        {variable}=complete_fish $program 2>/dev/null </dev/null)
    if string length -q -- $found
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command {name} --no-files --arguments '({function})'
"""
_SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion_variable(name: str) -> str:
    """Return the environment variable by which a shell asks the script ``name`` for words."""
    return f"_{_identifier(name).upper()}_COMPLETE"


def completion_script(shell: str, name: str) -> str:
    """Return the lines by which ``shell`` completes the script ``name``."""
    identifier = _identifier(name)
    return _SHELLS[shell].format(
        name=name, variable=completion_variable(name), function=f"_{identifier}_completion"
    )


def install_completion(name: str, home: Path | None = None, shell: str = "") -> str:
    """Write the completion of the script ``name`` where the user's shell reads it.

    Args:
        name: of the script.
        home: the user's own folder, by default.
        shell: the one that is running, by default.

    Returns:
        What was done, and what the user has to do.

    Raises:
        UserError: the shell is unknown.
    """
    shell, home = shell or _running_shell(), home or Path.home()
    if shell not in _SHELLS:
        raise UserError(
            f"--install-completion: {shell or 'the running shell'} is not supported; use bash, zsh "
            "or fish"
        )
    script = completion_script(shell, name)
    if shell == "fish":
        place = home / ".config" / "fish" / "conf.d" / f"{name}.fish"
        _write(place, script)
        return f"wrote {place}; open a new shell"
    place = home / ".local" / "share" / "swe-retry-harness" / f"{name}.{shell}"
    _write(place, script)
    start = home / f".{shell}rc"
    line = f"source {place}"
    before = start.read_text(encoding="utf-8") if start.exists() else ""
    if line not in before.splitlines():
        first = "autoload -Uz compinit && compinit\n" if shell == "zsh" else ""
        first = "" if "compinit" in before else first
        with start.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{first}{line}\n")
    return f"wrote {place}, which {start} reads; open a new shell"


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _running_shell() -> str:
    try:
        return str(detect_shell()[0])
    except ShellDetectionFailure:
        return Path(os.environ.get("SHELL", "")).name


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
