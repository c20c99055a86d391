#!/usr/bin/env python3
"""Makes reference values of combined adapters for tests/lora/combination_test.cpp with PEFT's
add_weighted_adapter.

usage: adapter_combinations.py OUT.json

Needs torch and peft from PyPI; made with peft 0.21.2. Writes
  versions  of the packages
  adapters  matrices, scales and ranks of three small adapters, one of which lacks a module
  cases     type, adapters, weights and settings, with the product of each module of PEFT's result
Values are dropped at random by splitmix64, as lora/sparsification.hpp documents, in place of
torch.bernoulli: both then drop the same ones.
"""
import json
import sys

import peft
import torch

HIDDEN, NARROW, SEED = 6, 4, 5
ADAPTERS = {
    "x": dict(r=2, lora_alpha=3, target_modules=["q_proj", "v_proj"],
              alpha_pattern={"v_proj": 5}),
    "y": dict(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], use_rslora=True),
    "z": dict(r=3, lora_alpha=2, target_modules=["q_proj"]),
}
FACTORS = ["linear", "magnitude_prune", "ties", "dare_linear", "dare_ties"]
PRODUCTS = ["svd", "magnitude_prune_svd", "ties_svd", "dare_linear_svd", "dare_ties_svd"]


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.v_proj = torch.nn.Linear(HIDDEN, NARROW, bias=False)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()


class SplitMix64:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        bits = self.state
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
        return bits ^ (bits >> 31)

    def bernoulli(self, density):
        kept = [(self.next() >> 11) * 2.0**-53 < p for p in density.reshape(-1).tolist()]
        return torch.tensor(kept, dtype=density.dtype).reshape(density.shape)


def adapted():
    base = torch.nn.Sequential(Block()).double()
    model = peft.get_peft_model(base, peft.LoraConfig(**ADAPTERS["x"]), adapter_name="x")
    for name in list(ADAPTERS)[1:]:
        model.add_adapter(name, peft.LoraConfig(**ADAPTERS[name]))
    generator = torch.Generator().manual_seed(11)
    for name, parameter in sorted(model.named_parameters()):
        if "lora_" in name:
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data = (values * 1000).round() / 1000
    return model


def layers_of(model, adapter):
    attention = model.base_model.model[0].attention
    for name in ("q_proj", "v_proj"):
        layer = getattr(attention, name)
        if adapter in layer.lora_A:
            yield name, layer


def described(model, adapter):
    return {name: dict(rank=layer.r[adapter], scale=layer.scaling[adapter],
                       a=layer.lora_A[adapter].weight.tolist(),
                       b=layer.lora_B[adapter].weight.tolist())
            for name, layer in layers_of(model, adapter)}


def combined(model, adapters, weights, **settings):
    torch.bernoulli = SplitMix64(SEED).bernoulli
    model.base_model.add_weighted_adapter(adapters, weights, "result", **settings)
    products = {}
    for name, layer in layers_of(model, "result"):
        product = layer.lora_B["result"].weight @ layer.lora_A["result"].weight
        products[name] = [[round(value, 8) for value in row] for row in product.tolist()]
    model.base_model.delete_adapter("result")
    return dict(adapters=adapters, weights=weights, **settings, products=products)


def cases(model):
    for weights in ([0.7, 0.4], [1.5, -0.5]):
        for kind in ["cat"] + FACTORS:
            yield combined(model, ["x", "y"], weights, combination_type=kind, density=0.6)
    for kind in PRODUCTS:
        yield combined(model, ["x", "z"], [0.7, -0.4], combination_type=kind, density=0.5,
                       svd_rank=2)
    yield combined(model, ["x", "y", "z"], [1.0, 0.5, 2.0], combination_type="cat")
    yield combined(model, ["x", "z"], [1.0, 0.5], combination_type="svd")
    for kind in ("ties", "dare_ties"):
        yield combined(model, ["x", "y"], [0.7, 0.4], combination_type=kind, density=0.4,
                       majority_sign_method="frequency")


def main():
    model = adapted()
    written = dict(versions=dict(peft=peft.__version__, torch=torch.__version__), seed=SEED,
                   adapters={name: described(model, name) for name in ADAPTERS},
                   cases=list(cases(model)))
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(written, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
