"""Writes Wan folders (diffusers layout) whose transformer has random weights, counts what it multiplies, and makes clips to train on. Standard
library only.

Text encoder, tokenizer and autoencoder are those of tests/golden/wan_pipeline.
"""
import math
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from flux_folder import Noise, make_once, make_pictures, write_weights

ROOT = Path(__file__).resolve().parent.parent
TEXT_TOKENS = 512
# Attention and feed-forward layers, as one regular expression for a whole path: peft and burnish read it alike.
LORA_TARGETS = r"blocks\.\d+\.(attn[12]\.(to_q|to_k|to_v|to_out\.0)|ffn\.net\.(0\.proj|2))"


@dataclass(frozen=True)
class Transformer:
    """The numbers of transformer/config.json; the names are diffusers'."""
    num_layers: int
    num_attention_heads: int
    ffn_dim: int
    attention_head_dim: int = 128
    in_channels: int = 16
    out_channels: int = 16
    freq_dim: int = 256
    text_dim: int = 16  # of the golden text encoder
    patch_size: tuple = (1, 2, 2)
    cross_attn_norm: bool = True
    qk_norm: str = "rms_norm_across_heads"
    rope_max_seq_len: int = 1024

    @property
    def width(self):
        return self.num_attention_heads * self.attention_head_dim

    def shapes(self):
        """{name: shape} of every tensor."""
        width, shapes = self.width, {}

        def linear(name, num_in, num_out):
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (num_out, num_in), (num_out,)

        shapes["patch_embedding.weight"] = (width, self.in_channels, *self.patch_size)
        shapes["patch_embedding.bias"] = (width,)
        for embedder, num_in in (("text_embedder", self.text_dim), ("time_embedder", self.freq_dim)):
            linear(f"condition_embedder.{embedder}.linear_1", num_in, width)
            linear(f"condition_embedder.{embedder}.linear_2", width, width)
        linear("condition_embedder.time_proj", width, 6 * width)
        for i in range(self.num_layers):
            block = f"blocks.{i}"
            for attention in ("attn1", "attn2"):
                for projection in ("to_q", "to_k", "to_v", "to_out.0"):
                    linear(f"{block}.{attention}.{projection}", width, width)
                for norm in ("norm_q", "norm_k"):
                    shapes[f"{block}.{attention}.{norm}.weight"] = (width,)
            shapes[f"{block}.norm2.weight"], shapes[f"{block}.norm2.bias"] = (width,), (width,)
            linear(f"{block}.ffn.net.0.proj", width, self.ffn_dim)
            linear(f"{block}.ffn.net.2", self.ffn_dim, width)
            shapes[f"{block}.scale_shift_table"] = (1, 6, width)
        shapes["scale_shift_table"] = (1, 2, width)
        linear("proj_out", width, self.out_channels * math.prod(self.patch_size))
        return shapes

    def num_parameters(self):
        return sum(math.prod(shape) for shape in self.shapes().values())

    def flops(self, tokens):
        """FLOPs of one forward over so many tokens: (products with weights, attention)."""
        width = self.width
        products = self.num_layers * (tokens * (6 * width**2 + 2 * width * self.ffn_dim) + TEXT_TOKENS * 2 * width**2)
        return 2 * products, self.num_layers * 4 * tokens * (tokens + TEXT_TOKENS) * width


SMALL = Transformer(4, 4, 2048)
WAN_1_3B = Transformer(30, 12, 8960)


def make_model(folder, config):
    def write(folder):
        shutil.copytree(ROOT / "tests/golden/wan_pipeline/model", folder, ignore=shutil.ignore_patterns("transformer"))
        write_weights(folder / "transformer", {"_class_name": "WanTransformer3DModel"} | asdict(config), config.shapes(), Noise(0))

    return make_once(folder, config, write)


def make_clips(folder, count, frames, side):
    """Clips as folders of numbered frames, which come from two pictures in turn, and metadata.csv with their captions; returns its path."""
    folder = Path(folder)
    metadata = folder / "metadata.csv"
    if metadata.exists():
        return metadata
    pictures = make_pictures(folder / "pictures", 2, side).parent
    for i in range(count):
        (folder / f"clip{i}").mkdir()
        for k in range(frames):
            (folder / f"clip{i}/{k:04d}.png").hardlink_to(pictures / f"{(i + k) % 2}.png")
    metadata.write_text("video,prompt\n" + "".join(f"clip{i},a disk on a gradient that changes\n" for i in range(count)))
    return metadata
