"""Options of several benchmarks: lists of known words, and the tokenizer that counts tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from core.errors import UserError
from core.options import option, option_group
from core.plaintext import shortened

WORDS = "words"


def listed(name: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the words of the comma list ``text``, each once; all are among ``known``."""
    words = tuple(
        dict.fromkeys(word.strip() for word in text.split(",") if word.strip())
    )
    wrong = [word for word in words if word not in known]
    if wrong or not words:
        raise UserError(
            f"{name} {','.join(wrong) or text}: there are {', '.join(known)}"
        )
    return words


@option_group
class TokenizerChoice:
    tokenizer: Path | None = option(
        None,
        "Count tokens by the tokenizer in this folder or tokenizer.json; default: count words.",
        "--tokenizer",
    )

    def counter(self) -> tuple[Callable[[str], int], str]:
        """Return a function that counts tokens, or words between white space, and its name."""
        place = self.tokenizer
        if place is None:
            return lambda text: len(text.split()), WORDS
        fix = "give a folder with tokenizer.json, or leave --tokenizer out"
        try:
            return _tokens_by(place), place.resolve().name
        except ModuleNotFoundError as error:
            raise UserError(
                f"--tokenizer {place} needs the package {error.name}; {fix}"
            ) from error
        except (
            Exception
        ) as error:  # both libraries raise any class for files that they cannot read
            words = shortened(str(error), 200)
            raise UserError(
                f"--tokenizer {place} cannot be used ({words}); {fix}"
            ) from error


def _tokens_by(place: Path) -> Callable[[str], int]:
    path = place / "tokenizer.json" if place.is_dir() else place
    if place.is_dir() and not path.exists():
        from transformers import AutoTokenizer  # type: ignore[import-not-found, unused-ignore]

        slow = AutoTokenizer.from_pretrained(str(place), local_files_only=True)
        return lambda text: len(slow.encode(text, add_special_tokens=False))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    # A limit in the file is for training.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
