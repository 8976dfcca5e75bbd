"""Schedules of discrete timesteps and whole sampling trajectories of diffusers' schedulers -> discrete.safetensors.

alphas.<kind>                alphas_cumprod of the schedules in KINDS
train.*                      add_noise, get_velocity and compute_snr at a few timesteps of "sdxl" and "zero_snr"
start, noise                 the initial standard normal noise, and that of ancestral steps
walk.<sampler>.<spacing>.<prediction>.<kind>.<steps>      the latents after every step, for a denoiser that is tanh(0.5 x + t / 1000)
times.<...>                  the timesteps of that walk
guided                       rescale_noise_cfg of guidance.conditional and guidance.unconditional (scale 5, rescale 0.7)
"""
import pathlib

import torch
from diffusers import DDIMScheduler, DDPMScheduler, DPMSolverMultistepScheduler, EulerAncestralDiscreteScheduler, EulerDiscreteScheduler
from diffusers.pipelines.stable_diffusion_xl.pipeline_stable_diffusion_xl import rescale_noise_cfg
from diffusers.schedulers import scheduling_euler_ancestral_discrete as ancestral
from diffusers.training_utils import compute_snr
from safetensors.torch import save_file

KINDS = {
    "sdxl": dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear"),
    "linear": dict(beta_start=0.0001, beta_end=0.02, beta_schedule="linear"),
    "cosine": dict(beta_schedule="squaredcos_cap_v2"),
    "zero_snr": dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", rescale_betas_zero_snr=True),
}
SAMPLERS = {"euler": EulerDiscreteScheduler, "euler_a": EulerAncestralDiscreteScheduler, "dpmpp_2m": DPMSolverMultistepScheduler, "ddim": DDIMScheduler}


def walk(sampler, config, steps, x, noise):
    scheduler = SAMPLERS[sampler].from_config(config | ({"clip_sample": False, "set_alpha_to_one": False} if sampler == "ddim" else {}))
    scheduler.set_timesteps(steps)
    x = x * scheduler.init_noise_sigma
    drawn = iter(noise)
    ancestral.randn_tensor = lambda *a, **k: next(drawn)
    latents = []
    for t in scheduler.timesteps:
        prediction = torch.tanh(scheduler.scale_model_input(x, t) * 0.5 + t / 1000)
        x = scheduler.step(prediction, t, x).prev_sample
        latents.append(x)
    return torch.stack(latents), scheduler.timesteps.float()


def main():
    generator = torch.Generator().manual_seed(0)
    tensors = {"start": torch.randn(2, 4, 3, 3, generator=generator), "noise": torch.randn(20, 2, 4, 3, 3, generator=generator)}
    for kind, config in KINDS.items():
        tensors["alphas." + kind] = DDPMScheduler(**config).alphas_cumprod.clone()
    x0, noise = torch.randn(5, 4, 2, 2, generator=generator), torch.randn(5, 4, 2, 2, generator=generator)
    timesteps = torch.tensor([0, 1, 250, 700, 999])
    tensors |= {"train.x0": x0, "train.noise": noise, "train.timesteps": timesteps}
    for kind in ("sdxl", "zero_snr"):
        scheduler = DDPMScheduler(**KINDS[kind])
        tensors |= {f"train.{kind}.noisy": scheduler.add_noise(x0, noise, timesteps), f"train.{kind}.velocity": scheduler.get_velocity(x0, noise, timesteps),
                    f"train.{kind}.snr": compute_snr(scheduler, timesteps)}
    cases = []
    for sampler in SAMPLERS:
        for spacing in ("leading", "trailing", "linspace"):
            cases += [(sampler, spacing, "epsilon", "sdxl", n) for n in (1, 7, 20)]
        cases += [(sampler, "leading", "v_prediction", "sdxl", 7), (sampler, "trailing", "v_prediction", "zero_snr", 7), (sampler, "linspace", "v_prediction", "cosine", 7)]
    cases += [("dpmpp_2m", "leading", "sample", "sdxl", 7), ("ddim", "trailing", "sample", "linear", 7)]
    for sampler, spacing, prediction, kind, steps in cases:
        name = f"{sampler}.{spacing}.{prediction}.{kind}.{steps}"
        config = KINDS[kind] | {"timestep_spacing": spacing, "prediction_type": prediction, "steps_offset": 1}
        tensors["walk." + name], tensors["times." + name] = walk(sampler, config, steps, tensors["start"], tensors["noise"])
    c, u = torch.randn(2, 4, 3, 3, generator=generator), torch.randn(2, 4, 3, 3, generator=generator)
    tensors |= {"guidance.conditional": c, "guidance.unconditional": u, "guided": rescale_noise_cfg(u + 5 * (c - u), c, 0.7)}
    assert all(torch.isfinite(t.float()).all() for t in tensors.values()), [k for k, t in tensors.items() if not torch.isfinite(t.float()).all()]
    save_file({k: v.contiguous() for k, v in tensors.items()}, str(pathlib.Path(__file__).with_name("discrete.safetensors")))
    print(len(cases), "walks")


main()
