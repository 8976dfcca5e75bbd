#!/usr/bin/env python3
"""Golden files of Stable Diffusion's UNet: small random diffusers models with inputs, outputs and gradients.

Writes unet_xl.safetensors (as SDXL: linear projections, pooled text and time ids, several transformer blocks, heads by level) and
unet_15.safetensors (as SD 1.5: projections by convolution, odd latent sizes). Names: w.<parameter>, in.<input>, out,
grad.<parameter> of sum(out * out_weight), grad_text of the text embedding; metadata holds the config.
"""
import json, pathlib
import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import save_file

from make_encoders import randomise

HERE = pathlib.Path(__file__).parent


def unet(name, seed, height, width, **config):
    torch.manual_seed(seed)
    model = randomise(UNet2DConditionModel(**config))
    batch, tokens = 2, 5
    inputs = dict(latents=torch.randn(batch, config["in_channels"], height, width), timestep=torch.tensor([912.25, 37.0]),
                  text=torch.randn(batch, tokens, config["cross_attention_dim"]).requires_grad_())
    added = None
    if config.get("addition_embed_type"):
        pooled = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
        inputs |= dict(pooled=torch.randn(batch, pooled), time_ids=torch.tensor([[1024, 768, 0, 16, 1024, 1024], [640, 512, 32, 0, 896, 1152]]).float())
        added = {"text_embeds": inputs["pooled"], "time_ids": inputs["time_ids"]}
    out = model(inputs["latents"], inputs["timestep"], inputs["text"], added_cond_kwargs=added).sample
    out_weight = torch.randn_like(out)
    (out * out_weight).sum().backward()
    tensors = {f"w.{n}": p.detach().contiguous() for n, p in model.named_parameters()}
    tensors |= {f"grad.{n}": p.grad.contiguous() for n, p in model.named_parameters()}
    tensors |= {f"in.{n}": t.detach() for n, t in inputs.items()}
    save_file(tensors | {"out": out.detach(), "out_weight": out_weight, "grad_text": inputs["text"].grad}, HERE / f"{name}.safetensors",
              metadata={"config": json.dumps(dict(model.config))})


XL = dict(in_channels=4, out_channels=4, block_out_channels=(8, 8, 16), layers_per_block=1, cross_attention_dim=12, attention_head_dim=(1, 2, 4),
          transformer_layers_per_block=(1, 1, 2), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
          up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), use_linear_projection=True, norm_num_groups=4,
          addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=10 + 48, sample_size=8)
SD15 = dict(in_channels=4, out_channels=4, block_out_channels=(8, 16), layers_per_block=2, cross_attention_dim=10, attention_head_dim=2,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), norm_num_groups=4, sample_size=8)

if __name__ == "__main__":
    unet("unet_xl", 1, 8, 12, **XL)
    unet("unet_15", 2, 7, 5, **SD15)
