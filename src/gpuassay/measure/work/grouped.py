"""Grouped products: the experts of a mixture-of-experts layer, each with its own weights and its own rows.

With T tokens on each of EP ranks, and every token going to top-k experts, a rank has T * top-k rows for its
experts / EP groups. Routers are never even, so the rows are split unevenly, by a seed.
"""

from __future__ import annotations

import random
import tomllib
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, Any

from gpuassay.measure.work import counts, experts, verify
from gpuassay.measure.work.case import Work, copies
from gpuassay.measure.work.formats import FORMATS, UnsupportedError, double, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuassay.measure.work.device import Device

METHOD = 2
_TINY_SIDE, _TINY_GROUPS, _TINY_ROWS = 64, 4, 16
_SEED = 20261130


def models() -> Mapping[str, Mapping[str, Any]]:
    """Read the table of models. It stays where the suite runs: a node gets cases."""
    text = files("gpuassay.measure").joinpath("models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def cases(args: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give a case for each of ``models``, ``ep``, ``tokens``, ``routing``, within ``least_m`` and ``most_m``.

    These two bound the mean rows of a group; a product of the same size without groups, the yardstick, is
    first.
    """
    table = models()
    chosen = {name: table[name] for name in str(args["models"]).split()}
    sweep = product(chosen, _numbers(args["ep"]), _numbers(args["tokens"]), str(args["routing"]).split())
    found = [
        case
        for name, ep, tokens, routing in sweep
        for case in _of_model(name, chosen[name], ep, tokens, routing)
        if args["least_m"] <= case["rows"] / case["groups"] <= args["most_m"]
    ]
    yardstick = {"model": "", "projection": "dense", "groups": 1, "routing": "even"}
    how = {"format": args["format"], "library": args["library"]}
    return [{**case, **how} for case in ({**yardstick, "n": 8192, "k": 8192, "rows": 8192}, *found)]


def _of_model(
    name: str, model: Mapping[str, Any], ep: int, tokens: int, routing: str
) -> list[dict[str, Any]]:
    rows, groups = tokens * model["top_k"], model["experts"] // ep
    shapes = {
        "gate_up": (2 * model["intermediate"], model["hidden"]),
        "down": (model["hidden"], model["intermediate"]),
    }
    about = {"model": name, "ep": ep, "tokens": tokens, "routing": routing, "groups": groups, "rows": rows}
    return [{**about, "projection": one, "n": n, "k": k} for one, (n, k) in shapes.items()]


def _numbers(text: object) -> list[int]:
    return [int(word) for word in str(text).split()]


def split(rows: int, groups: int, routing: str) -> list[int]:
    """Share rows out over groups, the same each time.

    ``even``: as a balanced router does, some more and some less; ``skewed``: as by Zipf's law; ``gap``: even,
    but one group has none, which has broken kernels.
    """
    draw = random.Random(f"{_SEED} {rows} {groups} {routing}")  # noqa: S311 - a seed is what is wanted
    if routing == "skewed":
        weights = [1 / (rank + 1) for rank in range(groups)]
        draw.shuffle(weights)
    else:
        weights = [draw.uniform(0.8, 1.2) for _ in range(groups)]
        if routing == "gap" and groups > 1:
            weights[draw.randrange(groups)] = 0.0
    shares = [rows * weight / sum(weights) for weight in weights]
    whole = [int(share) for share in shares]
    by_rest = sorted(range(groups), key=lambda group: whole[group] - shares[group])
    for group in by_rest[: rows - sum(whole)]:
        whole[group] += 1
    return whole


def prepare(case: Mapping[str, Any], device: Device) -> Work:
    """Make a grouped product ready. Raises UnsupportedError."""
    import torch  # noqa: PLC0415 - torch is loaded only where it runs

    n, k, rows = _sizes(case, device)
    format_, about = case["format"], FORMATS[case["format"]]
    call = experts.choose(format_, case["library"], rows, (n, k), device)
    moved = counts.grouped_bytes(rows, n, k, about.operand, about.result_bytes)
    generator = torch.Generator(device=device.place).manual_seed(_SEED)

    def normal(*shape: int, groups: Sequence[int] = ()) -> Any:
        made = torch.randn(*shape, generator=generator, device=device.place, dtype=torch.bfloat16)
        return rounded(made, format_, device, groups)

    sets = [
        (normal(call.total, k, groups=call.groups), normal(len(rows), n, k))
        for _ in range(copies(moved, device))
    ]
    results: list[Any] = [None] * len(sets)

    def kernel(number: int) -> None:
        one = number % len(sets)
        results[one] = call.run(*sets[one])

    kept: list[Any] = []

    def check() -> verify.Check:
        try:
            kernel(0)
            device.wait()
        except Exception as error:
            if experts.refused(error):
                raise UnsupportedError(f"{call.via}: {str(error).strip().splitlines()[0][:200]}") from error
            raise
        experts.forget()
        kept.append(call.unpadded(results[0]).clone())
        return _compare(rows, call.unpadded(sets[0][0]), sets[0][1], kept[0], format_)

    def recheck() -> int:
        kernel(0)
        return verify.changed(kept[0], call.unpadded(results[0]), verify.TOLERANCES[format_], k)

    sizes = {
        "n": n,
        "k": k,
        "groups": len(rows),
        "rows": sum(rows),
        "padded_rows": call.total,
        "most_rows": max(rows),
        "sets": len(sets),
    }
    return Work(kernel, check, recheck, counts.grouped_flops(rows, n, k), moved, sizes, call.via)


def _sizes(case: Mapping[str, Any], device: Device) -> tuple[int, int, list[int]]:
    """Give N, K and the rows of each group: those of the case, or tiny ones on a processor."""
    if device.accelerator:
        return case["n"], case["k"], split(case["rows"], case["groups"], case["routing"])
    groups = min(case["groups"], _TINY_GROUPS)
    rows = split(min(case["rows"], groups * _TINY_ROWS), groups, case["routing"])
    return min(case["n"], _TINY_SIDE), min(case["k"], _TINY_SIDE), rows


def _compare(rows: Sequence[int], left: Any, weights: Any, result: Any, format_: str) -> verify.Check:
    """Compare a block of every group with rows."""
    tolerance = verify.TOLERANCES[format_]
    found, begin = [], 0
    columns = verify.spread_over(weights.shape[1])
    for group, count in enumerate(rows):
        if count:
            own = [begin + row for row in verify.spread_over(count)]
            block = result[own][:, columns].float().cpu().double()
            sides = [double(side) for side in (left[own], weights[group][columns])]
            found.append(verify.compare(sides[0], sides[1], block, tolerance))
        begin += count
    lost = int((~result.isfinite()).sum())
    checked, wrong, worst = zip(*found, strict=True)
    return verify.Check(sum(checked), sum(wrong) + lost, max(worst))
