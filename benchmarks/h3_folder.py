"""Writes MiniMax-H3 with a transformer of random codes in ComfyUI's pruned INT8 layout, which is 20 GB at full size, and counts what it
multiplies. Standard library only.

Text encoder, tokenizer and autoencoders are those of tests/golden/minimax_h3_pipeline.
"""
import json
import math
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from flux_folder import Noise, bytes_writer, make_once, write_safetensors

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/minimax_h3_pipeline/model"
FILE = "minimax_h3_fl2va_pruned_int8_convrot.safetensors"
PARTS = (FILE, "text_encoder", "vae", "audio_vae")  # beside the tokenizer
LORA_TARGETS = r"transformer_blocks\.\d+\.(attn\.(to_q|to_k|to_v|to_out\.0)|ff\.net\.(0\.proj|2))"
TABLE_ROWS, TABLE_WIDTH = 1025, 8  # the time of pruned files
SOUND_TOKENS, TEXT_TOKENS = 4, 32  # of a still, and of a caption of the golden encoder


@dataclass(frozen=True)
class Transformer:
    """Sizes of the transformer; those of latents and texts are the golden autoencoders' and encoder's."""
    width: int
    num_layers: int
    num_heads: int
    ffn_dim: int
    head_dim: int = 128
    channels: int = 24  # four latents of six numbers
    audio_channels: int = 5
    text_dim: int = 8
    num_refiner_layers: int = 2

    def block(self):
        """{name: (out, in)} of the layers of a block that are codes."""
        inner = self.num_heads * self.head_dim
        return {"attn.qkv_proj": (3 * inner, self.width), "attn.out_proj": (self.width, inner),
                "mlp.fc1": (2 * self.ffn_dim, self.width), "mlp.fc2": (self.width, self.ffn_dim)}

    def num_parameters(self):
        """Of blocks; what is outside of them is less than a hundredth."""
        return self.num_layers * sum(math.prod(shape) for shape in self.block().values())

    def flops(self, tokens):
        """FLOPs of one forward over so many tokens: (products with weights, attention)."""
        return 2 * tokens * self.num_parameters(), self.num_layers * 4 * tokens**2 * self.num_heads * self.head_dim


SMALL = Transformer(256, 3, 2, 512)
MINIMAX_H3 = Transformer(5376, 50, 56, 14336)


def entries_of(config, noise):
    """[(name, dtype, shape, write)] of the file."""
    entries = []
    number = struct.Struct("<f")

    def plain(name, *shape, one=False):
        num = math.prod(shape)
        write = bytes_writer(b"\x80\x3f" * num) if one else lambda file: noise.write(file, 2 * num)
        entries.append((name, "BF16", shape, write))

    def codes(layer, shape, group):
        mark = json.dumps({"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": group}).encode()
        num = math.prod(shape)
        entries.append((f"{layer}.weight", "I8", shape, lambda file: noise.write(file, num)))
        entries.append((f"{layer}.weight_scale", "F32", (shape[0], 1), bytes_writer(number.pack(2e-4) * shape[0])))
        entries.append((f"{layer}.comfy_quant", "U8", (len(mark),), bytes_writer(mark)))

    def linear(layer, out, num_in):
        plain(f"{layer}.weight", out, num_in)
        plain(f"{layer}.bias", out)

    c, inner = config, config.num_heads * config.head_dim
    entries.append(("adaln_t_table", "F32", (TABLE_ROWS, TABLE_WIDTH), bytes_writer(number.pack(0.02) * (TABLE_ROWS * TABLE_WIDTH))))
    for layer, out, num_in in (("video_patch_proj", c.width, c.channels), ("audio_patch_proj", c.width, c.audio_channels), ("condition_proj", c.width, c.text_dim),
                               ("final_layer.adaln_proj.linear", 2 * c.width, TABLE_WIDTH), ("final_layer.video_out", c.channels, c.width), ("final_layer.audio_out", c.audio_channels, c.width)):
        linear(layer, out, num_in)
    for norm in ("final_layer.norm", "token_refiner.final_norm"):
        plain(f"{norm}.weight", c.width, one=True)
    stacks = [("token_refiner.blocks", c.num_refiner_layers), ("blocks", c.num_layers)]
    for block in (f"{stack}.{i}" for stack, count in stacks for i in range(count)):
        for norm, width in (("norm1", c.width), ("norm2", c.width), ("attn.q_norm", c.head_dim), ("attn.k_norm", c.head_dim)):
            plain(f"{block}.{norm}.weight", width, one=True)
        for layer, shape in c.block().items():
            if block.startswith("token"):
                plain(f"{block}.{layer}.weight", *shape)
            else:
                codes(f"{block}.{layer}", shape, 256)
        if not block.startswith("token"):
            linear(f"{block}.adaln_proj.linear", 18 * c.width, TABLE_WIDTH)
    assert inner % 256 == 0 and c.width % 256 == 0 and c.ffn_dim % 256 == 0
    return entries


def make_model(folder, config):
    """The transformer's file stands in the folder beside those of the other components."""
    def write(folder):
        shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("transformer", "modular_model_index.json"))
        write_safetensors(folder / FILE, entries_of(config, Noise(0)))

    return make_once(folder, config, write)
