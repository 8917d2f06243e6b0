"""Tokens or words of a text, by the tokenizer that a setting names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from swe_retry.kit import UserError, abbreviate

WORDS = "words"


def token_counter(
    tokenizer: Path | None, setting: str
) -> tuple[Callable[[str], int], str]:
    """Return a function that counts tokens, or words between white space, and its name.

    Args:
        tokenizer: a folder with ``tokenizer.json``, or this file; None counts words.
        setting: names the tokenizer in messages.
    """
    if tokenizer is None:
        return lambda text: len(text.split()), WORDS
    fix = f"give a folder with tokenizer.json, or leave {setting} out"
    try:
        return _count_by(tokenizer), tokenizer.resolve().name
    except ModuleNotFoundError as error:
        raise UserError(
            f"{setting} {tokenizer} needs the package {error.name}; {fix}"
        ) from error
    except Exception as error:  # of any class, for files that cannot be read
        reason = abbreviate(str(error), 200)
        raise UserError(
            f"{setting} {tokenizer} cannot be used ({reason}); {fix}"
        ) from error


def _count_by(path: Path) -> Callable[[str], int]:
    file = path
    if path.is_dir():
        file = path / "tokenizer.json"
    if not file.exists() and path.is_dir():
        from transformers import AutoTokenizer  # type: ignore[import-not-found, unused-ignore]

        slow = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
        return lambda text: len(slow.encode(text, add_special_tokens=False))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    # A limit in the file is for training.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
