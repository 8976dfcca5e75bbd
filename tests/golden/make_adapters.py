#!/usr/bin/env python3
"""Adapters on one linear layer and one convolution, computed by others -> adapters.safetensors.

w, bias, x, dy                 the layer, its input and the gradient of its output, fp64
<case>.y, <case>.dx            output and input gradient
<case>.p.<name>, <case>.g.<name>   parameters by the names of adapter files, and their gradients
<case>.scale                   alpha / rank as the adapter uses it
conv.w, ..., conv.<case>.y, ...    the same for a 3x3 convolution with stride 2 and padding 1
Cases: peft_lora, peft_rslora, peft_dora, peft_loha, peft_lokr (peft); lycoris_oft, lycoris_full (LyCORIS, in fp32, which its OFT inverts
in); onetrainer_dora_{input,output} (its formula, written out: the whole
weight, norms with its eps, detached).
"""
import pathlib

import torch
from lycoris.modules.diag_oft import DiagOFTModule
from lycoris.modules.full import FullModule
from peft import LoHaConfig, LoKrConfig, LoraConfig, get_peft_model
from safetensors.torch import save_file

OUT, IN, RANK, ALPHA = 12, 20, 3, 6.0
STRIDE, PADDING = 2, 1
NAMES = {"lora_A.default.weight": "lora_A.weight", "lora_B.default.weight": "lora_B.weight", "lora_magnitude_vector.default.weight": "lora_magnitude_vector"}


def short(name):
    tail = name.split("base_model.model.layer.")[1]
    return NAMES.get(tail, tail.removesuffix(".default"))


class Net(torch.nn.Module):
    def __init__(self, w, bias):
        super().__init__()
        if w.dim() == 2:
            self.layer = torch.nn.Linear(IN, OUT, dtype=torch.float64)
        else:
            self.layer = torch.nn.Conv2d(IN, OUT, 3, STRIDE, PADDING, dtype=torch.float64)
        self.layer.weight.data.copy_(w)
        self.layer.bias.data.copy_(bias)

    def forward(self, x):
        return self.layer(x)


def make(prefix, draw, w, x, dy):
    """Every case on a layer with weight w; the names of what is recorded start with `prefix`."""
    bias = draw(OUT)
    out = {f"{prefix}{k}": v for k, v in {"w": w, "bias": bias, "x": x, "dy": dy}.items()}
    convolution = w.dim() == 4

    def record(case, y, x_in, parameters, scale):
        y.backward(dy)
        case = prefix + case
        out[f"{case}.y"], out[f"{case}.dx"] = y.detach(), x_in.grad
        out[f"{case}.scale"] = torch.tensor([scale], dtype=torch.float64)
        for name, p in parameters:
            out[f"{case}.p.{name}"], out[f"{case}.g.{name}"] = p.detach().clone(), p.grad

    lora = dict(r=RANK, lora_alpha=ALPHA, target_modules=["layer"])
    configs = {
        "peft_lora": (LoraConfig(**lora), ALPHA / RANK),
        "peft_rslora": (LoraConfig(**lora, use_rslora=True), ALPHA / RANK**0.5),
        "peft_dora": (LoraConfig(**lora, use_dora=True), ALPHA / RANK),
        "peft_loha": (LoHaConfig(r=RANK, alpha=ALPHA, target_modules=["layer"]), ALPHA / RANK),
        "peft_lokr": (LoKrConfig(r=1, alpha=2.0, target_modules=["layer"]), 2.0),
    }
    if convolution:
        del configs["peft_rslora"]
        configs["peft_loha_tucker"] = (LoHaConfig(r=RANK, alpha=ALPHA, target_modules=["layer"], use_effective_conv2d=True), ALPHA / RANK)
        configs["peft_lokr_tucker"] = (LoKrConfig(r=1, alpha=2.0, target_modules=["layer"], use_effective_conv2d=True), 2.0)
    for case, (config, scale) in configs.items():
        net = get_peft_model(Net(w, bias), config).double().train()
        named = [(short(n), p) for n, p in net.named_parameters() if p.requires_grad]
        for name, p in named:  # away from the start, where half of the gradients are zero
            p.data.copy_(p.data.abs() * (1 + 0.1 * draw(*p.shape)) if name == "lora_magnitude_vector" else 0.3 * draw(*p.shape))
        x_in = x.clone().requires_grad_()
        record(case, net(x_in), x_in, named, scale)

    for axis in ("input",) if convolution else ("input", "output"):
        a, b = (0.3 * draw(RANK, *w.shape[1:])).requires_grad_(), (0.3 * draw(OUT, RANK, *[1] * (w.dim() - 2))).requires_grad_()
        dims = [d for d in range(w.dim()) if d != (1 if axis == "input" else 0)]
        length = torch.linalg.vector_norm(w, dim=dims, keepdim=True)
        m = (length * (1 + 0.1 * draw(*length.shape))).requires_grad_()
        v = w + (b.flatten(1) @ a.flatten(1)).view(w.shape) * (ALPHA / RANK)
        norm = torch.linalg.vector_norm(v.detach(), dim=dims, keepdim=True) + torch.finfo(torch.float32).eps
        x_in = x.clone().requires_grad_()
        f = torch.nn.functional
        y = f.conv2d(x_in, m * v / norm, bias, STRIDE, PADDING) if convolution else f.linear(x_in, m * v / norm, bias)
        record(f"onetrainer_dora_{axis}", y, x_in, [("lora_A.weight", a), ("lora_B.weight", b), ("dora_scale", m)], ALPHA / RANK)
    return out


def make_lycoris(prefix, out):
    """The cases of LyCORIS on the layer that `out` has."""
    g = torch.Generator().manual_seed(1)
    w, bias, x, dy = (out[prefix + name].float() for name in ("w", "bias", "x", "dy"))
    cases = {}
    for case, kind, part in (("lycoris_oft", DiagOFTModule, "oft_blocks"), ("lycoris_full", FullModule, "diff")):
        layer = Net(w, bias).layer.float().requires_grad_(False)
        module = kind("layer", layer, 1.0, lora_dim=3)
        module.apply_to()
        p = module.oft_blocks if part == "oft_blocks" else module.weight
        with torch.no_grad():
            p.add_(0.3 * torch.randn(p.shape, generator=g))
        x_in = x.clone().requires_grad_()
        y = module(x_in)
        y.backward(dy)
        name = prefix + case
        cases |= {f"{name}.y": y.detach(), f"{name}.dx": x_in.grad, f"{name}.scale": torch.zeros(1), f"{name}.g.{part}": p.grad,
                  f"{name}.p.{part}": p.detach().clone() if part == "oft_blocks" else p.detach() - w}
    return cases


def main():
    g = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
    out = make("", draw, draw(OUT, IN), draw(2, 5, IN), draw(2, 5, OUT))
    out |= make("conv.", draw, draw(OUT, IN, 3, 3), draw(2, IN, 6, 5), draw(2, OUT, 3, 3))
    out |= make_lycoris("", out) | make_lycoris("conv.", out)
    save_file({k: v.float().contiguous() for k, v in out.items()}, pathlib.Path(__file__).with_name("adapters.safetensors"))


main()
