"""How other programs spell a LoRA's layers. Facts: sd-scripts' networks/, OneTrainer's modules/util/convert/lora/, ComfyUI's comfy/lora.py,
ai-toolkit's toolkit/network_mixins.py and keymaps."""
import re
from typing import NamedTuple
import torch
from safetensors.torch import save_file

DENOISERS = ("transformer", "unet")
QKV, TEXT_QKV = ("attn.to_q", "attn.to_k", "attn.to_v"), ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
# Layers of blocks in the names of FLUX' authors, and what of them diffusers has apart.
DOUBLE = {"img_attn.qkv": QKV, "txt_attn.qkv": TEXT_QKV, "img_attn.proj": ("attn.to_out.0",), "txt_attn.proj": ("attn.to_add_out",),
          "img_mod.lin": ("norm1.linear",), "txt_mod.lin": ("norm1_context.linear",)}
MLPS = {"img_mlp.0": ("ff.net.0.proj",), "img_mlp.2": ("ff.net.2",), "txt_mlp.0": ("ff_context.net.0.proj",), "txt_mlp.2": ("ff_context.net.2",)}
SINGLE = {"linear1": (*QKV, "proj_mlp"), "linear2": ("proj_out",), "modulation.lin": ("norm.linear",)}
MLPS_2 = {"img_mlp.0": ("ff.linear_in",), "img_mlp.2": ("ff.linear_out",), "txt_mlp.0": ("ff_context.linear_in",), "txt_mlp.2": ("ff_context.linear_out",)}
SINGLE_2 = {"linear1": ("attn.to_qkv_mlp_proj",), "linear2": ("attn.to_out",)}
OUTER = {"x_embedder": "img_in", "context_embedder": "txt_in", "proj_out": "final_layer.linear", "norm_out.linear": "final_layer.adaLN_modulation.1",
         **{f"time_text_embed.{ours}_embedder.linear_{i + 1}": f"{theirs}_in.{('in', 'out')[i]}_layer"
            for ours, theirs in (("timestep", "time"), ("text", "vector"), ("guidance", "guidance")) for i in range(2)}}
RESNET = {"conv1": "in_layers.2", "conv2": "out_layers.3", "time_emb_proj": "emb_layers.1", "conv_shortcut": "skip_connection"}
UNET_OUTER = {"conv_in": "input_blocks.0.0", "conv_out": "out.2", "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2",
              "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2"}


class Name(NamedTuple):
    """What holds a layer in another program's file: its path there, and which of how many parts that stand below each other."""
    path: str
    part: int = 0
    parts: int = 1
    swapped: bool = False  # the second half of the rows first


def same(path):
    return Name(path)


def of_blocks(double, single):
    """Black Forest Labs' names."""
    def name(path):
        found = re.fullmatch(r"(single_)?transformer_blocks\.(\d+)\.(.+)", path)
        if not found:
            return Name(OUTER[path], swapped=path == "norm_out.linear")
        single_block, number, layer = found.groups()
        theirs, parts = next(item for item in (single if single_block else double).items() if layer in item[1])
        return Name(f"{'single' if single_block else 'double'}_blocks.{number}.{theirs}", parts.index(layer), len(parts))
    return name


flux, flux2 = of_blocks(DOUBLE | MLPS, SINGLE), of_blocks(DOUBLE | MLPS_2, SINGLE_2)


def sdxl(path):
    """Latent diffusion's names of SDXL's UNet: two steps a level down and three up, in one row."""
    if path in UNET_OUTER:
        return Name(UNET_OUTER[path])
    side, rest = path.split("_block", 1)
    if side == "mid":
        kind, number, layer = rest[1:].split(".", 2)
        return Name(f"middle_block.{2 * int(number) if kind == 'resnets' else 1}.{RESNET.get(layer, layer)}")
    level, kind, number, layer = rest[2:].split(".", 3)
    if kind == "downsamplers":
        return Name(f"input_blocks.{3 * (int(level) + 1)}.0.op")
    if kind == "upsamplers":
        return Name(f"output_blocks.{3 * int(level) + 2}.2.conv")
    step = 3 * int(level) + int(number)
    place = f"input_blocks.{step + 1}" if side == "down" else f"output_blocks.{step}"
    return Name(f"{place}.{0 if kind == 'resnets' else 1}.{RESNET.get(layer, layer)}")


class Spelling(NamedTuple):
    """How a program's files name layers: `before` stands before the path of a component's layer, and `name` makes one of the denoiser's.
    Without an alpha the scale is multiplied into the second factor."""
    before: dict
    halves: tuple = ("lora_A", "lora_B")
    name: object = same
    ending: str = ""
    flat: bool = False
    alpha: bool = False


def dotted(before, name=same, **options):
    return Spelling(before, name=name, **options)


def flat(before, name=same):
    return Spelling(before, ("lora_down", "lora_up"), name, flat=True, alpha=True)


def text_path(path):
    """CLIP's layers stand below text_model in files, and with some versions of transformers in the module."""
    return "text_model." + path.removeprefix("text_model.") if "encoder.layers" in path else path


def group(state, spelling):
    """peft's factors by component and path, as {(component, path there): {part: (A, B)}}."""
    groups = {}
    for component, tensors in state.items():
        for key, a in tensors.items():
            path, _, rest = key.partition(".lora_A")
            if rest:
                name = spelling.name(path) if component in DENOISERS else Name(text_path(path))
                b = tensors[key.replace(".lora_A", ".lora_B")]
                groups.setdefault((component, name.path, name.parts), {})[name.part] = (a, b.roll(b.shape[0] // 2, 0) if name.swapped else b)
    return groups


def save(state, spelling, alpha, file):
    """peft's tensors of an adapter, {component: {name: tensor}}, in the names of another program. Layers that stand in one there share
    their first factor, as they do where that program trains them."""
    tensors = {}
    for (component, path, count), parts in group(state, spelling).items():
        assert len(parts) == count, path
        (a, _), up = parts[0], torch.cat([parts[i][1] for i in range(count)])
        assert all(torch.equal(a, other) for other, _ in parts.values()), path
        layer = spelling.before[component] + path
        if spelling.flat:
            layer = layer.replace(".", "_")
        scale = 1 if spelling.alpha else alpha / a.shape[0]
        for half, value in zip(spelling.halves, (a, up * scale)):
            tensors[f"{layer}.{half}{spelling.ending}.weight"] = value.contiguous().clone()
        if spelling.alpha:
            tensors[f"{layer}.alpha"] = torch.tensor(float(alpha))
    save_file(tensors, file)
    return file


def share(state_of, spelling):
    """Gives layers that stand in one in that program's files one first factor; `state_of` is peft's parameters by component."""
    with torch.no_grad():
        for parts in group(state_of, spelling).values():
            for a, _ in parts.values():
                a.copy_(parts[0][0])


NORMS = {"norm_q": "img_attn.norm.query_norm", "norm_k": "img_attn.norm.key_norm", "norm_added_q": "txt_attn.norm.query_norm",
         "norm_added_k": "txt_attn.norm.key_norm"}


def original_name(path):
    """FLUX.1's authors' name of a weight or bias."""
    layer, ending = path.rsplit(".", 1)
    norm = layer.rsplit(".", 1)[-1]
    if norm not in NORMS:
        name = flux(layer)
        return name._replace(path=f"{name.path}.{ending}")
    block, number = layer.split(".")[:2]
    if block.startswith("single"):
        return Name(f"single_blocks.{number}.{NORMS[norm].removeprefix('img_attn.')}.scale")
    return Name(f"double_blocks.{number}.{NORMS[norm]}.scale")


def dequantized(tensors):
    """The numbers behind codes and their scales; CLIP's under the names that its module has."""
    one = torch.tensor(1.0)
    return {name.removeprefix("text_model."): value.float() * tensors.get(f"{name.removesuffix('.weight')}.scale_weight", one) for name, value in tensors.items()
            if not name.endswith(("scale_weight", "scaled_fp8"))}


def save_scaled(state, scale_name, mark_name, file):
    """A FLUX.1 transformer with E4M3 codes and one scale for each matrix of its blocks, in its authors' names, as ComfyUI's files hold it; gives
    diffusers' tensors with the numbers behind the codes."""
    groups, tensors, numbers = {}, {}, {}
    for path, value in state.items():
        name = original_name(path)
        groups.setdefault(name.path, {})[name.part] = (path, value.float(), name.swapped)
    for theirs, parts in groups.items():
        values = [parts[i][1] for i in range(len(parts))]
        whole = torch.cat(values)
        if whole.dim() == 2 and "_blocks." in theirs:
            layer, scale = theirs.removesuffix(".weight"), whole.abs().max() / 448
            codes = (whole / scale).to(torch.float8_e4m3fn)
            tensors |= {theirs: codes, f"{layer}.{scale_name}": scale, f"{layer}.{mark_name}": torch.tensor(1.0)}
            values = (codes.float() * scale).split([len(value) for value in values])
        else:
            tensors[theirs] = whole.roll(len(whole) // 2, 0) if parts[0][2] else whole
        numbers |= {parts[i][0]: value for i, value in enumerate(values)}
    save_file(tensors | {"scaled_fp8": torch.zeros(2, dtype=torch.float8_e4m3fn)}, file)
    return numbers
