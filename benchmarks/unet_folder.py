"""Writes SDXL folders (diffusers layout) whose UNet has random weights, and counts what it multiplies. Standard library only.

Encoders and autoencoder are those of tests/golden/sdxl_pipeline, the tokenizer that of assets/tiny-flux.
"""
import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from flux_folder import Noise, make_once, write_weights

ROOT = Path(__file__).resolve().parent.parent
TEXT_WIDTH, POOLED_WIDTH, TEXT_TOKENS = 40, 24, 24  # of the encoders
# Attention and feed-forward layers, as one regular expression for a whole path: peft and burnish read it alike.
LORA_TARGETS = r".*\.(attn[12]\.(to_q|to_k|to_v|to_out\.0)|ff\.net\.(0\.proj|2))"


@dataclass(frozen=True)
class UNet:
    """The numbers of unet/config.json; the names are diffusers'."""
    block_out_channels: tuple
    attention_head_dim: tuple  # which is the number of heads
    transformer_layers_per_block: tuple
    layers_per_block: int = 2
    in_channels: int = 4
    out_channels: int = 4
    cross_attention_dim: int = TEXT_WIDTH
    addition_time_embed_dim: int = 256
    projection_class_embeddings_input_dim: int = POOLED_WIDTH + 6 * 256
    use_linear_projection: bool = True
    sample_size: int = 32
    down_block_types: tuple = ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D")
    up_block_types: tuple = ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D")
    addition_embed_type: str = "text_time"

    def shapes(self):
        return self.walk(1)[0]

    def num_parameters(self):
        return sum(math.prod(shape) for shape in self.shapes().values())

    def walk(self, side):
        """{name: shape} of every tensor, and the FLOPs of one forward over latents of side x side: (products with weights, attention)."""
        channels, time_width, shapes, flops = self.block_out_channels, 4 * self.block_out_channels[0], {}, [0, 0]

        def vector(name, *parts):
            shapes.update({f"{name}.{part}": (size,) for part, size in parts})

        def weight(name, shape, positions, has_bias=True):
            shapes[f"{name}.weight"] = shape
            if has_bias:
                shapes[f"{name}.bias"] = (shape[0],)
            flops[0] += 2 * math.prod(shape) * positions

        def norm(name, size):
            vector(name, ("weight", size), ("bias", size))

        def resnet(name, num_in, num_out, positions):
            norm(f"{name}.norm1", num_in)
            weight(f"{name}.conv1", (num_out, num_in, 3, 3), positions)
            weight(f"{name}.time_emb_proj", (num_out, time_width), 1)
            norm(f"{name}.norm2", num_out)
            weight(f"{name}.conv2", (num_out, num_out, 3, 3), positions)
            if num_in != num_out:
                weight(f"{name}.conv_shortcut", (num_out, num_in, 1, 1), positions)

        def attend(name, width, text, tokens):
            num_keys, key_width = (TEXT_TOKENS, text) if text else (tokens, width)
            weight(f"{name}.to_q", (width, width), tokens, has_bias=False)
            for projection in ("to_k", "to_v"):
                weight(f"{name}.{projection}", (width, key_width), num_keys, has_bias=False)
            weight(f"{name}.to_out.0", (width, width), tokens)
            flops[1] += 4 * tokens * num_keys * width

        def transformer(name, width, depth, tokens):
            norm(f"{name}.norm", width)
            weight(f"{name}.proj_in", (width, width), tokens)
            for i in range(depth):
                block = f"{name}.transformer_blocks.{i}"
                for n in ("norm1", "norm2", "norm3"):
                    norm(f"{block}.{n}", width)
                attend(f"{block}.attn1", width, 0, tokens)
                attend(f"{block}.attn2", width, self.cross_attention_dim, tokens)
                weight(f"{block}.ff.net.0.proj", (8 * width, width), tokens)
                weight(f"{block}.ff.net.2", (width, 4 * width), tokens)
            weight(f"{name}.proj_out", (width, width), tokens)

        def positions(level):
            return (side >> level) ** 2

        weight("conv_in", (channels[0], self.in_channels, 3, 3), positions(0))
        for embedding, num_in in (("time_embedding", channels[0]), ("add_embedding", self.projection_class_embeddings_input_dim)):
            weight(f"{embedding}.linear_1", (time_width, num_in), 1)
            weight(f"{embedding}.linear_2", (time_width, time_width), 1)
        levels, skips = len(channels), [channels[0]]
        for level, width in enumerate(channels):
            block = f"down_blocks.{level}"
            for i in range(self.layers_per_block):
                resnet(f"{block}.resnets.{i}", channels[max(level - 1, 0)] if i == 0 else width, width, positions(level))
                if self.down_block_types[level].startswith("CrossAttn"):
                    transformer(f"{block}.attentions.{i}", width, self.transformer_layers_per_block[level], positions(level))
                skips.append(width)
            if level + 1 < levels:
                weight(f"{block}.downsamplers.0.conv", (width, width, 3, 3), positions(level + 1))
                skips.append(width)
        for i in range(2):
            resnet(f"mid_block.resnets.{i}", channels[-1], channels[-1], positions(levels - 1))
        transformer("mid_block.attentions.0", channels[-1], self.transformer_layers_per_block[-1], positions(levels - 1))
        width_before = channels[-1]
        for index, level in enumerate(reversed(range(levels))):
            block, width = f"up_blocks.{index}", channels[level]
            for i in range(self.layers_per_block + 1):
                resnet(f"{block}.resnets.{i}", width_before + skips.pop(), width, positions(level))
                if self.up_block_types[index].startswith("CrossAttn"):
                    transformer(f"{block}.attentions.{i}", width, self.transformer_layers_per_block[level], positions(level))
                width_before = width
            if level > 0:
                weight(f"{block}.upsamplers.0.conv", (width, width, 3, 3), positions(level - 1))
        norm("conv_norm_out", channels[0])
        weight("conv_out", (self.out_channels, channels[0], 3, 3), positions(0))
        return shapes, tuple(flops)


SMALL = UNet((96, 192, 384), (2, 3, 6), (1, 2, 4))
SDXL = UNet((320, 640, 1280), (5, 10, 20), (1, 2, 10), sample_size=128)


def make_model(folder, config):
    def write(folder):
        shutil.copytree(ROOT / "tests/golden/sdxl_pipeline/model", folder, ignore=shutil.ignore_patterns("unet"))
        for tokenizer in ("tokenizer", "tokenizer_2"):
            shutil.copytree(ROOT / "assets/tiny-flux/tokenizer", folder / tokenizer)
        write_weights(folder / "unet", {"_class_name": "UNet2DConditionModel"} | asdict(config), config.shapes(), Noise(0))

    return make_once(folder, config, write)
