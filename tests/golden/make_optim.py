"""Twenty steps of torch.optim.AdamW, and torch's gradient clipping -> optim.safetensors.

"<decay>.param.<i>.<step>": parameter i after that step ("0" before the first), for weight decay 0 and 0.1. The gradients "grad.<step>.<i>"
are given, not computed; parameter 2 has none at steps 3 and 4. "clip.<max_norm>.<i>" are the gradients of step 0 after clipping, and
"clip.norm" their norm before it.
"""
import pathlib

import torch
from safetensors.torch import save_file

SHAPES = [(7,), (5, 3), (2, 3, 4), (33, 17), (1,)]
STEPS = 20


def main():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in SHAPES]
    tensors = {f"start.{i}": p for i, p in enumerate(start)}
    grads = [[torch.randn(s, generator=generator) * 10.0 ** -(i % 4) for i, s in enumerate(SHAPES)] for _ in range(STEPS)]
    for decay in (0.0, 0.1):
        params = [torch.nn.Parameter(p.clone()) for p in start]
        optimizer = torch.optim.AdamW(params, lr=1.0, weight_decay=decay, foreach=False)
        for step in range(STEPS):
            for i, p in enumerate(params):
                p.grad = None if i == 2 and step in (3, 4) else grads[step][i].clone()
                if p.grad is not None:
                    tensors[f"grad.{step}.{i}"] = grads[step][i]
            optimizer.param_groups[0]["lr"] = 0.01 * (step + 1) / STEPS
            optimizer.step()
            for i, p in enumerate(params):
                tensors[f"{decay}.param.{i}.{step + 1}"] = p.detach().clone()
    for max_norm in (0.5, 1000.0):
        params = [torch.nn.Parameter(p.clone()) for p in start]
        for i, p in enumerate(params):
            p.grad = grads[0][i].clone()
        norm = torch.nn.utils.clip_grad_norm_(params, max_norm)
        tensors["clip.norm"] = norm.reshape(1).clone()
        for i, p in enumerate(params):
            tensors[f"clip.{max_norm}.{i}"] = p.grad.clone()
    save_file(tensors, str(pathlib.Path(__file__).with_name("optim.safetensors")))


main()
