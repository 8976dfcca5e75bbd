#!/usr/bin/env python3
"""LoRAs for the small pipeline of wan_pipeline/ (make_wan.py) in the names of other programs, and what diffusers draws with them, in
wan_lora/:

comfyui.safetensors   as ComfyUI's users pass them on: below `diffusion_model.`, with alphas, differences of biases (`.diff_b`) and of norms
                      (`.diff`), and layers outside of the blocks
musubi.safetensors    as musubi-tuner writes them: `lora_unet_`, rank 4, alpha 2
expected.safetensors  noise, and latents.{comfyui,musubi}: latents after 4 steps with load_lora_weights, which drops what files add to norms;
                      that is added to the weights by hand
"""
import shutil
import torch
from diffusers import WanPipeline
from safetensors.torch import save_file

import family
from make_wan import Spaced, Wan

LAYERS = {"self_attn.q": "attn1.to_q", "self_attn.k": "attn1.to_k", "self_attn.v": "attn1.to_v", "self_attn.o": "attn1.to_out.0", "cross_attn.q": "attn2.to_q",
          "cross_attn.k": "attn2.to_k", "cross_attn.v": "attn2.to_v", "cross_attn.o": "attn2.to_out.0", "ffn.0": "ffn.net.0.proj", "ffn.2": "ffn.net.2"}
NORMS = {"norm3": "norm2", "self_attn.norm_q": "attn1.norm_q", "cross_attn.norm_k": "attn2.norm_k"}
OUTSIDE = {"time_projection.1": "condition_embedder.time_proj", "head.head": "proj_out"}
OUT = family.HERE / "wan_lora"


def factors(module, rank):
    out, width = module.weight.shape
    return torch.randn(rank, width) / width**0.5, 0.3 * torch.randn(out, rank)


def comfyui(transformer):
    tensors = {}

    def add(name, module, alpha):
        down, up = factors(module, 2)
        tensors.update({f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up, f"{name}.diff_b": 0.2 * torch.randn(len(up))})
        if alpha:
            tensors[f"{name}.alpha"] = torch.tensor(float(alpha))

    for block in range(2):
        for theirs, ours in LAYERS.items():
            add(f"diffusion_model.blocks.{block}.{theirs}", transformer.get_submodule(f"blocks.{block}.{ours}"), 3)
        for theirs, ours in NORMS.items():
            norm = transformer.get_submodule(f"blocks.{block}.{ours}")
            tensors[f"diffusion_model.blocks.{block}.{theirs}.diff"] = 0.2 * torch.randn(norm.weight.shape)
            if getattr(norm, "bias", None) is not None:
                tensors[f"diffusion_model.blocks.{block}.{theirs}.diff_b"] = 0.2 * torch.randn(norm.bias.shape)
    for theirs, ours in OUTSIDE.items():
        add("diffusion_model." + theirs, transformer.get_submodule(ours), 0)
    return tensors


def musubi(transformer):
    tensors = {}
    for block in range(2):
        for theirs, ours in LAYERS.items():
            down, up = factors(transformer.get_submodule(f"blocks.{block}.{ours}"), 4)
            name = f"lora_unet_blocks_{block}_{theirs.replace('.', '_')}"
            tensors.update({f"{name}.lora_down.weight": down, f"{name}.lora_up.weight": up, f"{name}.alpha": torch.tensor(2.0)})
    return tensors


@torch.no_grad()
def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    golden = Wan()
    torch.manual_seed(12)
    expected = {"noise": torch.randn(2, *golden.LATENTS)}
    for name, make in (("comfyui", comfyui), ("musubi", musubi)):
        pipe = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32, scheduler=Spaced(shift=3.0))
        pipe.set_progress_bar_config(disable=True)
        tensors = make(pipe.transformer)
        save_file(tensors, OUT / f"{name}.safetensors")
        for key, value in tensors.items():
            _, _, path = key.partition("diffusion_model.")
            for theirs, ours in NORMS.items():
                for ending, parameter in ((".diff", "weight"), (".diff_b", "bias")):
                    if path.startswith("blocks.") and path.split(".", 2)[2] == theirs + ending:
                        pipe.transformer.get_submodule(path[: -len(theirs + ending)] + ours).get_parameter(parameter).add_(value)
        pipe.load_lora_weights(str(OUT / f"{name}.safetensors"))
        expected[f"latents.{name}"] = golden.sampled(pipe, expected["noise"])
    save_file(expected, OUT / "expected.safetensors")


if __name__ == "__main__":
    main()
