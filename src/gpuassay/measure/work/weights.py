"""A model of real size with weights that nobody trained: what is read at start-up, byte for byte as much.

Written in the form of safetensors (its README: eight bytes that give the length of a header of JSON, the
header, the numbers), without its library, and with a tokenizer that has a token for each byte. Nothing on
the way can compress the numbers: sign and mantissa of each are random, by a seed.
"""

from __future__ import annotations

import json
import random
import struct
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SEED = 20261130
_ELEMENT = 2  # bfloat16
_BLOCK = 1 << 20  # numbers that are written at once
_LOOSE = 0x80FF.to_bytes(2, "little")  # of each number: the sign, and a bit of exponent and mantissa below it
_SHARD = 5_000_000_000  # bytes, the size in which models are published
_BASE = 0.02


def shape(args: Mapping[str, Any]) -> dict[str, int]:
    """Take the sizes of a model from arguments."""
    names = ("hidden", "layers", "heads", "kv_heads", "intermediate", "vocab")
    return {name: int(args[name]) for name in names}


def tensors(model: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name each tensor of a model of the Llama family, and give its sides."""
    hidden, wide = model["hidden"], model["intermediate"]
    head = hidden // model["heads"]
    attention = {"q": hidden, "k": head * model["kv_heads"], "v": head * model["kv_heads"]}
    yield "model.embed_tokens.weight", (model["vocab"], hidden)
    for layer in range(model["layers"]):
        at = f"model.layers.{layer}"
        for name, rows in attention.items():
            yield f"{at}.self_attn.{name}_proj.weight", (rows, hidden)
        yield f"{at}.self_attn.o_proj.weight", (hidden, hidden)
        yield f"{at}.mlp.gate_proj.weight", (wide, hidden)
        yield f"{at}.mlp.up_proj.weight", (wide, hidden)
        yield f"{at}.mlp.down_proj.weight", (hidden, wide)
        yield f"{at}.input_layernorm.weight", (hidden,)
        yield f"{at}.post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (model["vocab"], hidden)


def size(model: Mapping[str, int]) -> int:
    """Tell how many bytes its weights are."""
    return sum(_bytes(sides) for _, sides in tensors(model))


def write(folder: Path, model: Mapping[str, int]) -> int:
    """Write a model into a folder; gives the bytes of its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = _shards(model)
    index: dict[str, str] = {}
    numbers = _numbers(random.Random(SEED))  # noqa: S311 - no secret
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        index |= dict.fromkeys(shard, name)
        _write_shard(folder / name, shard, numbers)
    total = size(model)
    _dump(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index})
    _dump(folder / "config.json", config(model))
    for name, document in tokenizer(model["vocab"]).items():
        _dump(folder / name, document)
    return total


def config(model: Mapping[str, int]) -> dict[str, Any]:
    """Give the configuration by which it is loaded."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": model["hidden"],
        "intermediate_size": model["intermediate"],
        "num_hidden_layers": model["layers"],
        "num_attention_heads": model["heads"],
        "num_key_value_heads": model["kv_heads"],
        "vocab_size": model["vocab"],
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def tokenizer(vocabulary: int) -> dict[str, dict[str, Any]]:
    """Give the files of a tokenizer that stands in for a trained one: a token for each byte, two marks."""
    marks = ["<s>", "</s>"]
    letters = [*marks, *_letters()][:vocabulary]
    added = [
        {"id": number, "content": mark, "special": True, "single_word": False, "lstrip": False}
        | {"rstrip": False, "normalized": False}
        for number, mark in enumerate(marks)
    ]
    return {
        "tokenizer.json": {
            "version": "1.0",
            "added_tokens": added,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            "decoder": {"type": "ByteLevel"},
            "model": {
                "type": "BPE",
                "vocab": {letter: number for number, letter in enumerate(letters)},
                "merges": [],
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "model_max_length": 8192,
        },
    }


def _letters() -> list[str]:
    """Give the letters by which tokenizers of this kind write bytes: printable ones stand for themselves."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _bytes(sides: tuple[int, ...]) -> int:
    count = _ELEMENT
    for side in sides:
        count *= side
    return count


def _shards(model: Mapping[str, int]) -> list[dict[str, tuple[int, ...]]]:
    shards: list[dict[str, tuple[int, ...]]] = [{}]
    room = _SHARD
    for name, sides in tensors(model):
        if _bytes(sides) > room and shards[-1]:
            shards.append({})
            room = _SHARD
        shards[-1][name] = sides
        room -= _bytes(sides)
    return shards


def _write_shard(file: Path, shard: Mapping[str, tuple[int, ...]], numbers: Iterator[bytes]) -> None:
    header, end = {}, 0
    for name, sides in shard.items():
        header[name] = {"dtype": "BF16", "shape": sides, "data_offsets": [end, end := end + _bytes(sides)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as opened:
        opened.write(struct.pack("<Q", len(text)) + text)
        blocks, rest = divmod(end, _BLOCK * _ELEMENT)
        for block in islice(numbers, blocks):
            opened.write(block)
        opened.write(next(numbers)[:rest] if rest else b"")


def _numbers(seeded: random.Random) -> Iterator[bytes]:
    """Give blocks of numbers around zero, no two alike."""
    base = b"".join(
        struct.pack("<f", seeded.gauss(0.0, _BASE))[2:] for _ in range(1 << 12)
    )  # the upper half of a float is a bfloat16
    block = int.from_bytes(base * (_BLOCK * _ELEMENT // len(base)), "little")
    loose = int.from_bytes(_LOOSE * _BLOCK, "little")
    while True:
        mixed = block ^ (seeded.getrandbits(8 * _BLOCK * _ELEMENT) & loose)
        yield mixed.to_bytes(_BLOCK * _ELEMENT, "little")


def _dump(file: Path, document: object) -> None:
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
