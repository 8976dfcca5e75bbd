#!/usr/bin/env python3
"""Adapters that are no LoRA, as LyCORIS and peft write them, in wild/kinds/, over the models of sdxl_pipeline/ and pipeline/:

lycoris_<kind>.safetensors  LycorisNetwork.save_weights over SDXL's UNet: a linear layer and a convolution of each kind, norms, and a
                            convolution's bias. tlora on the linear layer alone: LyCORIS merges it into no larger kernel. dylora has what
                            sd-scripts puts into the header
peft_<kind>/                PeftModel.save_pretrained over the FLUX transformer
kohya_oft.safetensors       the layout of sd-scripts' networks/oft.py, which is in no package; its weight is computed here
expected.safetensors        <case>/<parameter>: at most six rows of the weights and biases that the layers have then; <case>-0.6 at that strength
"""
import json
import shutil
import torch
from diffusers import FluxTransformer2DModel, UNet2DConditionModel
from lycoris.wrapper import LycorisNetwork
from peft import BOFTConfig, GloraConfig, IA3Config, LoraConfig, OFTConfig, PeftModel, VeraConfig, get_peft_model
from safetensors.torch import save_file

from make_pipeline import OUT

KINDS = OUT.parent / "wild" / "kinds"
LINEAR, CONV = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q", "down_blocks.0.resnets.0.conv1"
NORMS = ["down_blocks.1.attentions.0.transformer_blocks.0.norm1", "down_blocks.0.resnets.0.norm1"]
BOTH = [LINEAR, CONV]
LYCORIS = {"full": ("full", BOTH, {}), "norm": ("lora", NORMS, {"train_norm": True}), "ia3": ("ia3", BOTH, {}),
           "ia3_input": ("ia3", BOTH, {"train_on_input": True}), "oft": ("diag-oft", BOTH, {}),
           "oft_limited": ("diag-oft", [LINEAR], {"constraint": 0.01, "rescaled": True}), "boft": ("boft", BOTH, {"rescaled": True}),
           "glora": ("glora", BOTH, {}), "tlora": ("tlora", [LINEAR], {}), "dylora": ("dylora", BOTH, {"block_size": 2})}
TARGETS = {"target_modules": ["transformer_blocks.0.attn.to_q", "transformer_blocks.0.ff.net.2"]}
PEFT = {"lora_bias": lambda: LoraConfig(r=2, lora_alpha=3, lora_bias=True, **TARGETS),
        "ia3": lambda: IA3Config(feedforward_modules=["transformer_blocks.0.ff.net.2"], **TARGETS),
        "oft": lambda: OFTConfig(r=0, oft_block_size=8, **TARGETS),
        "oft_exact": lambda: OFTConfig(r=0, oft_block_size=8, use_cayley_neumann=False, block_share=True, **TARGETS),
        "coft": lambda: OFTConfig(r=0, oft_block_size=8, coft=True, eps=0.05, **TARGETS),
        "boft": lambda: BOFTConfig(boft_block_size=8, **TARGETS),
        "vera": lambda: VeraConfig(r=3, save_projection=True, **TARGETS),
        "glora": lambda: GloraConfig(r=3, **TARGETS),
        "glora_vectors": lambda: GloraConfig(config_A_B="vector", config_C="vector", config_D_E="vector", **TARGETS),
        "glora_numbers": lambda: GloraConfig(config_A_B="constant", config_C="none", config_D_E="constant", **TARGETS)}


def unet():
    return UNet2DConditionModel.from_pretrained(OUT.parent / "sdxl_pipeline" / "model" / "unet", torch_dtype=torch.float32).requires_grad_(False)


def transformer():
    return FluxTransformer2DModel.from_pretrained(OUT / "model" / "transformer", torch_dtype=torch.float32).requires_grad_(False)


def rows(tensor):
    return tensor.detach().float()[:6].clone().contiguous()


def lycoris_network(model, file, algo, names, **options):
    """A network of LyCORIS on these layers of the model, all of whose numbers are drawn, and written to the file."""
    LycorisNetwork.apply_preset({"target_module": [], "target_name": names, "enable_conv": True})
    network = LycorisNetwork(model, lora_dim=4, conv_lora_dim=4, alpha=3, conv_alpha=3, network_module=algo, **options)
    assert len(network.loras) == len(names), algo
    network.apply_to()
    with torch.no_grad():
        for p in network.parameters():
            p.add_(torch.randn_like(p) * (0.05 if algo in ("full", "tlora") else 0.2))
    metadata = {"ss_network_module": "lycoris.kohya", "ss_network_args": json.dumps({"algo": algo, "block_size": "2"})} if algo == "dylora" else {}
    network.save_weights(file, None, metadata)
    return network


def lycoris(case, algo, names, strengths=(1, 0.6), **options):
    network = lycoris_network(unet(), KINDS / f"{case}.safetensors", algo, names, **options)
    expected = {}
    for strength in strengths:
        for lora in network.loras:
            name = next(n for n in names if lora.lora_name == "lycoris_" + n.replace(".", "_"))
            weight, bias = lora.get_merged_weight(strength, **({"rank": 2} if algo == "dylora" else {}))
            for part, value in (("weight", weight), ("bias", bias)):
                if value is not None:
                    expected[f"{case}{'' if strength == 1 else '-' + str(strength)}/{name}.{part}"] = rows(value)
    return expected


def peft_model(model, folder, config):
    """The model under an adapter of peft, all of whose numbers are drawn, and which is written to the folder."""
    model = get_peft_model(model, config)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p) * (0.02 if getattr(config, "coft", False) else 0.1))
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    return model


def peft(case, config, layers):
    torch.manual_seed(len(case))
    peft_model(transformer(), KINDS / case, config)
    merged = PeftModel.from_pretrained(transformer(), KINDS / case).merge_and_unload()
    expected = {}
    for layer in layers:
        module = merged.get_submodule(layer)
        expected[f"{case}/{layer}.weight"], expected[f"{case}/{layer}.bias"] = rows(module.weight), rows(module.bias)
    return expected


def kohya_oft():
    w = dict(unet().named_parameters())[LINEAR + ".weight"].double()
    blocks = torch.randn(4, w.shape[0] // 4, w.shape[0] // 4, dtype=torch.float64) * 0.3
    alpha, q = 0.02, blocks - blocks.transpose(1, 2)
    q = q * min(1, alpha * w.shape[0] / q.norm())
    eye = torch.eye(q.shape[1], dtype=torch.float64)
    r = torch.linalg.solve(eye - q, eye + q)
    name = "oft_unet_" + LINEAR.replace(".", "_")
    save_file({f"{name}.oft_blocks": blocks.float().contiguous(), f"{name}.alpha": torch.tensor(alpha)}, KINDS / "kohya_oft.safetensors")
    turned = torch.einsum("knm,kni->kmi", r, w.view(4, -1, w.shape[1])).reshape(w.shape)
    return {f"kohya_oft/{LINEAR}.weight": rows(turned), f"kohya_oft-0.6/{LINEAR}.weight": rows(w + 0.6 * (turned - w))}


def main():
    shutil.rmtree(KINDS, ignore_errors=True)
    KINDS.mkdir(parents=True)
    torch.manual_seed(7)
    expected = {}
    for case, (algo, names, options) in LYCORIS.items():
        expected |= lycoris(f"lycoris_{case}", algo, names, **options)
    for case, config in PEFT.items():
        expected |= peft(f"peft_{case}", config(), TARGETS["target_modules"])
    expected |= kohya_oft()
    save_file(expected, KINDS / "expected.safetensors")
    for file in KINDS.rglob("*.safetensors"):
        file.chmod(0o644)


if __name__ == "__main__":
    main()
