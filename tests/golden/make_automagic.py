"""ai-toolkit's third Automagic -> automagic.safetensors. It is in no package: AI_TOOLKIT names a checkout (commit 27a03a91); without one the file
stays as it is.

Twenty steps from the start of optim.safetensors with gradients by formula (see gradient), at a rate that starts at 0.01: "<case>.<step>.<i>" after
steps 1, 10 and 20, and "<case>.rate", the rate after each step.
"""
import os
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

STEPS = 20
KEPT = (1, 10, 20)
CASES = {"automagic": {"weight_decay": 0.1}, "automagic_short": {"polarity_history": 3, "beta2": 0.9, "clip_threshold": 0.5}}


def gradient(step, index, shape):
    """Of one sign in a third of the numbers, of alternating ones in another, of any in the rest."""
    i = torch.arange(torch.Size(shape).numel())
    size = ((i * 37 + step * 11 + index) % 29 + 1) / 16
    mixed = 1 - 2 * ((i * 7 + step * 5) % 3 % 2)
    signs = torch.where(i % 3 == 0, 1, torch.where(i % 3 == 1, 1 - 2 * (step % 2), mixed))
    return (size * signs).float().reshape(shape)


def main():
    if "AI_TOOLKIT" not in os.environ:
        print("AI_TOOLKIT names no checkout of ai-toolkit; automagic.safetensors stays as it is")
        return
    sys.path.insert(0, os.environ["AI_TOOLKIT"] + "/toolkit/optimizers")
    from automagic3 import Automagic3

    here = pathlib.Path(__file__)
    start = load_file(here.with_name("optim.safetensors"))
    tensors = {}
    for case, options in CASES.items():
        params = [torch.nn.Parameter(start[f"start.{i}"].clone()) for i in range(5)]
        optimizer = Automagic3(params, lr=0.01, fused=False, **options)
        rates = []
        for step in range(STEPS):
            for i, p in enumerate(params):
                p.grad = gradient(step, i, p.shape)
            optimizer.step()
            rates.append(float(optimizer.get_avg_learning_rate()))
            if step + 1 in KEPT:
                tensors.update({f"{case}.{step + 1}.{i}": p.detach().clone() for i, p in enumerate(params)})
        tensors[f"{case}.rate"] = torch.tensor(rates, dtype=torch.float64)
    save_file(tensors, str(here.with_name("automagic.safetensors")))


main()
