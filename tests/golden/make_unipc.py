"""diffusers' UniPCMultistepScheduler on flows -> unipc.safetensors.

x: where every walk begins. "<case>.timesteps" and "<case>.latents": the times that a denoiser is told and where the walk of that case ends, on which it predicts
0.3 x - 0.5 cos(3 x) t / 1000. pipeline.latents: what WanPipeline draws of the small model of wan_pipeline/ in four steps at flow_shift 3, from the noise and for the
prompts of its expected.safetensors.
"""
import pathlib
import torch
from diffusers import UniPCMultistepScheduler, WanPipeline
from safetensors.torch import load_file, save_file

from make_wan import FAMILY

HERE = pathlib.Path(__file__).parent
FLOW = dict(prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000)
CASES = {"shift3.8": (dict(flow_shift=3.0), 8), "shift5.27": (dict(flow_shift=5.0), 27), "shift1.9": (dict(flow_shift=1.0), 9), "one": (dict(flow_shift=3.0), 1),
         "two": (dict(flow_shift=3.0), 2), "order1.6": (dict(flow_shift=3.0, solver_order=1), 6),
         "terminal.6": (dict(flow_shift=3.0, shift_terminal=0.1), 6)}


def main():
    x = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    tensors = {"x": x}
    for name, (options, steps) in CASES.items():
        scheduler = UniPCMultistepScheduler(**FLOW, **options)
        scheduler.set_timesteps(steps)
        latents = x
        for t in scheduler.timesteps:
            latents = scheduler.step(0.3 * latents - 0.5 * torch.cos(3 * latents) * (t.float() / 1000), t, latents).prev_sample
        tensors |= {f"{name}.timesteps": scheduler.timesteps.clone(), f"{name}.latents": latents}
    pipe = WanPipeline.from_pretrained(HERE / "wan_pipeline/model", torch_dtype=torch.float32)
    pipe.scheduler = UniPCMultistepScheduler(**FLOW, flow_shift=3.0)
    pipe.set_progress_bar_config(disable=True)
    noise = load_file(HERE / "wan_pipeline/expected.safetensors")["noise"]
    tensors["pipeline.latents"] = FAMILY.sampled(pipe, noise)
    save_file({n: t.contiguous() for n, t in tensors.items()}, HERE / "unipc.safetensors")


if __name__ == "__main__":
    main()
