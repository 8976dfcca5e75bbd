#!/usr/bin/env python3
"""The autoencoders of make_causal_video.py on clips of 1, 5, 9 and 17 frames whose sides make odd numbers of latents, computed in fp64 by
diffusers:

causal_lengths.safetensors  {causal_video,causal_video_residual}.{frames}.{mean,decoded}: digests. Pixel i of a clip is cos(0.37 i²) and number
i of its latents is 1.5 cos(0.61 i²), in the order in which they lie in memory.
"""
import json, pathlib
import torch
from diffusers import AutoencoderKLWan
from safetensors import safe_open
from safetensors.torch import save_file

from digest import digest

HERE = pathlib.Path(__file__).parent
SIDES = {"causal_video": (24, 40, 8), "causal_video_residual": (48, 80, 16)}  # height, width, pixels of a latent


def waves(shape, frequency):
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return torch.cos(frequency * i * i).reshape(shape)


@torch.no_grad()
def main():
    found = {}
    for name, (height, width, ratio) in SIDES.items():
        with safe_open(HERE / f"{name}.safetensors", "pt") as file:
            model = AutoencoderKLWan(**json.loads(file.metadata()["config"])).double().eval()
            model.load_state_dict({k[2:]: file.get_tensor(k).double() for k in file.keys() if k.startswith("w.")})
        for frames in (1, 5, 9, 17):
            clip = waves((1, 3, frames, height, width), 0.37)
            latents = 1.5 * waves((1, model.config.z_dim, (frames + 3) // 4, height // ratio, width // ratio), 0.61)
            found |= {f"{name}.{frames}.mean": digest(model.encode(clip).latent_dist.mean), f"{name}.{frames}.decoded": digest(model.decode(latents).sample)}
    save_file(found, HERE / "causal_lengths.safetensors")
    print({n: x[0].item() for n, x in found.items()})


if __name__ == "__main__":
    main()
