#!/usr/bin/env python3
"""What Qwen-Image-2.1 makes of reference pictures, on the small pipeline of make_qwen_image_21.py, in qwen_image_21_edit/. References are scaled to an area of
2048 pixels.

a.png, b.png          reference pictures, which become 32 by 64 and 64 by 32
metadata.json         the pictures of make_pipeline.py with one reference, with two, with none, and with one
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps with the adapter of qwen_image_21_pipeline/, and of the whole transformer; initial noise and the
                      latents after 4 sampling steps: one (a.png), two, two_cfg
alone.safetensors     the transformer alone with two references, and captions of 5 and 9 tokens behind them: in.<input>, out, out_weight, and grad.<parameter>
"""
import json
import math
import shutil

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

import family
import training_loop
from make_qwen_image_21 import FAMILY as base

OUT = base.HERE / "qwen_image_21_edit"
AREA = 2048
REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]


def write_pictures():
    rng = np.random.default_rng(6)
    for name, size in (("a.png", (64, 48)), ("b.png", (48, 80))):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(size, Image.BICUBIC).save(OUT / name, optimize=True)
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": prompt} | ({"edit_image": names[0] if len(names) == 1 else names} if names else {})
            for i, (prompt, names) in enumerate(zip(CAPTIONS, REFERENCES))]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")


def opened(names):
    return [Image.open(OUT / name).convert("RGBA") for name in names]


def sides(image):
    ratio = image.size[0] / image.size[1]
    width = math.sqrt(AREA * ratio)
    return round(width / 32) * 32, round(width / ratio / 32) * 32


@torch.no_grad()
def conditions(pipe, prompt, names):
    """References [1, C, h, w], and what is read of the text."""
    images = opened(names)
    scaled = [pipe.image_processor.resize(image, width=sides(image)[0], height=sides(image)[1]) for image in images]
    references = [pipe._encode_vae_image(pipe.image_processor.preprocess(image)[:, :, None], None)[:, :, 0] for image in scaled]
    text, _, pictured = pipe.encode_prompt(prompt, scaled if images else None)
    return references, text[0], pictured[0].bool()


def predict(model, noisy, sigma, references, text, pictured):
    return base.predict_one(model, noisy, sigma, text, references, pictured)


@torch.no_grad()
def drawn(pipe, noise, names, **options):
    h, w = noise.shape[2:]
    draw = lambda prompt, latents: pipe(prompt=prompt, image=opened(names), latents=latents.flatten(2).transpose(1, 2), height=h * 16, width=w * 16, num_inference_steps=4,
                                        output_type="latent", output_resolution=math.sqrt(AREA), **options).images
    return torch.cat([draw(prompt, noise[i:i + 1]).transpose(1, 2).reshape(1, -1, h, w) for i, prompt in enumerate(base.PROMPTS)])


def write_alone(model):
    torch.manual_seed(13)
    captions, noisy, sigma = [torch.randn(5, 16), torch.randn(9, 16)], torch.randn(2, 16, 2, 6), torch.tensor([0.83, 0.21])
    references, between = [torch.randn(2, 16, 2, 4), torch.randn(2, 16, 4, 2)], [torch.randn(2, 3, 16), torch.randn(2, 2, 16)]
    out = []
    for i, caption in enumerate(captions):
        texts, pictured = [], []
        for reference, before in zip(references, between):
            count = reference[0, 0].numel() // 4
            texts += [before[i], torch.zeros(count, 16)]
            pictured += [False] * len(before[i]) + [True] * count
        out.append(predict(model, noisy[i:i + 1], sigma[i], [r[i:i + 1] for r in references], torch.cat([*texts, caption]), torch.tensor(pictured + [False] * len(caption))))
    inputs = {"noisy": noisy, "sigma": sigma} | {f"caption.{i}": x for i, x in enumerate(captions)} | {f"reference.{i}": x for i, x in enumerate(references)}
    family.save_alone(model, inputs | {f"between.{i}": x for i, x in enumerate(between)}, torch.cat(out), OUT / "alone.safetensors")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_pictures()
    pipe = base.parts()
    pipe.set_progress_bar_config(disable=True)
    model = pipe.transformer
    write_alone(model)
    replay = training_loop.write_replay(OUT / "replay.safetensors", base.LATENTS, 4, base.REPLAYED)
    noise, both = torch.randn(2, *base.LATENTS), ["a.png", "b.png"]
    expected = {"noise": noise, "latents.one": drawn(pipe, noise, ["a.png"]), "latents.two": drawn(pipe, noise, both),
                "latents.two_cfg": drawn(pipe, noise, both, true_cfg_scale=2.5, negative_prompt="cat")}
    with torch.no_grad():
        samples = [(base.latents(pipe, family.tensor_of(base.PICTURES / f"{i}.png")), *conditions(pipe, prompt, names))
                   for i, (prompt, names) in enumerate(zip(CAPTIONS, REFERENCES))]
    original = {n: p.detach().clone() for n, p in model.named_parameters()}

    def train(name, parameters):
        expected[f"{name}.loss"], expected[f"{name}.grad_norm"], _ = training_loop.train_velocity(
            lambda noisy, sigma, *given: predict(model, noisy, sigma, *given), samples, replay, parameters)

    train("full", list(model.named_parameters()))
    model.load_state_dict(original)
    adapter = training_loop.add_adapter(model, base.TARGETS)
    training_loop.load_adapter(adapter, base.OUT / "lora.safetensors")
    train("lora", adapter)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print({k: v for k, v in expected.items() if k.endswith("loss")}, {k: v.std().item() for k, v in expected.items() if k.startswith("latents")}, [s[2].shape for s in samples])


if __name__ == "__main__":
    main()
