"""Writes FLUX model folders (diffusers layout) with random weights, and pictures to train on. Standard library only.

Encoders and tokenizers are those of assets/tiny-flux, widened where the transformer wants wider inputs; the autoencoder is that of
tests/golden/pipeline.
"""
import array
import csv
import json
import math
import random
import shutil
import struct
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TINY, GOLDEN_VAE = ROOT / "assets/tiny-flux", ROOT / "tests/golden/pipeline/model/vae"
SHARD_BYTES = 5 << 30
ITEM_BYTES = {"BF16": 2, "F32": 4, "I8": 1, "U8": 1}

# Attention and feed-forward layers of the blocks, as one regular expression for a whole path: peft and burnish read it alike.
LORA_TARGETS = (r"(single_)?transformer_blocks\.\d+\.(attn\.(to_q|to_k|to_v|to_out\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out)"
           r"|ff\.net\.(0\.proj|2)|ff_context\.net\.(0\.proj|2)|proj_mlp|proj_out)")


@dataclass(frozen=True)
class Transformer:
    """The numbers of transformer/config.json; the names are diffusers'."""
    num_layers: int
    num_single_layers: int
    num_attention_heads: int
    attention_head_dim: int
    joint_attention_dim: int
    pooled_projection_dim: int
    in_channels: int = 64
    patch_size: int = 1
    guidance_embeds: bool = True
    axes_dims_rope: tuple = (16, 56, 56)

    @property
    def width(self):
        return self.num_attention_heads * self.attention_head_dim

    def shapes(self):
        """{name: shape} of every tensor."""
        width, head, shapes = self.width, self.attention_head_dim, {}

        def linear(name, num_in, num_out):
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (num_out, num_in), (num_out,)

        def attention(name, projections, norms):
            for projection in projections:
                linear(f"{name}.{projection}", width, width)
            for norm in norms:
                shapes[f"{name}.{norm}.weight"] = (head,)

        linear("x_embedder", self.in_channels, width)
        linear("context_embedder", self.joint_attention_dim, width)
        embedders = {"timestep": 256, "text": self.pooled_projection_dim} | ({"guidance": 256} if self.guidance_embeds else {})
        for embedder, num_in in embedders.items():
            linear(f"time_text_embed.{embedder}_embedder.linear_1", num_in, width)
            linear(f"time_text_embed.{embedder}_embedder.linear_2", width, width)
        for i in range(self.num_layers):
            block = f"transformer_blocks.{i}"
            linear(f"{block}.norm1.linear", width, 6 * width)
            linear(f"{block}.norm1_context.linear", width, 6 * width)
            attention(f"{block}.attn", ["to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out"],
                      ["norm_q", "norm_k", "norm_added_q", "norm_added_k"])
            for ff in ("ff", "ff_context"):
                linear(f"{block}.{ff}.net.0.proj", width, 4 * width)
                linear(f"{block}.{ff}.net.2", 4 * width, width)
        for i in range(self.num_single_layers):
            block = f"single_transformer_blocks.{i}"
            linear(f"{block}.norm.linear", width, 3 * width)
            attention(f"{block}.attn", ["to_q", "to_k", "to_v"], ["norm_q", "norm_k"])
            linear(f"{block}.proj_mlp", width, 4 * width)
            linear(f"{block}.proj_out", 5 * width, width)
        linear("norm_out.linear", width, 2 * width)
        linear("proj_out", width, self.in_channels)
        return shapes

    def num_parameters(self):
        return sum(math.prod(shape) for shape in self.shapes().values())


TINY_INPUTS = {"joint_attention_dim": 128, "pooled_projection_dim": 96}  # what tiny-flux's encoders make
SMALL = Transformer(2, 4, 4, 128, **TINY_INPUTS)
FLUX_DEV = Transformer(19, 38, 24, 128, 4096, 768)


class Noise:
    """Gaussian bf16 values of deviation 0.02. A pool of a million is drawn and walked through, so that 24 GB take seconds and not hours."""

    def __init__(self, seed):
        draw = random.Random(seed).gauss
        raw = array.array("f", (draw(0.0, 0.02) for _ in range((1 << 20) + 7))).tobytes()
        pool = bytearray(len(raw) // 2)
        pool[0::2], pool[1::2] = raw[2::4], raw[3::4]  # the upper half of an fp32 is a bf16
        self.pool, self.position = memoryview(bytes(pool)), 0

    def write(self, file, num_bytes):
        while num_bytes > 0:
            part = self.pool[self.position:self.position + num_bytes]
            file.write(part)
            num_bytes -= len(part)
            self.position = (self.position + len(part)) % len(self.pool)


def write_safetensors(path, entries):
    """entries: [(name, dtype, shape, write)], where write(file) writes exactly the tensor's bytes."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, _ in entries:
        begin, end = end, end + math.prod(shape) * ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, write in entries:
            write(file)


def read_safetensors(path):
    """[(name, dtype, shape, bytes)] of a small file."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + length]), memoryview(data)[8 + length:]
    return [(name, item["dtype"], tuple(item["shape"]), body[slice(*item["data_offsets"])])
            for name, item in header.items() if name != "__metadata__"]


def bytes_writer(data):
    return lambda file: file.write(data)


def shards_of(shapes):
    """Lists of names whose tensors fit a shard of 5 GiB in bf16."""
    shards, size = [[]], 0
    for name, shape in shapes.items():
        size += 2 * math.prod(shape)
        if size > SHARD_BYTES:
            shards.append([])
            size = 2 * math.prod(shape)
        shards[-1].append(name)
    return shards


def write_weights(folder, config, shapes, noise):
    """config.json, and weights in bf16 in as many files as it takes: biases 0, norms 1, all else noise."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    stem, shards, weight_map = "diffusion_pytorch_model", shards_of(shapes), {}

    def entry(name):
        shape = shapes[name]
        num = math.prod(shape)
        if name.endswith(".bias"):
            return name, "BF16", shape, bytes_writer(bytes(2 * num))
        if len(shape) == 1:
            return name, "BF16", shape, bytes_writer(b"\x80\x3f" * num)  # 1.0
        return name, "BF16", shape, lambda file: noise.write(file, 2 * num)

    for i, names in enumerate(shards):
        file = f"{stem}.safetensors" if len(shards) == 1 else f"{stem}-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors(folder / file, [entry(name) for name in names])
        weight_map |= dict.fromkeys(names, file)
    if len(shards) > 1:
        total = sum(2 * math.prod(shape) for shape in shapes.values())
        (folder / f"{stem}.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))


def write_transformer(folder, config, noise):
    write_weights(folder, {"_class_name": "FluxTransformer2DModel"} | asdict(config), config.shapes(), noise)


def write_widened(folder, component, widths, config_changes, noise):
    """A text encoder of tiny-flux with every dimension `widths` names replaced; matrices random, vectors as norms need them."""
    (folder / component).mkdir()
    config = json.loads((TINY / component / "config.json").read_text()) | config_changes
    (folder / component / "config.json").write_text(json.dumps(config, indent=2))
    entries = []
    for name, dtype, shape, _ in read_safetensors(TINY / component / "model.safetensors"):
        shape = tuple(widths.get(n, n) for n in shape)
        num = math.prod(shape)
        if len(shape) == 1:
            write = bytes_writer((b"\x80\x3f" if name.endswith("weight") else b"\0\0") * num)
        else:
            write = lambda file, num=num: noise.write(file, 2 * num)
        entries.append((name, dtype, shape, write))
    write_safetensors(folder / component / "model.safetensors", entries)


def write_vae(folder, levels):
    """The golden pipeline's autoencoder: its 4 levels scale by 8, as FLUX.1's do. Of fewer, those beside the pixels are left out."""
    (folder / "vae").mkdir()
    config = json.loads((GOLDEN_VAE / "config.json").read_text())
    dropped = len(config["block_out_channels"]) - levels
    for key in ("block_out_channels", "down_block_types", "up_block_types"):
        config[key] = config[key][dropped:]
    (folder / "vae/config.json").write_text(json.dumps(config, indent=2))
    entries = []
    for name, dtype, shape, data in read_safetensors(GOLDEN_VAE / "diffusion_pytorch_model.safetensors"):
        side, part, *rest = name.split(".")
        if part in ("down_blocks", "up_blocks"):
            level = int(rest[0]) - (dropped if part == "down_blocks" else 0)
            if not 0 <= level < levels or (part == "up_blocks" and level == levels - 1 and rest[1] == "upsamplers"):
                continue
            rest[0] = str(level)
        entries.append((".".join([side, part, *rest]), dtype, shape, bytes_writer(data)))
    write_safetensors(folder / "vae/diffusion_pytorch_model.safetensors", entries)


def copy_from_tiny(folder, names):
    for name in names:
        source = TINY / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy(source, folder / name)


def is_made(folder, config):
    mark = folder / "made_from.json"
    return mark.exists() and json.loads(mark.read_text()) == json.loads(json.dumps(asdict(config)))


def make_once(folder, config, write):
    """Has `write` fill the folder unless it holds the model already. The mark is written last, so a broken folder is made again."""
    folder = Path(folder)
    if not is_made(folder, config):
        shutil.rmtree(folder, ignore_errors=True)
        write(folder)
        (folder / "made_from.json").write_text(json.dumps(asdict(config)))
    return folder


def write_model(folder, config):
    noise = Noise(0)
    write_transformer(folder / "transformer", config, noise)
    copy_from_tiny(folder, ["model_index.json", "scheduler", "tokenizer", "tokenizer_2"])
    if replace(config, **TINY_INPUTS) == config:
        copy_from_tiny(folder, ["text_encoder", "text_encoder_2"])
        write_vae(folder, 3)
    else:
        pooled, joint = config.pooled_projection_dim, config.joint_attention_dim
        write_widened(folder, "text_encoder", {96: pooled}, {"hidden_size": pooled}, noise)
        write_widened(folder, "text_encoder_2", {128: joint}, {"d_model": joint, "d_kv": joint // 4}, noise)
        write_vae(folder, 4)


def make_model(folder, config):
    return make_once(folder, config, lambda folder: write_model(folder, config))


def write_png(path, width, height, pixel):
    """An RGB PNG; pixel(row, column) -> (r, g, b)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(c for x in range(width) for c in pixel(y, x)) for y in range(height))
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def make_pictures(folder, count, side, caption_repeats=1):
    """Gradients with a disk each, and metadata.csv with their captions, each said so often; returns the metadata's path."""
    folder = Path(folder)
    metadata = folder / "metadata.csv"
    if metadata.exists():
        return metadata
    folder.mkdir(parents=True, exist_ok=True)
    colours = [(220, 60, 50), (60, 160, 70), (50, 90, 200), (230, 190, 60)]
    rows = []
    for i in range(count):
        centre, radius, colour = side * (i + 1) // (count + 1), side // 5, colours[i % len(colours)]

        def pixel(y, x):
            inside = (x - centre) ** 2 + (y - side // 2) ** 2 < radius**2
            return colour if inside else (255 * x // side, 255 * y // side, 128)

        write_png(folder / f"{i}.png", side, side, pixel)
        rows.append((f"{i}.png", ", ".join([f"a disk, number {i}, on a gradient"] * caption_repeats)))
    with open(metadata, "w", newline="") as file:
        csv.writer(file).writerows([("image", "prompt"), *rows])
    return metadata
