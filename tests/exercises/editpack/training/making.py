"""Small edits of our own, a tokenizer, and a model of 0.4 million parameters without training."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from exercises.editpack.files import report_of
from exercises.editpack.rows import NEW, OLD, EditRow, file_digest, with_content

END = "<|end|>"
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in "aeiou"]
SHORT = ("--window", 80, "--batch", 3, "--step-windows", 6, "--lr", "3e-3")
"""Of 16 windows: three steps an epoch, the last with four windows."""


def edits(number: int, seed: int = 0) -> list[EditRow]:
    """Return different edits of one kind: a number is doubled, under a name that means nothing.

    There are 3,600 names of two syllables, so a model that writes the right one has copied it; and
    the programs have little besides it, so two of them are no near-duplicates.
    """
    rng = random.Random(seed)
    names = rng.sample([a + b for a in SYLLABLES for b in SYLLABLES], number)
    return [
        with_content(
            {
                OLD: f"{name} = 4\n",
                NEW: f"{name} = 4\n{name} = {name} + {name}\n",
                "message": f"Double {name} after that",
                "license": "MIT",
            }
        )
        for name in names
    ]


def write_rows(path: Path, rows: Iterable[EditRow], *, clean: bool = True) -> Path:
    """Write rows, with a report that shows decontamination if they are ``clean``."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sha256 = file_digest(path)
    command = "decontaminate" if clean else "dedup"
    report = {"command": command, "inputs": [], "output": {"name": path.name, "sha256": sha256}}
    report_of(path).write_text(json.dumps(report))
    return path


def tokenizer_of(texts: Sequence[str], vocabulary: int = 344) -> Any:
    """Return a byte-level BPE tokenizer of ``tokenizers``, made of texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return made


def write_model(folder: Path, texts: Sequence[str], vocabulary: int = 344) -> Path:
    """Write a Llama of 3 layers and width 96 with random weights, and its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokens = tokenizer_of(texts, vocabulary)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token=END, pad_token=END)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=tokens.get_vocab_size(),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def record(tuned: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tuned / "train.json").read_text())
    return found


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
