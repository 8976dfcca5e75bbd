#!/usr/bin/env python3
"""Boogu-Image-Edit on the small pipeline of make_boogu.py, in boogu_edit/; its model has a vision tower and the layers of reference pictures.

a.png, b.png, c.png   reference pictures: of the targets' size, of other multiples of 16, and of sides that are cut down to such
metadata.json         the pictures of make_pipeline.py with one reference, with two, with none, and with one
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps with the adapter of boogu_pipeline/, and of the whole transformer; initial noise and the latents after 4
                      sampling steps: one (a.png), two, cfg (two, away from the empty text, which sees none), scaled (c.png); text: states of "red apple" with two
"""
import json
import shutil

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

import family
import training_loop
from make_boogu import FAMILY as base

OUT = base.HERE / "boogu_edit"
REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["c.png"]]
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]


def write_pictures():
    rng = np.random.default_rng(6)
    for name, size in (("a.png", (64, 48)), ("b.png", (48, 80)), ("c.png", (100, 70))):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(size, Image.BICUBIC).save(OUT / name, optimize=True)
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": prompt} | ({"edit_image": names[0] if len(names) == 1 else names} if names else {})
            for i, (prompt, names) in enumerate(zip(CAPTIONS, REFERENCES))]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")


def shrunk(name, area):
    """As BooguImageProcessor scales a picture, whose sides become at most twice those of a square of this area."""
    picture = Image.open(OUT / name).convert("RGB")
    by = min((area / (picture.width * picture.height)) ** 0.5, 2 * area ** 0.5 / max(picture.size), 1.0)
    return picture.resize([int(side * by) // 16 * 16 for side in picture.size], Image.LANCZOS)


def seen(name):
    return shrunk(name, 384 * 384)


@torch.no_grad()
def latents(pipe, name):
    picture = torch.from_numpy(np.array(shrunk(name, 2048 * 2048))).permute(2, 0, 1)[None].float() / 127.5 - 1
    return base.latents(pipe, picture)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_pictures()
    pipe = base.parts()
    model = pipe.transformer
    base.prepare()

    def text(prompt, names):
        return base.states(pipe, prompt, [seen(name) for name in names])

    def drawn(noise, names, **options):
        return base.walk(pipe, noise, [text(prompt, names) for prompt in base.PROMPTS], references=[[latents(pipe, name) for name in names]] * 2, **options)

    replay = training_loop.write_replay(OUT / "replay.safetensors", base.LATENTS, 4)
    noise, both = torch.randn(2, *base.LATENTS), ["a.png", "b.png"]
    expected = {"noise": noise, "latents.one": drawn(noise, ["a.png"]), "latents.two": drawn(noise, both),
                "latents.cfg": drawn(noise, both, negatives=[text("", [])] * 2, scale=2.5), "latents.scaled": drawn(noise, ["c.png"]), "text": text("red apple", both)}
    samples = [(base.latents(pipe, family.tensor_of(base.PICTURES / f"{i}.png")).detach(), [text(caption, names)], [[latents(pipe, name) for name in names]])
               for i, (caption, names) in enumerate(zip(CAPTIONS, REFERENCES))]
    original = {n: x.detach().clone() for n, x in model.state_dict().items()}

    def train(name, parameters):
        # Layers of reference pictures run over none where a sample has none, and so have gradients of zeros; here they do not run and have none.
        for _, p in parameters:
            p.register_post_accumulate_grad_hook(lambda p: None if p.grad.any() else setattr(p, "grad", None))
        expected[f"{name}.loss"], expected[f"{name}.grad_norm"], _ = training_loop.train_velocity(lambda *given: base.predict(model, *given), samples, replay, parameters)

    train("full", list(model.named_parameters()))
    model.load_state_dict(original)
    adapter = training_loop.add_adapter(model, base.TARGETS)
    training_loop.load_adapter(adapter, base.OUT / "lora.safetensors")
    train("lora", adapter)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print({k: v for k, v in expected.items() if k.endswith("loss")}, {k: v.std().item() for k, v in expected.items() if k.startswith("latents")}, [len(s[1][0]) for s in samples])


if __name__ == "__main__":
    main()
