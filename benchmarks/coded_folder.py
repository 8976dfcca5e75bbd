"""Copies of a diffusers folder whose transformer has weights of its blocks in codes that other programs make: ComfyUI's, by comfy-kitchen, and GGUF's,
by gguf-py, which has no K-quants: those of 4 bits are made here, each scale from a block's least and greatest number, where llama.cpp searches for better."""
import json
import re
import shutil

import numpy as np

BLOCKS = re.compile(r"(.*_)?blocks\.\d+\.")
WEIGHTS = "diffusion_pytorch_model"


def mxfp8(weight):
    import comfy_kitchen
    import torch
    codes, scales = comfy_kitchen.quantize_mxfp8(weight)
    return {"format": "mxfp8"}, {"weight": codes, "weight_scale": scales.view(torch.uint8)}


def nvfp4(weight):
    import comfy_kitchen
    whole = weight.abs().amax() / (448 * 6)
    codes, scales = comfy_kitchen.quantize_nvfp4(weight, whole)
    return {"format": "nvfp4"}, {"weight": codes, "weight_scale": scales, "weight_scale_2": whole}


def convrot_w4a4(weight):
    import comfy_kitchen
    group = max(g for g in (16, 64, 256) if weight.shape[1] % g == 0)
    codes, scales = comfy_kitchen.quantize_convrot_w4a4_weight(weight, group)
    return {"format": "convrot_w4a4", "convrot_groupsize": group, "linear_dtype": "int4"}, {"weight": codes, "weight_scale": scales}


def q4_k(weight):
    """ggml's Q4_K: 8 blocks of 32 numbers share two halves, d and m; number = d · scale · code − m · offset, scale and offset of six bits."""
    blocks = weight.reshape(-1, 8, 32).astype(np.float32)
    offset = np.maximum(-blocks.min(2), 0)
    scale = (blocks.max(2) + offset) / 15
    d, m = ((x.max(1, keepdims=True) / 63).astype(np.float16) for x in (scale, offset))
    to_six = lambda x, whole: np.rint(x / np.maximum(whole.astype(np.float32), 1e-12)).clip(0, 63).astype(np.uint8)
    sc, mn = to_six(scale, d), to_six(offset, m)
    step = np.maximum((d.astype(np.float32) * sc)[..., None], 1e-12)
    codes = np.rint((blocks + (m.astype(np.float32) * mn)[..., None]) / step).clip(0, 15).astype(np.uint8).reshape(-1, 4, 2, 32)
    packed = (codes[:, :, 0] | codes[:, :, 1] << 4).reshape(-1, 128)
    low = np.concatenate([sc[:, :4] | sc[:, 4:] >> 4 << 6, mn[:, :4] | mn[:, 4:] >> 4 << 6], 1)
    six = np.concatenate([low, sc[:, 4:] & 15 | (mn[:, 4:] & 15) << 4], 1)
    return np.concatenate([d.view(np.uint8), m.view(np.uint8), six, packed], 1).reshape(weight.shape[0], -1)


MARKED = {"mxfp8": mxfp8, "nvfp4": nvfp4, "convrot_w4a4": convrot_w4a4}
BLOCKWISE = ["Q8_0", "Q5_1", "Q4_0", "Q4_K"]
FORMATS = [*MARKED, *BLOCKWISE]


def is_coded(name, tensor, width=1):
    return bool(BLOCKS.match(name)) and "norm" not in name and tensor.ndim == 2 and tensor.shape[1] % width == 0


def fits(model, name):
    """Whether the folder's transformer has rows of whole blocks of a format: GGUF's K-quants have blocks of 256."""
    import gguf
    from safetensors.torch import load_file

    width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0] if name in BLOCKWISE else 1
    return any(is_coded(key, tensor, width) for key, tensor in load_file(model / f"transformer/{WEIGHTS}.safetensors").items())


def write_marked(tensors, name, out):
    import comfy_kitchen
    import torch
    from safetensors.torch import save_file

    written = {}
    with comfy_kitchen.use_backend("eager"):
        for key, tensor in tensors.items():
            if not is_coded(key, tensor):
                written[key] = tensor
                continue
            layer = key.removesuffix(".weight")
            mark, parts = MARKED[name](tensor.float())
            parts["comfy_quant"] = torch.frombuffer(bytearray(json.dumps(mark).encode()), dtype=torch.uint8)
            written |= {f"{layer}.{part}": value.contiguous() for part, value in parts.items()}
    save_file(written, out / f"{WEIGHTS}.safetensors")


def write_blockwise(tensors, name, out):
    import gguf

    kind = gguf.GGMLQuantizationType[name]
    writer = gguf.GGUFWriter(out / f"{WEIGHTS}.gguf", "flux")
    for key, tensor in tensors.items():
        numbers = tensor.float().numpy()
        if is_coded(key, tensor, gguf.GGML_QUANT_SIZES[kind][0]):
            writer.add_tensor(key, q4_k(numbers) if name == "Q4_K" else gguf.quants.quantize(numbers, kind), raw_dtype=kind)
        else:
            if numbers.ndim > 4:  # more than GGUF has
                writer.add_array(f"comfy.gguf.orig_shape.{key}", list(numbers.shape))
                numbers = numbers.reshape(numbers.shape[0], -1)
            writer.add_tensor(key, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(model, name, out):
    """Writes `out`, the folder `model` with its transformer's blocks in a format of FORMATS; the options that name it as a model."""
    from safetensors.torch import load_file

    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(model, out, ignore=shutil.ignore_patterns("diffusion_pytorch_model.*"))
    shutil.copytree(model / "vae", out / "vae", dirs_exist_ok=True)
    tensors = load_file(model / f"transformer/{WEIGHTS}.safetensors")
    if name in MARKED:
        write_marked(tensors, name, out / "transformer")
        return ["--model", out]
    write_blockwise(tensors, name, out / "transformer")
    parts = [out / f"transformer/{WEIGHTS}.gguf", *(out / part for part in ("text_encoder", "text_encoder_2", "vae") if (out / part).exists())]
    tokenizers = ["--tokenizer_path", out / "tokenizer"]
    if (out / "tokenizer_2").exists():
        tokenizers += ["--tokenizer_2_path", out / "tokenizer_2"]
    return ["--model_paths", json.dumps([str(part) for part in parts]), *tokenizers]
