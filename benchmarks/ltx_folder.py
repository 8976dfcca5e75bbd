"""Writes LTX-2.3 as diffusers lays it out, with a transformer whose blocks are random INT8 codes (16.5 GB at full size), and counts what it
multiplies. Standard library only.

Text encoder, tokenizer, autoencoders and vocoder are those of tests/golden/ltx2_pipeline, and so are the connectors but for their widths.
"""
import json
import math
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from flux_folder import Noise, bytes_writer, make_once, write_safetensors

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/ltx2_pipeline/model"
LORA_TARGETS = r"transformer_blocks\.\d+\.(.*attn\d?\.(to_q|to_k|to_v|to_out\.0)|(audio_)?ff\.net\.(0\.proj|2))"
STATES = 144  # of a token, of all layers of the golden text encoder
TEXT_TOKENS = 128  # the connectors' registers, which captions are filled up with
LATENTS_A_SECOND, FRAMES_A_SECOND = 25, 24  # of sound, of clips


@dataclass(frozen=True)
class Transformer:
    """Widths of the two streams, which are those of their texts as well; channels of latents are those of the golden autoencoders."""
    num_layers: int
    num_heads: int
    head_dim: int
    audio_head_dim: int
    channels: int = 6
    audio_channels: int = 8

    @property
    def width(self):
        return self.num_heads * self.head_dim

    @property
    def audio_width(self):
        return self.num_heads * self.audio_head_dim

    def attentions(self):
        """{name: (width inside, of queries, of keys)} of a block's; queries' width is that of what comes out."""
        w, a = self.width, self.audio_width
        return {"attn1": (w, w, w), "attn2": (w, w, w), "audio_attn1": (a, a, a), "audio_attn2": (a, a, a),
                "audio_to_video_attn": (a, w, a), "video_to_audio_attn": (a, a, w)}

    def layers(self):
        """{name: (out, in)} of the layers of a block that are codes."""
        found = {}
        for name, (inner, asks, asked) in self.attentions().items():
            found |= {f"{name}.to_q": (inner, asks), f"{name}.to_k": (inner, asked), f"{name}.to_v": (inner, asked), f"{name}.to_out.0": (asks, inner)}
        for name, width in (("ff", self.width), ("audio_ff", self.audio_width)):
            found |= {f"{name}.net.0.proj": (4 * width, width), f"{name}.net.2": (width, 4 * width)}
        return found

    def num_parameters(self):
        """Of blocks; what is outside of them is less than a hundredth."""
        return self.num_layers * sum(math.prod(shape) for shape in self.layers().values())

    def flops(self, tokens, sound):
        """FLOPs of one forward over so many tokens of frames and of sound: (products with weights, attention)."""
        counts = {"attn1": (tokens, tokens), "attn2": (tokens, TEXT_TOKENS), "audio_attn1": (sound, sound), "audio_attn2": (sound, TEXT_TOKENS),
                  "audio_to_video_attn": (tokens, sound), "video_to_audio_attn": (sound, tokens)}
        products = attention = 0
        for name, (inner, asks, asked) in self.attentions().items():
            num_asking, num_asked = counts[name]
            products += 2 * 2 * inner * (num_asking * asks + num_asked * asked)
            attention += 4 * num_asking * num_asked * inner
        products += 2 * 8 * (tokens * self.width**2 + sound * self.audio_width**2)
        return self.num_layers * products, self.num_layers * attention


SMALL = Transformer(3, 2, 128, 64)
LTX_23 = Transformer(48, 32, 128, 64)


def tokens_of(frames, height, width):
    """(of frames, of sound) of a clip without sound, beside which stand latents of noise."""
    return (1 + (frames - 1) // 8) * (height // 32) * (width // 32), round(frames / FRAMES_A_SECOND * LATENTS_A_SECOND)


def entries_of(config, noise):
    """[(name, dtype, shape, write)] of the file."""
    entries = []
    number = struct.Struct("<f")

    def plain(name, *shape):
        entries.append((name, "BF16", shape, lambda file: noise.write(file, 2 * math.prod(shape))))

    def linear(layer, out, num_in):
        plain(f"{layer}.weight", out, num_in)
        plain(f"{layer}.bias", out)

    def codes(layer, shape):
        mark = json.dumps({"format": "int8_tensorwise"}).encode()
        entries.append((f"{layer}.weight", "I8", shape, lambda file: noise.write(file, math.prod(shape))))
        entries.append((f"{layer}.weight_scale", "F32", (shape[0], 1), bytes_writer(number.pack(2e-4) * shape[0])))
        entries.append((f"{layer}.comfy_quant", "U8", (len(mark),), bytes_writer(mark)))
        plain(f"{layer}.bias", shape[0])

    def time(name, width, out):
        linear(f"{name}.emb.timestep_embedder.linear_1", width, 256)
        linear(f"{name}.emb.timestep_embedder.linear_2", width, width)
        linear(f"{name}.linear", out * width, width)

    for prefix, other, width, channels, gate in (("", "video", config.width, config.channels, "a2v"),
                                                 ("audio_", "audio", config.audio_width, config.audio_channels, "v2a")):
        linear(f"{prefix}proj_in", width, channels)
        linear(f"{prefix}proj_out", channels, width)
        plain(f"{prefix}scale_shift_table", 2, width)
        for name, count in ((f"{prefix}time_embed", 9), (f"{prefix}prompt_adaln", 2), (f"av_cross_attn_{other}_scale_shift", 4),
                            (f"av_cross_attn_{other}_{gate}_gate", 1)):
            time(name, width, count)
    for block in (f"transformer_blocks.{i}" for i in range(config.num_layers)):
        for prefix, other, width in (("", "video", config.width), ("audio_", "audio", config.audio_width)):
            plain(f"{block}.{prefix}scale_shift_table", 9, width)
            plain(f"{block}.{prefix}prompt_scale_shift_table", 2, width)
            plain(f"{block}.{other}_a2v_cross_attn_scale_shift_table", 5, width)
        for name, (inner, asks, _) in config.attentions().items():
            for norm in ("norm_q", "norm_k"):
                entries.append((f"{block}.{name}.{norm}.weight", "BF16", (inner,), bytes_writer(b"\x80\x3f" * inner)))
            linear(f"{block}.{name}.to_gate_logits", config.num_heads, asks)
        for layer, shape in config.layers().items():
            codes(f"{block}.{layer}", shape)
    return entries


def connectors_of(config, noise, num_layers):
    """[(name, dtype, shape, write)] of the connectors' file."""
    entries = []

    def plain(name, *shape):
        entries.append((name, "BF16", shape, lambda file: noise.write(file, 2 * math.prod(shape))))

    def linear(layer, out, num_in):
        plain(f"{layer}.weight", out, num_in)
        plain(f"{layer}.bias", out)

    for stream, width in (("video", config.width), ("audio", config.audio_width)):
        linear(f"{stream}_text_proj_in", width, STATES)
        plain(f"{stream}_connector.learnable_registers", TEXT_TOKENS, width)
        for block in (f"{stream}_connector.transformer_blocks.{i}" for i in range(num_layers)):
            for norm in ("norm_q", "norm_k"):
                entries.append((f"{block}.attn1.{norm}.weight", "BF16", (width,), bytes_writer(b"\x80\x3f" * width)))
            for layer in ("to_q", "to_k", "to_v", "to_out.0"):
                linear(f"{block}.attn1.{layer}", width, width)
            linear(f"{block}.attn1.to_gate_logits", config.num_heads, width)
            linear(f"{block}.ff.net.0.proj", 4 * width, width)
            linear(f"{block}.ff.net.2", width, 4 * width)
    return entries


def write_part(folder, part, more, entries):
    """A component: the golden config with other numbers, and its tensors."""
    (folder / part).mkdir()
    numbers = json.loads((GOLDEN / part / "config.json").read_text()) | more
    (folder / part / "config.json").write_text(json.dumps(numbers, indent=2))
    write_safetensors(folder / part / "diffusion_pytorch_model.safetensors", entries)


def make_model(folder, config):
    def write(folder):
        shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("transformer", "connectors"))
        write_part(folder, "transformer",
                   {"num_layers": config.num_layers, "num_attention_heads": config.num_heads, "attention_head_dim": config.head_dim,
                    "audio_num_attention_heads": config.num_heads, "audio_attention_head_dim": config.audio_head_dim,
                    "cross_attention_dim": config.width, "audio_cross_attention_dim": config.audio_width},
                   entries_of(config, Noise(0)))
        heads = {f"{stream}_connector_num_attention_heads": config.num_heads for stream in ("video", "audio")}
        write_part(folder, "connectors",
                   heads | {"video_connector_attention_head_dim": config.head_dim, "audio_connector_attention_head_dim": config.audio_head_dim,
                            "video_hidden_dim": config.width, "audio_hidden_dim": config.audio_width},
                   connectors_of(config, Noise(1), num_layers=2))

    return make_once(folder, config, write)
