#!/usr/bin/env python3
"""Codes of 4 and of 6 bits with a scale for each 16 neighbours, as ComfyUI has them (W4A8, W6A8) -> coded/grouped.safetensors.

<layer>.weight and what goes with it, and expected.<layer>, the weight that comfy-kitchen's own computation makes of them in fp32. The layer "moved" has codes without a
table, around zeros of their own.
"""
import json, pathlib
import comfy_kitchen
import torch
from comfy_kitchen.tensor.w4a8_int8 import AsymW4A8Int8Layout as Layout
from safetensors.torch import save_file

FILE = pathlib.Path(__file__).parent / "coded/grouped.safetensors"


def main():
    torch.manual_seed(5)
    tensors = {}
    with comfy_kitchen.use_backend("eager"):
        for layer, columns, rotation, options in [("four", 512, 256, {}), ("few", 192, 64, {}), ("six", 256, 256, {"bits": 6}), ("moved", 256, 256, {"symmetric": False, "codebook": False})]:
            codes, params = Layout.quantize(torch.randn(8, columns) * torch.rand(8, 1), convrot_groupsize=rotation, **options)
            mark = {"format": "asym_w4a8_int8", "group_size": 16, "convrot_groupsize": rotation}
            tensors[f"{layer}.comfy_quant"] = torch.frombuffer(bytearray(json.dumps(mark).encode()), dtype=torch.uint8)
            tensors |= {f"{layer}.weight{ending}": x for ending, x in Layout.state_dict_tensors(codes, params).items()}
            tensors[f"expected.{layer}"] = Layout.dequantize(codes, params)
    tensors["few.weight_s_rel"] = tensors["few.weight_s_rel"].view(torch.uint8)  # as some programs write them
    save_file({n: x.contiguous() for n, x in tensors.items()}, FILE)
    FILE.chmod(0o644)
    print({n: (x.dtype, tuple(x.shape)) for n, x in tensors.items()})


if __name__ == "__main__":
    main()
