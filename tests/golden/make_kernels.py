#!/usr/bin/env python3
"""Operators of src/kernels/*/triton.py by plain torch and its autograd, in fp64 -> kernels/OPERATOR.safetensors.

<case>.<name>   inputs (numbers that bf16 holds), the result y, the gradient dy that comes in, and the gradients d<input>; fp32
Cases differ in sizes: odd ones, one row, rows that fill no block, several samples.
"""
import pathlib

import comfy_kitchen
import torch
from bitsandbytes.functional import create_dynamic_map
from safetensors.torch import save_file
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "kernels"


def draw(*shape, scale=1.0):
    return (torch.randn(shape) * scale).bfloat16().double()


def gradients(operator, result="y", **inputs):
    """What `operator` makes of the inputs, and the gradient of each."""
    leaves = {name: value.clone().requires_grad_() for name, value in inputs.items()}
    y = operator(**leaves)
    dy = draw(*y.shape)
    y.backward(dy)
    return {**inputs, result: y.detach(), f"d{result}": dy, **{f"d{name}": leaf.grad for name, leaf in leaves.items()}}


def modulated_norm():
    def operator(x, modulation):
        scale, shift = modulation.unsqueeze(2).unbind(1)
        return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift

    for name, (batch, rows, width) in {"odd": (2, 9, 131), "one": (1, 1, 64), "narrow": (3, 5, 7)}.items():
        yield name, gradients(operator, x=(draw(batch, rows, width, scale=3) + 1).bfloat16().double(), modulation=draw(batch, 2, width))


def qk_norm_rope():
    """The norm of each head, and where a case is "together" of all heads of a token."""
    cases = {"odd": (2, 5, 3, 16, False), "one": (1, 1, 1, 64, False), "placed": (2, 3, 5, 8, True), "together": (2, 3, 5, 8, False)}
    for name, (batch, rows, heads, width, of_batch) in cases.items():
        of_norm = (heads, width) if name == "together" else (width,)
        angles = torch.randn((batch if of_batch else 1, rows, width // 2)).float()
        cos, sin = angles.cos(), angles.sin()

        def operator(x, weight, of_norm=of_norm, cos=cos, sin=sin):
            pairs = F.rms_norm(x, of_norm, weight, eps=1e-6).transpose(1, 2).unflatten(-1, (-1, 2))
            first, second = pairs.unbind(-1)
            c, s = cos.double().unsqueeze(1), sin.double().unsqueeze(1)
            return torch.stack((first * c - second * s, second * c + first * s), -1).flatten(-2)

        yield name, {**gradients(operator, x=draw(batch, rows, heads, width), weight=draw(*of_norm)), "cos": cos, "sin": sin}


def gated_residual():
    for name, (batch, rows, width) in {"odd": (2, 9, 131), "one": (1, 1, 16)}.items():
        yield name, gradients(lambda residual, gate, y: residual + gate.unsqueeze(1) * y, residual=draw(batch, rows, width),
                              gate=draw(batch, width), y=draw(batch, rows, width), result="out")


def gelu_tanh():
    for name, count in {"odd": 1003, "few": 3}.items():
        yield name, gradients(lambda x: F.gelu(x, approximate="tanh"), x=draw(count, scale=4))


def geglu():
    for name, (rows, width) in {"odd": (5, 131), "one": (1, 16)}.items():
        yield name, gradients(lambda x: x.chunk(2, -1)[0] * F.gelu(x.chunk(2, -1)[1]), x=draw(rows, 2 * width, scale=2))


def group_norm_silu():
    for name, (batch, channels, groups, pixels) in {"odd": (2, 12, 4, 37), "one": (1, 2, 2, 8), "long": (1, 6, 2, 150)}.items():
        x = (draw(batch, channels, pixels, scale=3) + torch.arange(channels).unsqueeze(1)).bfloat16().double()
        yield name, {**gradients(lambda x, weight, bias: F.silu(F.group_norm(x, groups, weight, bias, 1e-5)), x=x, weight=draw(channels),
                                 bias=draw(channels)), "groups": torch.tensor(groups)}


def channel_gain():
    for name, (rows, width) in {"odd": (9, 131), "one": (1, 16)}.items():
        yield name, gradients(lambda x, gain, offset: x * gain + offset, x=draw(rows, width), gain=draw(width), offset=draw(width))


def low_rank():
    for name, (rows, width, rank) in {"odd": (37, 83, 5), "one": (1, 16, 16), "wide": (40, 96, 20)}.items():
        case = gradients(lambda h, b: h @ b.t(), h=draw(rows, rank), b=draw(width, rank))
        yield name, {key: case[key] for key in ("h", "b", "dy", "dh", "db")}


def unpack():
    """Every code of the 8-bit formats, times a scale for each row or for 128 numbers of it."""
    for name, dtype in {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "int8": torch.int8}.items():
        codes = torch.stack((torch.arange(256), torch.arange(256).flip(0), torch.randperm(256))).byte()[:, :251].contiguous()
        for part, scales in {"row": torch.rand(3, 1) + 0.5, "block": torch.rand(3, 2) + 0.5}.items():
            each = scales.double().repeat_interleave(251 if part == "row" else 128, 1)[:, :251]
            values = codes.view(dtype).double()
            yield f"{name}_{part}", {"codes": codes.clone(), "scales": scales, "out": values.masked_fill(values.isinf(), torch.nan) * each}


def quantize_rows():
    """Rows, one of them of zeros, over scales: the codes that torch's own conversion to E4M3 makes of them, and whole numbers."""
    for name, (rows, width) in {"odd": (5, 131), "one": (1, 8)}.items():
        x = draw(rows, width).float() * torch.logspace(-3, 3, rows).unsqueeze(1)
        x = x.bfloat16().float()
        x[-1, ::2] *= 2.0**-9  # codes below the smallest exponent
        if rows > 1:
            x[0] = 0
        gain = torch.rand(width) + 0.5
        for part, exact in {"plain": x, "gained": x * gain}.items():
            scales = exact.abs().amax(1, True).clamp_min(1e-12) / 448
            codes = (exact / scales).clamp(-448, 448).to(torch.float8_e4m3fn)
            int8_scales = exact.abs().amax(1, True).clamp_min(1e-12) / 127
            yield f"{name}_{part}", {"x": x.clone(), "gain": gain.clone(), "scales": scales.squeeze(1), "codes": codes.view(torch.uint8),
                                     "int8_scales": int8_scales.squeeze(1), "int8_codes": (exact / int8_scales).round().to(torch.int8)}


def quantize_blocks():
    """Rows as MXFP8 and NVFP4, by comfy-kitchen's computation without a GPU; one of them is zeros, and one has sizes far from the others'."""
    for name, (rows, width) in {"odd": (131, 96), "one": (1, 32)}.items():
        x = draw(rows, width).float()
        if rows > 1:
            x[0], x[1, :48] = 0, x[1, :48] * 2.0**-14
        case = {"x": x}
        with comfy_kitchen.use_backend("eager"):
            codes, scales = comfy_kitchen.quantize_mxfp8(x)
            case |= {"mxfp8_codes": codes.view(torch.uint8), "mxfp8_scales": scales.view(torch.uint8)}
            case["whole"] = (x.abs().amax() / (448 * 6)).reshape(1)
            codes, scales = comfy_kitchen.quantize_nvfp4(x, case["whole"][0], pad_16x=True)
            case |= {"e2m1_codes": codes.view(torch.uint8)[:rows], "e2m1_scales": scales.view(torch.uint8)}
        yield name, case


def scaled_sums():
    """Whole sums times scales of rows and columns, with a bias or on what is there: forward's two ways and the gradient's two."""
    for name, (rows, width) in {"odd": (5, 131), "one": (1, 8)}.items():
        case = {"sums": torch.randint(-2**24, 2**24, (rows, width), dtype=torch.int32), "before": draw(rows, width, scale=1e3),
                "bias": draw(width, scale=1e3), "rows": draw(rows).abs(), "columns": draw(width).abs()}
        scaled = case["sums"] * case["rows"].unsqueeze(1)
        yield name, case | {"plain": scaled, "added": scaled + case["before"], "with_columns": scaled * case["columns"],
                            "biased": scaled * case["columns"] + case["bias"], "columns_added": scaled * case["columns"] + case["before"]}


def adamw_8bit():
    """AdamW of torch on moments that are codes of bitsandbytes' maps, with a scale for 256 numbers: the new value and moments, exact."""
    for name, (count, step) in {"odd": (1100, 3), "first": (300, 1), "few": (7, 1000)}.items():
        blocks = -(-count // 256)
        case = {"value": draw(count), "gradient": draw(count), "step": torch.tensor(step)}
        state = {"step": torch.tensor(float(step - 1))}
        for moment, is_signed in {"exp_avg": True, "exp_avg_sq": False}.items():
            map_ = create_dynamic_map(is_signed)
            codes, scales = torch.randint(0, 256, (count,)).byte(), torch.rand(blocks) * 0.1
            if step == 1:
                scales.zero_()
            case |= {f"{moment}_map": map_, f"{moment}_codes": codes, f"{moment}_scales": scales}
            state[moment] = map_[codes.long()].double() * scales.double().repeat_interleave(256)[:count]
        value = case["value"].clone().requires_grad_()
        value.grad = case["gradient"].clone()
        adamw = torch.optim.AdamW([value], lr=1e-2, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)
        adamw.state[value] = state
        adamw.step()
        yield name, {**case, "new_value": value.detach(), "new_exp_avg": state["exp_avg"], "new_exp_avg_sq": state["exp_avg_sq"]}


OPERATORS = (modulated_norm, qk_norm_rope, gated_residual, gelu_tanh, geglu, group_norm_silu, channel_gain, low_rank, unpack,
             quantize_rows, quantize_blocks, adamw_8bit, scaled_sums)


def main():
    FOLDER.mkdir(exist_ok=True)
    for operator in OPERATORS:
        torch.manual_seed(0)
        tensors = {f"{case}.{name}": value.float().contiguous() if value.is_floating_point() else value
                   for case, values in operator() for name, value in values.items()}
        save_file(tensors, FOLDER / f"{operator.__name__}.safetensors")


if __name__ == "__main__":
    main()
