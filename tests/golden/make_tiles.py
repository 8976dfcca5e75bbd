#!/usr/bin/env python3
"""Golden files of tiled autoencoders: what diffusers makes of pictures larger than a tile, by the weights of other golden files.

tiles_kl.safetensors (weights of kl_shifted.safetensors) and tiles_causal.safetensors (those of qwen_image_pipeline); names in.<input>,
out.<output>. Tiles of 32 pixels, which leave narrow ones at the right and at the bottom.
"""
import json, pathlib
import torch
from diffusers import AutoencoderKL, AutoencoderKLQwenImage
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
SIZE = 32


def kl():
    file = HERE / "kl_shifted.safetensors"
    config = json.loads(safe_open(file, "pt").metadata()["config"])
    model = AutoencoderKL(**{k: v for k, v in config.items() if not k.startswith("_")}).eval()
    model.load_state_dict({k[2:]: v for k, v in load_file(file).items() if k.startswith("w.")})
    model.enable_tiling()
    model.tile_sample_min_size, model.tile_latent_min_size = SIZE, SIZE // 4
    image, latents = torch.rand(1, 3, 80, 56) * 2 - 1, torch.randn(1, 16, 20, 14)
    moments = model.encode(image).latent_dist
    save_file({"in.image": image, "in.latents": latents, "out.mean": moments.mean.contiguous(), "out.logvar": moments.logvar.contiguous(),
               "out.decoded": model.decode(latents).sample.contiguous()}, HERE / "tiles_kl.safetensors")


def causal():
    model = AutoencoderKLQwenImage.from_pretrained(HERE / "qwen_image_pipeline/model/vae").eval()
    model.enable_tiling(SIZE, SIZE, SIZE * 3 // 4, SIZE * 3 // 4)
    image, latents = torch.rand(1, 3, 1, 80, 56) * 2 - 1, torch.randn(1, 16, 1, 10, 7)
    moments = model.encode(image).latent_dist
    decoded = model.decode(latents).sample
    flat = {"in.image": image, "in.latents": latents, "out.mean": moments.mean, "out.logvar": moments.logvar, "out.decoded": decoded}
    save_file({k: v[:, :, 0].contiguous() for k, v in flat.items()}, HERE / "tiles_causal.safetensors")


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        kl()
        causal()
