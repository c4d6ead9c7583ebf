"""Lets torchtitan 0.3 train on a processor, which it does not foresee; run as a program in its place.

It finds an accelerator by name and asks it for memory, a name and a seed: here torch's own module for the
processor answers. Attention goes to the product that has a backward pass on processors, and gradients are
divided by torch itself, for gloo cannot.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

_MEMORY = 8 << 30


def _answer_for_the_processor() -> None:
    import torch  # noqa: PLC0415 - loaded where it runs

    about = SimpleNamespace(total_memory=_MEMORY, name="cpu", multi_processor_count=1)
    answers: dict[str, Any] = {
        "get_device_name": lambda _device=None: "CPU",
        "get_device_properties": lambda _device=None: about,
        "memory_stats": lambda _device=None: {},
        "reset_peak_memory_stats": lambda _device=None: None,
        "empty_cache": lambda: None,
        "manual_seed_all": lambda _seed: None,
    }
    for name, answer in answers.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, answer)
    ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.cpu.device_count = lambda: ranks
    torch.cpu.current_device = lambda: 0
    torch.cpu.set_device = lambda _device: None
    utils: Any = import_module("torch._utils")
    others = utils._get_device_module  # noqa: SLF001 - it has no public name
    utils._get_available_device_type = lambda: "cpu"  # noqa: SLF001
    utils._get_device_module = lambda kind: torch.cpu if kind == "cpu" else others(kind)  # noqa: SLF001


def _divide_and_seed_without_an_accelerator() -> None:
    import torch.distributed as dist  # noqa: PLC0415
    from torch.distributed.fsdp import FSDPModule  # noqa: PLC0415

    FSDPModule.set_gradient_divide_factor = lambda _self, _factor: None
    seeds: Any = import_module("torch.distributed.tensor._random")
    seeds.manual_seed = lambda *_args, **_named: None
    if not hasattr(dist, "set_timeout"):
        dist.set_timeout = lambda *_args, **_named: None


def _attend_by_the_plain_product() -> None:
    from torch.nn.functional import scaled_dot_product_attention  # noqa: PLC0415

    # It looks for its parameters by these names, to know how each is spread over ranks.
    def forward(self: Any, q_BLNH: Any, k_BLNH: Any, v_BLNH: Any, **how: Any) -> Any:  # noqa: ARG001, N803
        query, key, value = (one.transpose(1, 2) for one in (q_BLNH, k_BLNH, v_BLNH))
        told = {name: how[name] for name in ("scale", "enable_gqa") if name in how}
        found: Any = scaled_dot_product_attention(query, key, value, is_causal=True, **told)
        return found.transpose(1, 2)

    attention: Any = import_module("torchtitan.models.common.attention")
    attention.FlexAttention.forward = forward


if __name__ == "__main__":
    sys.argv = ["torchtitan.train", *sys.argv[1:]]
    _answer_for_the_processor()
    _divide_and_seed_without_an_accelerator()
    _attend_by_the_plain_product()
    runpy.run_module("torchtitan.train", run_name="__main__")
