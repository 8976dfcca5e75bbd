"""Weights as codes, as bitsandbytes and GGUF files have them -> coded/bitsandbytes.safetensors, coded/blocks.gguf, coded/t5.gguf,
coded/qwen.gguf, coded/llama.gguf, as ComfyUI has them -> coded/comfyui.safetensors, and as torchao, quanto and Black Forest Labs do ->
coded/rows.safetensors; coded/expected.safetensors; and coded/written.safetensors, what comfy-kitchen makes of the weights "numbers.<layer>".

"<name>" of the last is the weight that its own package makes of it in fp32: bitsandbytes.functional.dequantize_4bit on the CPU, and
gguf.quants.dequantize, and comfy_kitchen's own computation without a GPU, dequantize() of torchao's and quanto's tensors, diffusers' dequantize_nvfp4. Formats that gguf cannot write have random bytes with sensible scales.
"""
import copy
import json
import pathlib

import bitsandbytes.functional as bnb
import comfy_kitchen
import diffusers.quantizers.bfl.utils as bfl
import gguf
import numpy as np
import optimum.quanto
import torch
import torchao.quantization
from safetensors.torch import save_file
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

HERE = pathlib.Path(__file__).parent / "coded"
torch.manual_seed(0)
RANDOM = np.random.default_rng(0)


def four_bits(expected):
    """NF4 with scales that are codes, FP4 with plain ones, further blocks, and a weight whose blocks reach over the ends of rows."""
    tensors = {"norm.weight": torch.randn(48)}
    for name, shape, kind, nested, block in [
        ("a.weight", (48, 128), "nf4", True, 64),
        ("b.weight", (48, 192), "fp4", False, 64),
        ("c.weight", (24, 256), "nf4", True, 128),
        ("odd.weight", (6, 40), "nf4", False, 64),
        ("kernel.weight", (8, 16, 2, 2), "fp4", True, 64),
    ]:
        weight = torch.randn(shape) * torch.rand(shape[0], *[1] * (len(shape) - 1))
        packed, state = bnb.quantize_4bit(weight.to(torch.bfloat16), blocksize=block, compress_statistics=nested, quant_type=kind)
        tensors[name] = packed
        tensors |= {f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}
        state.dtype = torch.float32
        expected[name] = bnb.dequantize_4bit(packed, state).clone()
    weight = torch.randn(16, 32).half()
    codes, largest, _ = bnb.int8_vectorwise_quant(weight)
    tensors |= {"rows.weight": codes, "rows.SCB": largest, "rows.weight_format": torch.tensor(0, dtype=torch.uint8)}
    expected["rows.weight"] = codes.float() * (largest.float() * (1 / 127)).unsqueeze(1)
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "bitsandbytes.safetensors")


def comfyui(expected):
    """MXFP8 and NVFP4 with their scales as cuBLAS lays them out, INT8 with a scale for each row, rotated or not."""
    tensors = {}

    def put(layer, mark, **parts):
        tensors[f"{layer}.comfy_quant"] = torch.frombuffer(bytearray(json.dumps(mark).encode()), dtype=torch.uint8)
        tensors.update({f"{layer}.{name}": value for name, value in parts.items()})

    with comfy_kitchen.use_backend("eager"):
        weight = torch.randn(160, 160)
        codes, scales = comfy_kitchen.quantize_mxfp8(weight)
        put("mxfp8", {"format": "mxfp8"}, weight=codes, weight_scale=scales.view(torch.uint8))
        expected["mxfp8.weight"] = comfy_kitchen.dequantize_mxfp8(codes, scales, torch.float32)
        whole = weight.abs().amax() / (448 * 6)
        codes, scales = comfy_kitchen.quantize_nvfp4(weight, whole)
        put("nvfp4", {"format": "nvfp4"}, weight=codes, weight_scale=scales, weight_scale_2=whole)
        expected["nvfp4.weight"] = comfy_kitchen.dequantize_nvfp4(codes, whole, scales, torch.float32)
        for name, group in [("plain", 0), ("rotated", 256), ("few", 16)]:
            layout = comfy_kitchen.tensor.int8.TensorWiseINT8Layout
            more = {"convrot": True, "convrot_groupsize": group} if group else {}
            codes, params = layout.quantize(torch.randn(4, 256), per_channel=True, **more)
            put(f"int8_{name}", {"format": "int8_tensorwise", **more}, weight=codes, weight_scale=params.scale)
            expected[f"int8_{name}.weight"] = layout.dequantize(codes, params)
        codes, scales = comfy_kitchen.quantize_convrot_w4a4_weight(torch.randn(6, 320), 64)
        put("int4", {"format": "convrot_w4a4", "convrot_groupsize": 64, "linear_dtype": "int4"}, weight=codes, weight_scale=scales)
        expected["int4.weight"] = comfy_kitchen.dequantize_convrot_w4a4_weight(codes, scales, 64, output_dtype=torch.float32)
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "comfyui.safetensors")


def rows(expected):
    """Parts of tensors of torchao and quanto with a scale for each row, and NVFP4 that no mark tells."""
    tensors = {}
    layer = torch.nn.Linear(48, 16, bias=False)
    for name, config in [("ao_int8", torchao.quantization.Int8WeightOnlyConfig), ("ao_fp8", torchao.quantization.Float8WeightOnlyConfig)]:
        quantized = torch.nn.ModuleDict({name: copy.deepcopy(layer)})
        torchao.quantization.quantize_(quantized, config())
        tensors |= flatten_tensor_state_dict(quantized.state_dict())[0]
        expected[f"{name}.weight"] = quantized[name].weight.dequantize().detach()
    for name, dtype in [("quanto_int8", optimum.quanto.qint8), ("quanto_fp8", optimum.quanto.qfloat8)]:
        quantized = torch.nn.ModuleDict({name: copy.deepcopy(layer)})
        optimum.quanto.quantize(quantized, weights=dtype)
        optimum.quanto.freeze(quantized)
        tensors |= quantized.state_dict()
        expected[f"{name}.weight"] = quantized[name].weight.dequantize().detach()
    codes, scales, whole = bfl.quantize_nvfp4(torch.randn(16, 64))
    tensors |= {"bfl.weight": codes, "bfl.weight_scale": scales, "bfl.weight_scale_2": whole, "bfl.input_scale": torch.tensor(0.5)}
    expected["bfl.weight"] = bfl.dequantize_nvfp4(codes, scales, whole)
    codes, scales = bfl.quantize_fp8r(torch.randn(16, 64))
    tensors |= {"bfl_fp8.weight": codes, "bfl_fp8.weight_scale": scales, "bfl_fp8.input_scale": torch.tensor(0.5)}
    expected["bfl_fp8.weight"] = bfl.dequantize_fp8r(codes, scales)
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "rows.safetensors")


def written():
    """Weights in fp32, and what comfy-kitchen makes of them."""
    tensors = {}
    with comfy_kitchen.use_backend("eager"):
        for name, shape in [("int8", (24, 80)), ("int8_convrot", (24, 512)), ("int8_convrot_64", (24, 320)), ("nvfp4", (48, 96)), ("fp8_tensor", (24, 64))]:
            weight = torch.randn(shape) * torch.rand(shape[0], 1)
            tensors[f"numbers.{name}"] = weight
            if name.startswith("int8"):
                group = 64 if name.endswith("64") else 256
                more = {"convrot": True, "convrot_groupsize": group} if "convrot" in name else {}
                codes, params = comfy_kitchen.tensor.int8.TensorWiseINT8Layout.quantize(weight, per_channel=True, **more)
                tensors |= {f"{name}.weight": codes, f"{name}.weight_scale": params.scale}
            elif name == "nvfp4":
                codes, params = comfy_kitchen.tensor.nvfp4.TensorCoreNVFP4Layout.quantize(weight)
                tensors |= {f"{name}.weight": codes, f"{name}.weight_scale": params.block_scale, f"{name}.weight_scale_2": params.scale}
            else:
                codes, params = comfy_kitchen.tensor.fp8.TensorCoreFP8Layout.quantize(weight)
                tensors |= {f"{name}.weight": codes, f"{name}.scale_weight": params.scale}
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "written.safetensors")


def llama():
    """A layer of a Llama as llama.cpp's converter writes it (its LlamaModel.permute): rows of queries and keys that rotate together are
    neighbours. Row i of the published layer holds the number i."""
    heads, kv_heads, in_features = 4, 2, 32
    writer = gguf.GGUFWriter(HERE / "llama.gguf", "llama")
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
        rows = np.repeat(np.arange(16 * count, dtype=np.float32)[:, None], in_features, 1)
        if part != "v":
            rows = rows.reshape(count, 2, 8, in_features).swapaxes(1, 2).reshape(rows.shape)
        name = table.get_name(f"model.layers.0.self_attn.{part}_proj.weight", try_suffixes=(".weight",))
        if part == "k":
            writer.add_tensor(name, rows)
        else:
            writer.add_tensor(name, gguf.quants.quantize(rows, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    finish(writer)


def random_blocks(kind, rows, numbers):
    """Bytes of a type, with the fp16 numbers among them small."""
    size, length = gguf.GGML_QUANT_SIZES[kind]
    blocks = RANDOM.integers(0, 256, (rows * numbers // size, length), dtype=np.uint8)
    halves = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_XS": (0,), "IQ4_NL": (0,)}[kind.name]
    for place in halves:
        blocks[:, place : place + 2] = RANDOM.normal(0, 0.02, (len(blocks), 1)).astype(np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def blocks(expected):
    writer = gguf.GGUFWriter(HERE / "blocks.gguf", "flux")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    types = gguf.GGMLQuantizationType
    for kind in [types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0, types.BF16]:
        data = gguf.quants.quantize(RANDOM.normal(0, 1, (3, 512)).astype(np.float32), kind)
        add(writer, expected, f"{kind.name.lower()}.weight", data, kind)
    for kind in [types.Q2_K, types.Q3_K, types.Q4_K, types.Q5_K, types.Q6_K, types.IQ4_NL, types.IQ4_XS]:
        add(writer, expected, f"{kind.name.lower()}.weight", random_blocks(kind, 3, 512), kind)
    # As ComfyUI-GGUF writes convolutions: rows of whole blocks, and their shape beside them.
    data = gguf.quants.quantize(RANDOM.normal(0, 1, (18, 256)).astype(np.float32), types.Q4_0)
    add(writer, expected, "conv.weight", data, types.Q4_0)
    writer.add_array("comfy.gguf.orig_shape.conv.weight", [32, 16, 3, 3])
    expected["conv.weight"] = expected["conv.weight"].reshape(32, 16, 3, 3).clone()
    writer.add_tensor("half.weight", RANDOM.normal(0, 1, (3, 5)).astype(np.float16))
    writer.add_tensor("norm.bias", RANDOM.normal(0, 1, 7).astype(np.float32))
    finish(writer)


def add(writer, expected, name, data, kind):
    writer.add_tensor(name, data, raw_dtype=kind)
    expected[name] = torch.from_numpy(np.ascontiguousarray(gguf.quants.dequantize(data, kind)))


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def names():
    """Text encoders' names as gguf's own table has them."""
    for file, architecture, arch, layer in [
        ("t5", "t5encoder", gguf.MODEL_ARCH.T5ENCODER, "encoder.block.0.layer.{}"),
        ("qwen", "qwen3", gguf.MODEL_ARCH.QWEN3, "model.layers.0.{}"),
    ]:
        table = gguf.get_tensor_name_map(arch, 1)
        writer = gguf.GGUFWriter(HERE / f"{file}.gguf", architecture)
        for i, ours in enumerate(OURS[file]):
            theirs = table.get_name(ours, try_suffixes=(".weight",))
            writer.add_tensor(theirs, np.full((2, 3), i, np.float32))
        finish(writer)


BLOCK = "encoder.block.0.layer."
OURS = {
    "t5": ["shared.weight", "encoder.final_layer_norm.weight"]
    + [f"{BLOCK}0.SelfAttention.{part}.weight" for part in ("q", "k", "v", "o", "relative_attention_bias")]
    + [f"{BLOCK}0.layer_norm.weight", f"{BLOCK}1.layer_norm.weight"]
    + [f"{BLOCK}1.DenseReluDense.{part}.weight" for part in ("wi_0", "wi_1", "wo")],
    "qwen": ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
    + [f"model.layers.0.self_attn.{part}.weight" for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")]
    + [f"model.layers.0.mlp.{part}_proj.weight" for part in ("gate", "up", "down")]
    + [f"model.layers.0.{part}.weight" for part in ("input_layernorm", "post_attention_layernorm")],
}


def main():
    HERE.mkdir(exist_ok=True)
    expected = {}
    four_bits(expected)
    comfyui(expected)
    blocks(expected)
    names()
    rows(expected)
    written()
    llama()
    save_file({k: v.contiguous() for k, v in expected.items()}, HERE / "expected.safetensors")


if __name__ == "__main__":
    main()
