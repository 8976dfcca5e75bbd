#!/usr/bin/env python3
"""Golden files of the FLUX.1 transformer: small random diffusers models with inputs, outputs and gradients.

Writes flux_dev.safetensors (guidance embedding), flux_schnell.safetensors (none) and flux_references.safetensors (two reference pictures,
whose tokens follow the target's). Names: w.<parameter> in bf16, in.<input>, out (of the target's tokens), grad.<parameter>: the digest of the
gradient of sum(out * out_weight), computed in fp32; metadata holds the config, and rows and columns of the pictures.
"""
import json, pathlib
import torch
from diffusers import FluxTransformer2DModel
from safetensors.torch import save_file

from digest import digest
from make_encoders import rounded

HERE = pathlib.Path(__file__).parent


def ids_of(rows, columns, first):
    ids = torch.full((rows, columns, 3), float(first))
    ids[..., 1] = torch.arange(rows)[:, None]
    ids[..., 2] = torch.arange(columns)[None]
    return ids.reshape(-1, 3)


def make(name, seed, guidance, references=(), **sizes):
    torch.manual_seed(seed)
    config = dict(patch_size=1, guidance_embeds=guidance, **sizes)
    model = FluxTransformer2DModel(**config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * (0.3 if p.dim() < 2 else 0.6 / p.shape[1] ** 0.5))
            if p.dim() == 1 and p.shape[0] == sizes["attention_head_dim"]:
                p.add_(1)
    rounded(model)
    batch, rows, columns, text = 2, 3, 4, 5
    inputs = dict(
        latents=torch.randn(batch, rows * columns + sum(r * c for r, c in references), sizes["in_channels"]),
        text=torch.randn(batch, text, sizes["joint_attention_dim"]),
        pooled=torch.randn(batch, sizes["pooled_projection_dim"]),
        sigma=torch.tensor([0.83, 0.21]),
        guidance=torch.tensor([1.0, 3.5]),
    )
    ids = torch.cat([ids_of(rows, columns, 0), *(ids_of(r, c, 1) for r, c in references)])
    out = model(hidden_states=inputs["latents"], encoder_hidden_states=inputs["text"], pooled_projections=inputs["pooled"],
                timestep=inputs["sigma"], guidance=inputs["guidance"] if guidance else None,
                img_ids=ids, txt_ids=torch.zeros(text, 3), return_dict=False)[0][:, :rows * columns]
    out_weight = torch.randn_like(out)
    (out * out_weight).sum().backward()
    tensors = {f"w.{n}": p.detach().bfloat16().contiguous() for n, p in model.named_parameters()}
    tensors |= {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters() if p.grad is not None}
    tensors |= {f"in.{n}": t for n, t in inputs.items()} | {"out": out.detach().contiguous(), "out_weight": out_weight}
    metadata = {"config": json.dumps(config), "rows": str(rows), "columns": str(columns)}
    save_file(tensors, HERE / f"{name}.safetensors", metadata=metadata | ({"references": json.dumps(references)} if references else {}))


if __name__ == "__main__":
    make("flux_dev", 1, True, in_channels=16, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=1,
         joint_attention_dim=12, pooled_projection_dim=10, axes_dims_rope=(4, 6, 6))
    make("flux_schnell", 2, False, in_channels=8, num_layers=1, num_single_layers=2, attention_head_dim=8, num_attention_heads=2,
         joint_attention_dim=16, pooled_projection_dim=8, axes_dims_rope=(2, 2, 4))
    make("flux_references", 3, True, references=[[2, 3], [1, 2]], in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=8,
         num_attention_heads=2, joint_attention_dim=8, pooled_projection_dim=8, axes_dims_rope=(2, 2, 4))
