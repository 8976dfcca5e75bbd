#!/usr/bin/env python3
"""What diffusers keeps between forward and backward, in kept_by_diffusers.json: {model: bytes} of a step that trains all of a published
model's denoiser in bf16 on one picture, 1024x1024 (SD 1.5: 512x512), with 512 tokens of text (UNets: 77).

Counted are the storages that autograd saves, each once, without parameters and the model's inputs, by torch's hooks on saved tensors. The
tensors are fake ones, which have shapes and no numbers, so that models of their full size need no memory.
"""
import json, pathlib
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves
from diffusers import (ChromaTransformer2DModel, Flux2Transformer2DModel, FluxTransformer2DModel, QwenImageTransformer2DModel, UNet2DConditionModel,
                       ZImageTransformer2DModel)

OUT = pathlib.Path(__file__).parent / "kept_by_diffusers.json"
PICTURE, TEXT = 4096, 512  # tokens


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16)


def flux_inputs(width, text_width, axes, **more):
    """`axes` is the shape of positions behind the tokens."""
    lead = [1] if axes == 4 else []
    return {"hidden_states": numbers(1, PICTURE, width), "encoder_hidden_states": numbers(1, TEXT, text_width), "timestep": numbers(1),
            "img_ids": torch.zeros(*lead, PICTURE, axes), "txt_ids": torch.zeros(*lead, TEXT, axes)} | more


def unet_inputs(size, text_width, **more):
    return {"sample": numbers(1, 4, size, size), "timestep": torch.ones(1), "encoder_hidden_states": numbers(1, 77, text_width)} | more


SDXL = {"sample_size": 128, "block_out_channels": (320, 640, 1280), "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), "transformer_layers_per_block": [1, 2, 10],
        "attention_head_dim": [5, 10, 20], "cross_attention_dim": 2048, "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816, "use_linear_projection": True}
KLEIN = {"num_layers": 5, "num_single_layers": 20, "num_attention_heads": 24, "joint_attention_dim": 7680, "guidance_embeds": False}
CASES = {
    "flux-dev": (lambda: FluxTransformer2DModel(guidance_embeds=True),
                 lambda: flux_inputs(64, 4096, 3, pooled_projections=numbers(1, 768), guidance=torch.ones(1))),
    "chroma": (ChromaTransformer2DModel, lambda: flux_inputs(64, 4096, 3, attention_mask=torch.ones(1, TEXT + PICTURE, dtype=torch.bool))),
    "flux2-klein-4b": (lambda: Flux2Transformer2DModel(**KLEIN), lambda: flux_inputs(128, 7680, 4, guidance=None)),
    "qwen-image": (QwenImageTransformer2DModel,
                   lambda: {"hidden_states": numbers(1, PICTURE, 64), "encoder_hidden_states": numbers(1, TEXT, 3584), "encoder_hidden_states_mask": None,
                            "timestep": numbers(1), "img_shapes": [[(1, 64, 64)]]}),
    "z-image": (ZImageTransformer2DModel, lambda: {"x": [numbers(16, 1, 128, 128)], "t": numbers(1), "cap_feats": [numbers(TEXT, 2560)]}),
    "sdxl": (lambda: UNet2DConditionModel(**SDXL),
             lambda: unet_inputs(128, 2048, added_cond_kwargs={"text_embeds": numbers(1, 1280), "time_ids": torch.zeros(1, 6)})),
    "sd15": (lambda: UNet2DConditionModel(sample_size=64, cross_attention_dim=768), lambda: unet_inputs(64, 768)),
}


def kept(make_model, make_inputs):
    with FakeTensorMode():
        torch.set_default_dtype(torch.bfloat16)
        model = make_model()
        torch.set_default_dtype(torch.float32)
        inputs = make_inputs()
        given = {t.untyped_storage()._cdata for t in [*model.parameters(), *tree_leaves(inputs)] if torch.is_tensor(t)}
        storages = {}

        def save(tensor):
            storage = tensor.untyped_storage()
            storages[storage._cdata] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            model.train()(**inputs, return_dict=False)
    return sum(count for storage, count in storages.items() if storage not in given)


if __name__ == "__main__":
    OUT.write_text(json.dumps({name: kept(*case) for name, case in CASES.items()}, indent=1) + "\n")
