#!/usr/bin/env python3
"""Small random models of Wan that go on from a picture, and what diffusers' WanImageToVideoPipeline draws with them, in wan_frames/:

ti2v/  as TI2V-5B: the first frame of the latents is given, at the time 0; its autoencoder is Wan 2.2's
i2v/   as I2V-A14B: a mask and the latents of a clip of that picture and mid-gray behind it stand behind the noisy latents

Each holds transformer/ and vae/ in bf16, and expected.safetensors: picture [3, H, W], text [1, T, E], noise, the latents after 4 sampling
steps.
"""
import pathlib, shutil
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, WanImageToVideoPipeline, WanTransformer3DModel
from safetensors.torch import save_file

from make_encoders import randomise, rounded
from make_wan import Spaced

OUT = pathlib.Path(__file__).parent / "wan_frames"
FRAMES = 9


@torch.no_grad()
def make(name, z, channels_read, ratio, sides, **vae_config):
    torch.manual_seed(21)
    vae = randomise(AutoencoderKLWan(base_dim=4, z_dim=z, dim_mult=[1, 1, 1, 1], num_res_blocks=1, latents_mean=[0.1 * i - 0.2 for i in range(z)],
                                     latents_std=[0.8 + 0.1 * i for i in range(z)], **vae_config), 1.4)
    for key, p in vae.named_parameters():
        if key.endswith("gamma"):
            p.data = 1 + 0.2 * torch.randn_like(p)
    transformer = randomise(WanTransformer3DModel(num_attention_heads=2, attention_head_dim=6, in_channels=channels_read, out_channels=z, text_dim=16, freq_dim=32, ffn_dim=16,
                                                  num_layers=2, rope_max_seq_len=32), 0.7)
    vae, transformer = rounded(vae), rounded(transformer)
    pipe = WanImageToVideoPipeline(tokenizer=None, text_encoder=None, vae=vae, transformer=transformer, scheduler=Spaced(shift=5.0),
                                   expand_timesteps=name == "ti2v")
    pipe.set_progress_bar_config(disable=True)
    height, width = sides
    picture = (torch.rand(3, height, width) * 2 - 1).to(torch.bfloat16).float()
    text = torch.randn(1, 5, 16)
    filled = F.pad(text, (0, 0, 0, 512 - text.shape[1]))
    noise = torch.randn(1, z, (FRAMES + 3) // 4, height // ratio, width // ratio)
    seen = {}
    forward = transformer.forward

    def watched(hidden_states, timestep, **rest):
        out = forward(hidden_states=hidden_states, timestep=timestep, **rest)
        seen.update(timestep=timestep.clone(), prediction=out[0].clone())
        return out

    transformer.forward = watched
    latents = pipe(image=picture[None], prompt_embeds=filled, latents=noise, num_frames=FRAMES, height=height, width=width, num_inference_steps=4, guidance_scale=1.0,
                   output_type="latent").frames
    folder = OUT / name
    folder.mkdir(parents=True)
    transformer.forward = forward
    transformer.to(torch.bfloat16).save_pretrained(folder / "transformer")
    vae.to(torch.bfloat16).save_pretrained(folder / "vae")
    save_file({"picture": picture.to(torch.bfloat16), "text": text, "noise": noise, "latents": latents.contiguous(), "last": seen["prediction"].contiguous()}, folder / "expected.safetensors")
    print(name, latents.shape, latents.std(), seen["timestep"].unique(), [f.std().item() for f in latents[0].unbind(1)])


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    make("ti2v", 6, 6, 16, (32, 64), decoder_base_dim=6, is_residual=True, in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16)
    make("i2v", 4, 12, 8, (32, 48))
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
