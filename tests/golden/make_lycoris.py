#!/usr/bin/env python3
"""LyCORIS' files for FLUX.1 in Black Forest Labs' layers, on the transformer of make_pipeline.py, in lycoris/:

<case>.safetensors    LyCORIS' adapter of the fused layers: LoKr by its factor, LoHa, DoRA over outputs and inputs
expected.safetensors  <case>/<layer of diffusers>: the last six rows of its weight as LyCORIS computes with it
"""
import shutil

import torch
from lycoris import LycorisNetwork, create_lycoris
from safetensors.torch import load_file, save_file

import make_pipeline

OUT = make_pipeline.OUT.parent / "lycoris"
LAYERS = {"double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.to_{x}" for x in "qkv"],
          "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{x}_proj" for x in "qkv"],
          "single_blocks.1.linear1": [*(f"single_transformer_blocks.1.attn.to_{x}" for x in "qkv"), "single_transformer_blocks.1.proj_mlp"]}
CASES = {f"lokr{factor}": {"algo": "lokr", "factor": factor, "linear_dim": 2} for factor in (-1, 2, 4, 8, 16)} | {
    "lokr_full": {"algo": "lokr", "factor": 12, "linear_dim": 10000}, "loha": {"algo": "loha", "linear_dim": 2},
    "dora_output": {"algo": "lora", "linear_dim": 2, "dora_wd": True, "wd_on_output": True},
    "dora_input": {"algo": "lora", "linear_dim": 2, "dora_wd": True, "wd_on_output": False}}


class Group(torch.nn.Module):
    pass


def model():
    theirs = load_file(make_pipeline.OUT / "model/transformer/diffusion_pytorch_model.safetensors")
    root = Group()
    for name, parts in LAYERS.items():
        weight = torch.cat([theirs[f"{part}.weight"].float() for part in parts])
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight = torch.nn.Parameter(weight)
        at = root
        for step in name.split(".")[:-1]:
            if not hasattr(at, step):
                at.add_module(step, Group())
            at = getattr(at, step)
        at.add_module(name.split(".")[-1], layer)
    return root


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    torch.manual_seed(9)
    expected = {}
    for case, options in CASES.items():
        root = model()
        LycorisNetwork.apply_preset({"target_module": ["Group"], "target_name": [], "enable_conv": False})
        network = create_lycoris(root, 1.0, linear_alpha=3, **options)
        network.apply_to()
        with torch.no_grad():
            for name, p in network.named_parameters():
                if "dora_scale" in name:
                    p.mul_(1 + 0.2 * torch.rand_like(p))
                elif "alpha" not in name:
                    p.copy_(torch.randn_like(p) * 0.2)
        state = {name: value.detach().clone().contiguous() for name, value in network.state_dict().items()}
        save_file(state, OUT / f"{case}.safetensors", metadata={"format": "pt"})
        for name, parts in LAYERS.items():
            layer = root.get_submodule(name)
            with torch.no_grad():  # merge_to has the scale of LoHa and LoKr in twice; what is trained is what forward computes
                row, weight = 0, (layer(torch.eye(layer.in_features)) - layer(torch.zeros(1, layer.in_features))).T
            for part in parts:
                rows = weight.shape[0] // len(parts) if "linear1" not in name else (32 if "attn" in part else 128)
                expected[f"{case}/{part}"] = weight[row:row + rows][-6:].contiguous()
                row += rows
            assert row == weight.shape[0]
    save_file(expected, OUT / "expected.safetensors")
    for file in OUT.iterdir():
        file.chmod(0o644)
    print(len(expected), sorted(state))


if __name__ == "__main__":
    main()
