#!/usr/bin/env python3
"""Writes an SDXL folder (diffusers layout) whose UNet is small and random but shaped as the published one: unet_folder.py FOLDER.

Encoders and autoencoder are those of tests/golden/sdxl_pipeline, the tokenizer that of assets/tiny-flux. Needs torch and diffusers.
"""
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = dict(in_channels=4, out_channels=4, block_out_channels=(96, 192, 384), layers_per_block=2, cross_attention_dim=40,
             attention_head_dim=(2, 3, 6), transformer_layers_per_block=(1, 2, 4), use_linear_projection=True, sample_size=32,
             down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
             up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), addition_embed_type="text_time",
             addition_time_embed_dim=256, projection_class_embeddings_input_dim=24 + 6 * 256)
# Attention and feed-forward layers, as one regular expression for a whole path: peft and burnish read it alike.
LORA_TARGETS = r".*\.(attn[12]\.(to_q|to_k|to_v|to_out\.0)|ff\.net\.(0\.proj|2))"


def make(folder):
    import torch
    from diffusers import UNet2DConditionModel
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tests/golden/sdxl_pipeline/model", folder)
    for tokenizer in ("tokenizer", "tokenizer_2"):
        shutil.copytree(ROOT / "assets/tiny-flux/tokenizer", folder / tokenizer)
    torch.manual_seed(0)
    UNet2DConditionModel(**SMALL).save_pretrained(folder / "unet")
    (folder / "done").touch()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
