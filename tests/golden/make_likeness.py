#!/usr/bin/env python3
"""How transformers' CLIPModel places pictures and texts, in likeness/:

siglip/               a small random SigLIP, both towers in one file as its hub has it, whose processor scales by the bilinear filter
dino3/                a small random DINOv3 with registers, whose file has the names that its hub's have
dino3_gated/          another one whose MLPs are gated, as transformers 5 writes it
dino/                 a small random DINOv2, whose places are interpolated for the pictures that its processor makes
clip/                 a small random CLIP as its hub has it: both towers with their projections, the tokenizer of tokenizers/clip_json, its processor
likeness.safetensors  a, b: unit vectors [D] of captions/pictures; texts: of TEXTS, [P, D]; levels.a, levels.b: these pictures, uint8 [H, W, 3];
                      pixels.a, pixels.b: what its processor makes of them; dino.a, dino3.a, siglip.a and so on: the same of DINOv2, DINOv3 and SigLIP
"""
import copy
import json
import shutil

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel, Dinov2Config, Dinov2Model, DINOv3ViTConfig, DINOv3ViTModel, PreTrainedTokenizerFast, SiglipConfig, SiglipModel
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from make_encoders import HERE, randomise, rounded

OUT = HERE / "likeness"
SIDE = 40
TEXTS = ["a cat", "the blue sky above"]


def dino(results):
    folder = OUT / "dino"
    torch.manual_seed(16)
    model = rounded(randomise(Dinov2Model(Dinov2Config(hidden_size=24, num_hidden_layers=3, num_attention_heads=3, mlp_ratio=2, image_size=40, patch_size=8)), 1.5))
    for name, p in model.named_parameters():
        if "embeddings" in name and p.dim() == 3:
            p.data = (torch.randn_like(p) * 0.5).to(torch.bfloat16).float()
    model.to(torch.bfloat16).save_pretrained(folder)
    model = model.double().eval()
    process = BitImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 24, "width": 24}, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
    process.save_pretrained(folder)
    for name in "ab":
        pixels = process(Image.open(HERE / f"captions/pictures/{name}.png").convert("RGB"), return_tensors="pt")["pixel_values"]
        pooled = model(pixels.double()).pooler_output
        results |= {f"dino.pixels.{name}": pixels[0], f"dino.{name}": (pooled / pooled.norm(dim=-1, keepdim=True)).float()[0]}


def dino3(results, kind, **more):
    """The processor's own class needs torchvision; what it does is two lines of torch."""
    folder = OUT / kind
    torch.manual_seed(18)
    config = DINOv3ViTConfig(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, image_size=32, patch_size=8, num_register_tokens=2, **more)
    model = rounded(randomise(DINOv3ViTModel(config), 1.5))
    for name, p in model.named_parameters():
        if "token" in name:
            p.data = (torch.randn_like(p) * 0.5).to(torch.bfloat16).float()
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)  # the frequencies of the model itself are not rounded
    state = {name.removeprefix("model."): value.to(torch.bfloat16).contiguous() for name, value in model.state_dict().items()}
    if not more:
        save_file(state, folder / "model.safetensors")
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    settings = {"image_processor_type": "DINOv3ViTImageProcessorFast", "do_resize": True, "do_rescale": True, "do_normalize": True, "image_mean": mean, "image_std": std,
                "resample": 2, "rescale_factor": 1 / 255, "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    model = model.double().eval()
    for name in "ab":
        levels = torch.from_numpy(np.array(Image.open(HERE / f"captions/pictures/{name}.png").convert("RGB"))).permute(2, 0, 1)[None].float()
        scaled = torch.nn.functional.interpolate(levels / 255, (32, 32), mode="bilinear", antialias=True)
        pixels = (scaled - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
        pooled = model(pixels.double()).pooler_output
        results |= {f"{kind}.pixels.{name}": pixels[0], f"{kind}.{name}": (pooled / pooled.norm(dim=-1, keepdim=True)).float()[0]}


def siglip(results):
    folder = OUT / "siglip"
    torch.manual_seed(17)
    vision = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 32, "patch_size": 8}
    text = {"vocab_size": 12, "hidden_size": 24, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 4}
    model = rounded(randomise(SiglipModel(SiglipConfig(text_config=text, vision_config=vision)), 1.5))
    model.to(torch.bfloat16).save_pretrained(folder)
    model = model.double().eval()
    process = SiglipImageProcessorPil(size={"height": 32, "width": 32}, resample=Image.Resampling.BILINEAR)
    process.save_pretrained(folder)
    for name in "ab":
        pixels = process(Image.open(HERE / f"captions/pictures/{name}.png").convert("RGB"), return_tensors="pt")["pixel_values"]
        pooled = model.vision_model(pixels.double()).pooler_output
        results |= {f"siglip.pixels.{name}": pixels[0], f"siglip.{name}": (pooled / pooled.norm(dim=-1, keepdim=True)).float()[0]}


@torch.no_grad()
def main():
    shutil.rmtree(OUT, ignore_errors=True)
    folder = OUT / "clip"
    folder.mkdir(parents=True)
    shutil.copyfile(HERE / "tokenizers/clip_json/tokenizer.json", folder / "tokenizer.json")
    tokens = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<|endoftext|>")
    end = tokens.convert_tokens_to_ids("<|endoftext|>")
    text = {"vocab_size": len(tokens), "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 12,
            "eos_token_id": end}
    vision = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 3, "image_size": SIDE, "patch_size": 8}
    torch.manual_seed(15)
    model = rounded(randomise(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)), 1.5))
    model.to(torch.bfloat16).save_pretrained(folder)
    model = model.double().eval()
    process = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    process.save_pretrained(folder)
    results = {}
    unit = lambda x: (x / x.norm(dim=-1, keepdim=True)).float()
    for name in "ab":
        picture = Image.open(HERE / f"captions/pictures/{name}.png").convert("RGB")
        results[f"levels.{name}"] = torch.from_numpy(np.array(picture))
        pixels = process(picture, return_tensors="pt")["pixel_values"]
        results[f"pixels.{name}"] = pixels[0]
        seen = model.vision_model(pixels.double())
        results[name] = unit(model.visual_projection(seen.pooler_output))[0]
    ids = tokens(TEXTS, padding="max_length", max_length=12, truncation=True, return_tensors="pt", return_token_type_ids=False)
    results["texts"] = unit(model.text_projection(model.text_model(**ids).pooler_output))
    dino(results)
    dino3(results, "dino3")
    dino3(results, "dino3_gated", use_gated_mlp=True, hidden_act="silu", key_bias=True)
    siglip(results)
    print({name: value.flatten()[:5] for name, value in results.items()}, results["a"] @ results["b"])
    save_file({name: value.contiguous() for name, value in results.items()}, OUT / "likeness.safetensors", metadata={"texts": json.dumps(TEXTS)})
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
