#!/usr/bin/env python3
"""What burnish writes, read by the programs it is for: `./dev golden check`.

Trains two steps with $BURNISH on the pipeline of make_pipeline.py, loads the LoRAs (of the transformer, and with CLIP) with diffusers'
load_lora_weights, the whole transformer and the whole CLIP with from_pretrained, and compares the latents that both programs draw from the same noise. Exits 1 when they differ.
"""
import os, pathlib, shutil, subprocess, sys, tempfile
import torch
from diffusers import FluxPipeline, FluxTransformer2DModel
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel, CLIPTokenizer, T5TokenizerFast

from make_pipeline import ASSETS, OUT, sampled

BURNISH = os.environ.get("BURNISH", "build/burnish")
MODEL = ["--tokenizer_path", ASSETS / "tokenizer", "--tokenizer_2_path", ASSETS / "tokenizer_2", "--dtype", "fp32"]
PROMPTS = ["red apple", "tree of the north"]


def burnish(*arguments):
    subprocess.run([BURNISH, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def train(folder, *options):
    burnish("train", "--model", OUT / "model", *MODEL, "--dataset_metadata_path", OUT / "pictures/metadata.csv", "--height", 48, "--width", 64,
            "--max_steps", 2, "--learning_rate", 0.01, "--output_path", folder, *options)
    return folder / "step-2.safetensors"


def draw(model, latents, *options):
    burnish("sample", *(options if "--model" in options else ()), "--model", model, *MODEL, *(word for prompt in PROMPTS for word in ("--prompt", prompt)), "--height", 48, "--width", 64,
            "--num_inference_steps", 4, "--embedded_guidance", 3.5, "--noise", latents.parent / "noise.safetensors", "--save_latents", latents,
            "--output_path", latents.parent / "pictures", *(() if "--model" in options else options))
    return load_file(latents)["latents"]


def pipeline(**parts):
    pipe = FluxPipeline.from_pretrained(OUT / "model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def report(what, found, expected):
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    print(f"{what}: largest difference {error:.1e} of the largest latent")
    return error <= 1e-4


def main():
    expected = load_file(OUT / "expected.safetensors")
    noise = expected["noise"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        save_file({"noise": noise}, folder / "noise.safetensors")

        lora = train(folder / "lora", "--lora_rank", 4, "--lora_alpha", 8)
        pipe = pipeline()
        pipe.load_lora_weights(str(lora))
        good = report("LoRA through load_lora_weights", draw(OUT / "model", folder / "latents.safetensors", "--lora", lora), sampled(pipe, noise, PROMPTS))
        changed = (sampled(pipe, noise, PROMPTS) - expected["latents.plain"]).abs().max().item()
        print(f"the LoRA changes the latents by up to {changed:.3f}")

        whole = folder / "model"
        shutil.copytree(OUT / "model", whole)
        shutil.copy(train(folder / "full", "--trainable_models", "dit"), whole / "transformer/diffusion_pytorch_model.safetensors")
        pipe = pipeline(transformer=FluxTransformer2DModel.from_pretrained(whole / "transformer"))
        good &= report("whole transformer through from_pretrained", draw(whole, folder / "latents.safetensors"), sampled(pipe, noise, PROMPTS))

        both = train(folder / "both", "--lora_rank", 4, "--lora_base_model", "dit,text_encoder")
        pipe = pipeline()
        pipe.load_lora_weights(str(both))
        adapted = sum(1 for n, _ in pipe.text_encoder.named_parameters() if ".lora_A." in n)
        print(f"adapters on {adapted} layers of the text encoder")
        good &= adapted == 12
        good &= report("LoRA with the text encoder through load_lora_weights", draw(OUT / "model", folder / "latents.safetensors", "--lora", both),
                       sampled(pipe, noise, PROMPTS))

        train(folder / "encoder", "--trainable_models", "text_encoder")
        encoder = folder / "encoder/step-2.text_encoder.safetensors"
        shutil.copy(OUT / "model/transformer/diffusion_pytorch_model.safetensors", whole / "transformer/diffusion_pytorch_model.safetensors")
        shutil.copy(encoder, whole / "text_encoder/model.safetensors")
        pipe = pipeline(text_encoder=CLIPTextModel.from_pretrained(whole / "text_encoder"))
        good &= report("whole text encoder through from_pretrained", draw(OUT / "model", folder / "latents.safetensors", "--model", encoder),
                       sampled(pipe, noise, PROMPTS))
    sys.exit(0 if good and changed > 0 else 1)


if __name__ == "__main__":
    main()
