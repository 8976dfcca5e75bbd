#!/usr/bin/env python3
"""The timestep grids of DiffSynth-Studio's FlowMatchScheduler -> grids.safetensors.

For each family, FAMILY.sigmas and FAMILY.weights: the 1,000 sigmas that it trains on and how much a loss counts at each; FAMILY.STEPS: the
sigmas of a walk of that many steps, as `--task direct_distill` takes them.
"""
import pathlib

from diffsynth.diffusion.flow_match import FlowMatchScheduler
from safetensors.torch import save_file

FAMILIES = {"flux": "FLUX.1", "qwen_image": "Qwen-Image", "qwen_image_21": "Qwen-Image", "flux2": "FLUX.2", "zimage": "Z-Image", "anima": "Z-Image", "ernie_image": "ERNIE-Image", "moss_image": "MOSS-Image", "ideogram4": "Ideogram4", "boogu": "Boogu", "fibo2": "Fibo"}


def main():
    tensors = {}
    for family, template in FAMILIES.items():
        scheduler = FlowMatchScheduler(template)
        for steps in (4, 9):
            scheduler.set_timesteps(steps)
            tensors[f"{family}.{steps}"] = scheduler.sigmas
        scheduler.set_timesteps(1000, training=True)
        tensors |= {f"{family}.sigmas": scheduler.sigmas, f"{family}.weights": scheduler.linear_timesteps_weights}
    file = pathlib.Path(__file__).with_name("grids.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    file.chmod(0o644)


if __name__ == "__main__":
    main()
