"""Sampling schedules of diffusers' flow-matching Euler scheduler as FluxPipeline drives it -> diffusion.safetensors.

Tensors "<kind>.<steps>.<tokens>": the sigmas with their final zero. kind "dynamic" is the scheduler of FLUX.1-dev, "static3" and "static1"
(FLUX.1-schnell) use a fixed shift, "terminal" also stretches to a last sigma of 0.02. "euler.*" is one step of the scheduler.
"""
import pathlib

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from diffusers.pipelines.flux.pipeline_flux import calculate_shift
from safetensors.torch import save_file

KINDS = {
    "dynamic": dict(shift=3.0, use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096),
    "static3": dict(shift=3.0),
    "static1": dict(shift=1.0),
    "terminal": dict(shift=3.0, use_dynamic_shifting=True, shift_terminal=0.02),
}


def schedule(kind, steps, tokens):
    scheduler = FlowMatchEulerDiscreteScheduler(**KINDS[kind])
    config = scheduler.config
    mu = calculate_shift(tokens, config.base_image_seq_len, config.max_image_seq_len, config.base_shift, config.max_shift)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=mu if config.use_dynamic_shifting else None)
    return scheduler


def main():
    tensors = {}
    for kind in KINDS:
        for steps in (1, 2, 4, 20, 28, 50):
            for tokens in (64, 256, 1024, 4096, 16384):
                if (steps == 1 and kind == "terminal") or ("static" in kind and tokens != 256):
                    continue
                tensors[f"{kind}.{steps}.{tokens}"] = schedule(kind, steps, tokens).sigmas.clone()
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(2, 16, 8, generator=generator), torch.randn(2, 16, 8, generator=generator)
    scheduler = schedule("dynamic", 4, 1024)
    tensors.update({"euler.x": x, "euler.v": v, "euler.next": scheduler.step(v, scheduler.timesteps[0], x).prev_sample})
    tensors["noise.1234"] = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(1234))
    save_file(tensors, str(pathlib.Path(__file__).with_name("diffusion.safetensors")))


main()
