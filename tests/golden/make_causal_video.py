#!/usr/bin/env python3
"""Causal autoencoders on a clip: small random ones of diffusers' AutoencoderKLWan, computed in fp64.

causal_video.safetensors (as Wan 2.1's) and causal_video_residual.safetensors (as Wan 2.2's, with shortcuts around levels and patches of
pixels): w.<parameter> in bf16, in.video and in.latents of nine frames, and out.mean, out.logvar and out.decoded; the metadata holds
config.json. What comes of the clip's first frame and of its first five is the beginning of what comes of nine, and is not held again.
"""
import json, pathlib
import torch
from diffusers import AutoencoderKLWan
from safetensors.torch import save_file

from make_encoders import randomise

HERE = pathlib.Path(__file__).parent
FRAMES = 9
COMMON = dict(z_dim=4, dim_mult=[1, 1, 2, 2], num_res_blocks=1, temperal_downsample=[False, True, True],
              latents_mean=[0.3, -0.2, 0.1, -0.4], latents_std=[0.8, 1.5, 1.1, 0.6])


@torch.no_grad()
def results(model, video, latents):
    moments = model.encode(video).latent_dist
    return {"mean": moments.mean, "logvar": moments.logvar, "decoded": model.decode(latents).sample}


def make(name, height, width, ratio, **config):
    torch.manual_seed(1)
    model = randomise(AutoencoderKLWan(**COMMON, **config), 1.4)
    for key, p in model.named_parameters():
        if key.endswith("gamma"):
            p.data = 1 + 0.2 * torch.randn_like(p)
        p.data = p.data.to(torch.bfloat16).double()
    model.double()
    video = torch.rand(1, 3, FRAMES, height, width) * 2 - 1
    latents = torch.randn(1, COMMON["z_dim"], (FRAMES + 3) // 4, height // ratio, width // ratio)
    found = results(model, video.double(), latents.double())
    for count in (1, 5):
        begin = results(model, video[:, :, :count].double(), latents[:, :, :(count + 3) // 4].double())
        for key, x in begin.items():
            assert (x - found[key][:, :, :x.shape[2]]).abs().max() < 1e-12, (key, count)
    tensors = {f"w.{k}": v.to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()} | {"in.video": video, "in.latents": latents}
    tensors |= {f"out.{k}": v.float().contiguous() for k, v in found.items()}
    save_file(tensors, HERE / f"{name}.safetensors", metadata={"config": json.dumps({k: v for k, v in model.config.items() if not k.startswith("_")})})
    print(name, {k: (round(v.std().item(), 3), tuple(v.shape)) for k, v in found.items()}, (found["decoded"].abs() == 1).double().mean())


if __name__ == "__main__":
    make("causal_video", 16, 24, 8, base_dim=4)
    make("causal_video_residual", 16, 32, 16, base_dim=4, decoder_base_dim=6, is_residual=True, in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16)
