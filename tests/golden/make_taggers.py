#!/usr/bin/env python3
"""What timm's networks say of pictures, in taggers/:

eva02/, vit/, swin_v2/, conv_next/   small random taggers as their hub has them: config.json, model.safetensors, selected_tags.csv. The first is of rotated places
                                     whose grid is another than the pictures', the second has no class token, the third shifted windows
kinds.safetensors                    further ones of a kind: their weights ("NAME/…"), a picture and logits; metadata: their config.json
taggers.safetensors                  NAME.a, NAME.b: logits [tags] of captions/pictures by them; pixels.a, pixels.b: what timm's transform makes of these pictures, padded
                                     to a square with white, fp32 [3, S, S]; pixels.clear: of one with transparency
clear.png                            that one
"""
import json
import shutil

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform
from timm.models.convnext import ConvNeXt
from timm.models.eva import Eva
from timm.models.swin_transformer_v2 import SwinTransformerV2
from timm.models.vision_transformer import VisionTransformer

from make_encoders import HERE, randomise, rounded

OUT = HERE / "taggers"
SIDE = 48
TAGS = [("general", 9), ("sensitive", 9), ("questionable", 9), ("explicit", 9), ("1girl", 0), ("long_hair", 0), ("^_^", 0), ("looking_at_viewer", 0), ("blue_sky", 0),
        ("o_o", 0), ("hatsune_miku", 4), ("ayanami_(azur_lane)", 4)]
MODELS = {
    "eva02": (Eva, "eva02_large_patch14_448", dict(
        img_size=SIDE, patch_size=8, embed_dim=32, depth=3, num_heads=4, mlp_ratio=4 * 2 / 3, qkv_fused=False, swiglu_mlp=True, scale_mlp=True, use_rot_pos_emb=True,
        ref_feat_shape=(3, 3))),
    "vit": (VisionTransformer, "vit_base_patch16_224", dict(
        img_size=SIDE, patch_size=12, embed_dim=24, depth=3, num_heads=3, class_token=False, global_pool="avg", fc_norm=False)),
    "swin_v2": (SwinTransformerV2, "swinv2_base_window8_256", dict(img_size=SIDE, window_size=3, embed_dim=8, depths=(2, 1, 2), num_heads=(1, 2, 4))),
    "conv_next": (ConvNeXt, "convnext_base", dict(depths=(1, 1, 2, 1), dims=(8, 12, 12, 20))),
}
KINDS = {
    "vit_scaled": (VisionTransformer, "vit_small_patch14_dinov2", dict(
        img_size=SIDE, patch_size=12, embed_dim=24, depth=2, num_heads=3, init_values=0.5, global_pool="token")),
    "vit_pooled": (VisionTransformer, "vit_large_patch16_224", dict(img_size=SIDE, patch_size=12, embed_dim=24, depth=2, num_heads=3, global_pool="avg")),
    "swin_v2_windows": (SwinTransformerV2, "swinv2_base_window12to24_192to384", dict(
        img_size=SIDE, window_size=6, pretrained_window_sizes=(3, 3, 2), embed_dim=8, depths=(1, 2, 2), num_heads=(2, 2, 2))),
}
SAID = {"img_size", "class_token", "global_pool", "fc_norm", "window_size", "ref_feat_shape", "num_heads", "pretrained_window_sizes"}


def made(seed, kind, numbers):
    torch.manual_seed(seed)
    model = rounded(randomise(kind(num_classes=len(TAGS), **numbers), 1.5))
    for name, p in model.named_parameters():  # tables of places and temperatures are no matrices
        if "pos_embed" in name or "token" in name:
            p.data = (torch.randn_like(p) * 0.5).to(torch.bfloat16).float()
        if "logit_scale" in name:
            p.data = (torch.randn_like(p) + 3).to(torch.bfloat16).float()
    return model


def config_of(architecture, model, numbers):
    said = {name: value for name, value in numbers.items() if name in SAID}
    return {"architecture": architecture, "num_classes": len(TAGS), "num_features": model.num_features, "global_pool": numbers.get("global_pool", "avg"), "model_args": said,
            "pretrained_cfg": {"custom_load": False, "input_size": [3, SIDE, SIDE], "interpolation": "bicubic", "crop_pct": 1.0, "mean": [0.5] * 3, "std": [0.5] * 3}}


def square(picture):
    """As SmilingWolf's examples do: white behind what is clear and beside what is no square."""
    picture = picture.convert("RGBA")
    behind = Image.new("RGBA", picture.size, (255, 255, 255))
    behind.alpha_composite(picture)
    side = max(picture.size)
    padded = Image.new("RGB", (side, side), (255, 255, 255))
    padded.paste(behind.convert("RGB"), ((side - picture.width) // 2, (side - picture.height) // 2))
    return padded


def write_clear():
    rng = np.random.default_rng(5)
    pixels = np.asarray(Image.fromarray(rng.integers(0, 256, (4, 5, 4), dtype=np.uint8)).resize((33, 58), Image.BICUBIC))
    Image.fromarray(pixels).save(OUT / "clear.png", optimize=True)


@torch.no_grad()
def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_clear()
    transform = create_transform(input_size=(3, SIDE, SIDE), interpolation="bicubic", crop_pct=1.0, mean=[0.5] * 3, std=[0.5] * 3)
    files = {name: HERE / f"captions/pictures/{name}.png" for name in "ab"} | {"clear": OUT / "clear.png"}
    pixels = {name: transform(square(Image.open(file))) for name, file in files.items()}
    results = {f"pixels.{name}": value for name, value in pixels.items()}
    for seed, (name, (kind, architecture, numbers)) in enumerate(MODELS.items()):
        model = made(seed + 60, kind, numbers)
        folder = OUT / name
        folder.mkdir()
        save_file({key: value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items()}, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config_of(architecture, model, numbers), indent=1) + "\n")
        rows = [f"{i},{tag},{category},{100 - i}" for i, (tag, category) in enumerate(TAGS)]
        (folder / "selected_tags.csv").write_text("\n".join(["tag_id,name,category,count"] + rows) + "\n")
        for picture in "ab":
            results[f"{name}.{picture}"] = model.double()(pixels[picture][None].double())[0].float()
        print(name, results[f"{name}.a"], float((results[f"{name}.a"] - results[f"{name}.b"]).abs().max()))
    kinds, configs = {"picture": pixels["a"]}, {}
    for seed, (name, (kind, architecture, numbers)) in enumerate(KINDS.items()):
        model = made(seed + 80, kind, numbers)
        kinds |= {f"{name}/{key}": value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items()}
        configs[name] = json.dumps(config_of(architecture, model, numbers))
        kinds[f"{name}.logits"] = model.double()(pixels["a"][None].double())[0].float()
        print(name, kinds[f"{name}.logits"])
    save_file(kinds, OUT / "kinds.safetensors", metadata=configs)
    save_file({name: value.contiguous() for name, value in results.items()}, OUT / "taggers.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
