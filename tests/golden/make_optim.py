"""Optimizers, clipping and schedules of their own packages -> optim.safetensors, optimizers.safetensors.

optim.safetensors: twenty steps of torch.optim.AdamW, and torch's gradient clipping. "<decay>.param.<i>.<step>": parameter i after that step ("0"
before the first), for weight decay 0 and 0.1. The gradients "grad.<step>.<i>" are given, not computed; parameter 2 has none at steps 3 and 4.
"clip.<max_norm>.<i>" are the gradients of step 0 after clipping, and "clip.norm" their norm before it.

optimizers.safetensors: twenty steps of the other optimizers from the same start (Prodigy: from 2^-10 of it) with the same gradients: "<case>.<step>.<i>" after steps 1, 10 and
20, "<case>.average.<i>" where the optimizer averages, "<case>.d" Prodigy's last estimate. "adamw8bit.*", "ademamix8bit.*": one parameter of
70 x 61 under bitsandbytes, with gradients by formula (see gradient_8bit), and what is kept of it. "map.signed", "map.unsigned": bitsandbytes' values of codes.
"schedule.<case>": fp64 factors of transformers' schedules at steps 0 .. 29 of 30.
"""
import math
import pathlib

import bitsandbytes.backends.cpu.ops
import torch
import transformers.optimization as schedules
from bitsandbytes.functional import create_dynamic_map
from bitsandbytes.optim.ademamix import _ReferenceAdEMAMix
from came_pytorch import CAME
from lion_pytorch import Lion
from prodigyopt import Prodigy
from prodigyplus import ProdigyPlusScheduleFree
from safetensors.torch import save_file
from schedulefree import AdamWScheduleFree

SHAPES = [(7,), (5, 3), (2, 3, 4), (33, 17), (1,)]
STEPS = 20
KEPT = (1, 10, 20)


def start_and_gradients():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in SHAPES]
    grads = [[torch.randn(s, generator=generator) * 10.0 ** -(i % 4) for i, s in enumerate(SHAPES)] for _ in range(STEPS)]
    return start, grads


def rate(step):
    return 0.01 * (step + 1) / STEPS


def give_gradients(params, grads, step):
    for i, p in enumerate(params):
        p.grad = None if i == 2 and step in (3, 4) else grads[step][i].to(p.dtype)


def adamw_and_clipping(start, grads):
    tensors = {f"start.{i}": p for i, p in enumerate(start)}
    for decay in (0.0, 0.1):
        params = [torch.nn.Parameter(p.clone()) for p in start]
        optimizer = torch.optim.AdamW(params, lr=1.0, weight_decay=decay, foreach=False)
        for step in range(STEPS):
            give_gradients(params, grads, step)
            for i, p in enumerate(params):
                if p.grad is not None:
                    tensors[f"grad.{step}.{i}"] = grads[step][i]
            optimizer.param_groups[0]["lr"] = rate(step)
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
    return tensors


class ProdigyPlusInFp32(ProdigyPlusScheduleFree):
    """Keeps the sums that d comes from in fp32: in bf16 the rounding of p0 is larger than the first steps."""

    def initialise_state_internal(self, p, group):
        state, is_new = super().initialise_state_internal(p, group)
        if is_new:
            state["p0"] = self.get_sliced_tensor(p).detach().clone()
            state["s"] = torch.zeros_like(state["p0"])
        return state, is_new


def muon_and_adamw(params, **kwargs):
    return [torch.optim.Muon([p for p in params if p.dim() == 2], lr=1.0, weight_decay=0.1, **kwargs),
            torch.optim.AdamW([p for p in params if p.dim() != 2], lr=1.0, weight_decay=0.1, foreach=False)]


class OwnSteps(_ReferenceAdEMAMix):
    """Counts a parameter's own steps, as bitsandbytes' kernels do."""

    def step(self):
        if self.param_groups[0]["params"][0].grad is not None:
            super().step()


def ademamix(params, **kwargs):
    return [OwnSteps([p], lr=1.0, weight_decay=0.1, **kwargs) for p in params]


# Each case: its optimizers over a list of parameters, and the rate at a step; None leaves the rate alone.
CASES = {
    "lion": (lambda p: [Lion(p, lr=1.0, weight_decay=0.1)], rate),
    "adafactor": (lambda p: [schedules.Adafactor(p, lr=1.0, weight_decay=0.1, scale_parameter=False, relative_step=False)], rate),
    "adafactor_scaled": (lambda p: [schedules.Adafactor(p, lr=1.0, beta1=0.9, scale_parameter=True, relative_step=False)], rate),
    "adafactor_relative": (lambda p: [schedules.Adafactor(p, weight_decay=0.1, warmup_init=True)], None),
    "came": (lambda p: [CAME(p, lr=1.0, weight_decay=0.1)], rate),
    "prodigy": (lambda p: [Prodigy(p, lr=1.0, weight_decay=0.1, d0=1e-4)], None),
    "prodigy_sliced": (lambda p: [Prodigy(p, lr=0.5, d0=1e-4, betas=(0.8, 0.99), use_bias_correction=True, safeguard_warmup=True, d_coef=100.0,
                                          growth_rate=1.5, slice_p=3)], None),
    "adamw_schedulefree": (lambda p: [AdamWScheduleFree(p, lr=1.0, weight_decay=0.1, foreach=False)], rate),
    "prodigy_schedulefree": (lambda p: [ProdigyPlusInFp32(p, lr=1.0, weight_decay=0.1, factored=False, use_stableadamw=False,
                                                          split_groups=False, d0=1e-4)], None),
    "muon": (lambda p: muon_and_adamw(p, adjust_lr_fn="match_rms_adamw"), rate),
    "ademamix": (ademamix, rate),
    "ademamix_rising": (lambda p: ademamix(p, betas=(0.8, 0.99, 0.999), alpha=3.0, t_alpha=15, t_beta3=12), rate),
    "muon_original": (lambda p: muon_and_adamw(p, nesterov=False), rate),
}


def run(case, start, grads):
    make, rate_at = CASES[case]
    # Prodigy goes by how far parameters have come: a way that fp32 can tell from where they started.
    params = [torch.nn.Parameter(p * (2.0 ** -10 if case.startswith("prodigy") else 1.0)) for p in start]
    optimizers = make(params)
    tensors = {}
    for optimizer in optimizers:
        if hasattr(optimizer, "train"):
            optimizer.train()
    for step in range(STEPS):
        give_gradients(params, [[g.clone() for g in row] for row in grads], step)
        for optimizer in optimizers:
            if rate_at is not None:
                optimizer.param_groups[0]["lr"] = rate_at(step)
            optimizer.step()
        if step + 1 in KEPT:
            tensors.update({f"{case}.{step + 1}.{i}": p.detach().clone() for i, p in enumerate(params)})
    if "d" in optimizers[0].param_groups[0]:
        tensors[f"{case}.d"] = torch.tensor([float(optimizers[0].param_groups[0]["d"])], dtype=torch.float64)
    if case.endswith("schedulefree"):
        optimizers[0].eval()
        tensors.update({f"{case}.average.{i}": p.detach().clone() for i, p in enumerate(params)})
    return tensors


def gradient_8bit(step, n):
    """Exact in fp32; its size differs from block to block."""
    i = torch.arange(n)
    return ((i * 7919 + step * 104729) % 65521 - 32760) / 32768 * 2.0 ** -((i // 256) % 8)


def quantize_to_nearest(exact, code, absmax, out, blocksize):
    """bitsandbytes' quantizer for dtypes other than the usual; the one for fp32 looks codes up in a coarse table, and is off by some near zero."""
    codes, most = torch.ops.bitsandbytes.quantize_blockwise(exact.double(), code, blocksize)
    out.copy_(codes)
    absmax.copy_(most)


def in_8_bits(name, make):
    bitsandbytes.backends.cpu.ops._quant_blockwise_fp32_direct = quantize_to_nearest
    n = 70 * 61
    i = torch.arange(n)
    p = torch.nn.Parameter((((i * 29) % 101 - 50) / 64).float())
    optimizer = make([p], lr=1.0, weight_decay=0.1)
    for step in range(STEPS):
        p.grad = gradient_8bit(step, n).float()
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.step()
    state = optimizer.state[p]
    codes, scales = state["state1"].reshape(-1, n), state["absmax1"].reshape(-1, -(-n // 256))
    tensors = {f"{name}.value": p.detach().clone(), f"{name}.exp_avg_sq.codes": state["state2"], f"{name}.exp_avg_sq.scales": state["absmax2"]}
    for average, c, s in zip(("exp_avg", "exp_avg_slow"), codes, scales):
        tensors.update({f"{name}.{average}.codes": c.clone(), f"{name}.{average}.scales": s.clone()})
    return tensors


def schedule_factors():
    n, w = 30, 6
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    made = {
        "linear": schedules.get_linear_schedule_with_warmup(optimizer, w, n),
        "cosine": schedules.get_cosine_schedule_with_warmup(optimizer, w, n),
        "cosine_with_restarts": schedules.get_cosine_with_hard_restarts_schedule_with_warmup(optimizer, w, n, num_cycles=3),
        "polynomial": schedules.get_polynomial_decay_schedule_with_warmup(optimizer, w, n, lr_end=0.1, power=2.5),
        "inverse_sqrt": schedules.get_inverse_sqrt_schedule(optimizer, w),
        "inverse_sqrt_at_once": schedules.get_inverse_sqrt_schedule(optimizer, 0),
        "warmup_stable_decay": schedules.get_wsd_schedule(optimizer, w, num_decay_steps=8, num_training_steps=n, min_lr_ratio=0.1),
    }
    factors = {f"schedule.{name}": [s.lr_lambdas[0](step) for step in range(n)] for name, s in made.items()}
    return {name: torch.tensor(list_of, dtype=torch.float64) for name, list_of in factors.items()}


def main():
    here = pathlib.Path(__file__)
    start, grads = start_and_gradients()
    save_file(adamw_and_clipping(start, grads), str(here.with_name("optim.safetensors")))
    tensors = {**in_8_bits("adamw8bit", bitsandbytes.optim.AdamW8bit), **in_8_bits("ademamix8bit", bitsandbytes.optim.AdEMAMix8bit),
               "map.signed": create_dynamic_map(signed=True), "map.unsigned": create_dynamic_map(signed=False), **schedule_factors()}
    torch.Tensor.bfloat16 = lambda t: t.float().clone()  # Muon's products in fp32
    for case in CASES:
        tensors.update(run(case, start, grads))
    assert all(math.isfinite(t.double().abs().sum()) for t in tensors.values())
    save_file(tensors, str(here.with_name("optimizers.safetensors")))


main()
