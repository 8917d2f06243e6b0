"""Model and tokenizer from a local folder or the hub: safetensors alone, and no code of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from core.errors import UserError
from core.plaintext import shortened
from exercises.editpack.training.corpus import Encode

PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "tokenizers", "safetensors")
_REQUIREMENTS = "requirements-train.txt"
_SHOWN = 300


def require_packages(*, deepspeed: bool = False) -> None:
    """Check that the packages of a training are installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"train needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            f"installed; run `pip install -r {_REQUIREMENTS}` (docs/editcoder.md tells how to "
            "choose the CPU build of torch)"
        )
    if deepspeed and find_spec("deepspeed") is None:
        raise UserError("--deepspeed needs deepspeed, which is not installed; install it with pip")


def load_tokenizer(name: str) -> Any:  # noqa: ANN401 - of transformers
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:
        raise _unusable("tokenizer", name, error) from error
    if found.eos_token_id is None:
        raise UserError(f"--model {name}: its tokenizer has no end-of-text token; set eos_token")
    return found


def load_model(name: str, window: int) -> Any:  # noqa: ANN401
    """Return the model with 32-bit weights, which an optimiser of small steps needs."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        found = AutoModelForCausalLM.from_pretrained(
            name, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
    except Exception as error:
        raise _unusable("model", name, error) from error
    most = getattr(found.config, "max_position_embeddings", None)
    if most is not None and window > most:
        raise UserError(f"--window {window}: {name} takes at most {most}; give a shorter one")
    return found


def encoder(tokenizer: Any) -> Encode:  # noqa: ANN401
    """Return a function from texts to tokens, without tokens at the beginning or end.

    A text that reads like a special token is not one: data are of others.
    """

    def encode(texts: list[str]) -> Sequence[Sequence[int]]:
        found: Sequence[Sequence[int]] = tokenizer(
            texts, add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        return found

    return encode


def _unusable(what: str, name: str, error: Exception) -> UserError:
    # Transformers raises OSError, ValueError, ImportError and the errors of its parsers.
    words = shortened(str(error), _SHOWN) or type(error).__name__
    return UserError(
        f"--model {name}: no {what} could be loaded ({words}); give a folder with safetensors and "
        "a tokenizer, or a name on the hub"
    )
