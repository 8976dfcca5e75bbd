#!/usr/bin/env python3
"""What transformers' CLIPSeg finds in pictures, in masks/:

clip_seg/             a small random CLIPSeg as its hub has it: pixels made in three steps, places that are interpolated, the tokenizer of tokenizers/clip_json,
                      its processor
plain.safetensors     a decoder that makes pixels in one step: its weights ("model."), states, texts and logits
masks.safetensors     logits [P, S, S] of captions/pictures by their texts ("a.1", "b.2": of one and of two texts), and the masks that OneTrainer's steps make of
                      them; shrunk: a picture scaled as its processor does. Metadata: the texts; by what rule, with
                      a threshold for each picture
"""
import json
import shutil

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPSegConfig, CLIPSegForImageSegmentation, PreTrainedTokenizerFast
from transformers.models.clipseg.modeling_clipseg import CLIPSegDecoder
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from make_encoders import HERE, randomise, rounded

OUT = HERE / "masks"
SIDE, PATCH = 96, 16
TEXTS = [["a cat"], ["a dog", "the blue sky above"]]
SMOOTH, EXPAND = 2, 1


def config_of(vocabulary, end, **more):
    text = {"vocab_size": vocabulary, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 12,
            "eos_token_id": end}
    vision = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 5, "num_attention_heads": 3, "image_size": 64, "patch_size": PATCH}
    return CLIPSegConfig(text_config=text, vision_config=vision, projection_dim=12, extract_layers=[0, 1, 3], reduce_dim=8, decoder_num_attention_heads=2,
                         decoder_intermediate_size=20, **more)


def mask_of(logits, height, width):
    """The steps of OneTrainer's mask tool, with torch's own operators."""
    def mean(x, reach):
        side = 2 * reach + 1
        padded = torch.nn.functional.pad(x, [reach] * 4, mode="replicate")
        return torch.nn.functional.conv2d(padded, torch.ones(1, 1, side, side) / side**2)
    x = torch.sigmoid(logits[None]).mean(1, keepdim=True)
    x = torch.nn.functional.interpolate(mean(x, SMOOTH), (height, width), mode="bilinear", antialias=True)
    threshold = round(float(x.quantile(0.7)), 3)
    print("  threshold", threshold, "near it", float((x - threshold).abs().min()), "above", float((x > threshold).float().mean()))
    return (mean((x > threshold).float(), EXPAND) > 0)[0, 0], threshold


def plain():
    torch.manual_seed(7)
    config = config_of(20, 19, use_complex_transposed_convolution=False, conditional_layer=1)
    decoder = randomise(CLIPSegDecoder(config))
    states = [torch.randn(1, 37, 24) for _ in range(3)]
    texts = torch.randn(2, 12)
    with torch.no_grad():
        logits = decoder([s.expand(2, -1, -1) for s in states], texts).logits
    weights = {"model." + name: value.contiguous() for name, value in decoder.state_dict().items()}
    save_file(weights | {f"states.{i}": s for i, s in enumerate(states)} | {"texts": texts, "logits": logits}, OUT / "plain.safetensors",
              metadata={"config": json.dumps(config.to_dict())})


@torch.no_grad()
def main():
    shutil.rmtree(OUT, ignore_errors=True)
    folder = OUT / "clip_seg"
    folder.mkdir(parents=True)
    shutil.copyfile(HERE / "tokenizers/clip_json/tokenizer.json", folder / "tokenizer.json")
    tokens = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<|endoftext|>")
    torch.manual_seed(5)
    model = rounded(randomise(CLIPSegForImageSegmentation(config_of(len(tokens), tokens.convert_tokens_to_ids("<|endoftext|>"), use_complex_transposed_convolution=True)), 1.5))
    model.to(torch.bfloat16).save_pretrained(folder)
    model = model.float().eval()
    process = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
    process.save_pretrained(folder)
    results, rule = {}, {"smooth_pixels": SMOOTH, "expand_pixels": EXPAND}
    for name, texts in zip("ab", TEXTS):
        picture = Image.open(HERE / f"captions/pictures/{name}.png").convert("RGB")
        pixels = process(picture, return_tensors="pt")["pixel_values"]
        ids = tokens(texts, padding="max_length", max_length=12, truncation=True, return_tensors="pt", return_token_type_ids=False)
        print(ids["input_ids"])
        logits = model(pixel_values=pixels.expand(len(texts), -1, -1, -1), **ids).logits.view(len(texts), SIDE, SIDE)
        print(name, logits.mean(), logits.std())
        results[f"{name}.{len(texts)}"] = logits
        mask, rule[name] = mask_of(logits, picture.height, picture.width)
        results[f"{name}.{len(texts)}.mask"] = mask.to(torch.uint8) * 255
    picture = Image.open(HERE / "captions/pictures/b.png").convert("RGB")
    results["shrunk"] = torch.from_numpy(np.array(picture.resize((29, 33), Image.BILINEAR)))
    save_file({name: value.contiguous() for name, value in results.items()}, OUT / "masks.safetensors",
              metadata={"texts": json.dumps(TEXTS), "rule": json.dumps(rule)})
    plain()
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
