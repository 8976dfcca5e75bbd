#!/usr/bin/env python3
"""Clips of nine frames, and ten training steps on them that diffusers + peft take with the small models of make_wan.py,
make_wan_experts.py and make_wan_frames.py, in wan_clips/:

{0,1,2,3}.webp, metadata.csv  animations of 48 x 64 whose frame k is shown from k/16 s on, with captions
lora_frames.safetensors       the adapter of ti2v and of i2v as diffusers' save_lora_weights writes it, rank 4, alpha 2; those of the others lie in their folders
replay_{t2v,ti2v,i2v}.safetensors  step.{i}.noise, step.{i}.sigma, step.{i}.sample
expected.safetensors          {t2v,experts,ti2v,i2v}.{lora,full}.{loss,grad_norm}

For ti2v clips are cut to 32 x 64, since its autoencoder halves once more. Its first frame is given, its time is 0 there, and it counts in no
loss; i2v reads a mask and the latents of a clip whose other frames are gray.
"""
import csv, shutil
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from PIL import Image
from safetensors.torch import save_file

import family, training_loop
from make_wan import Wan
from make_wan_experts import BOUNDARY, WanExperts

OUT = family.HERE / "wan_clips"
FRAMES, CAPTIONS = 9, ["red apple", "a cat face, smiling", "tree", "red apple"]


def write_clips():
    OUT.mkdir()
    for i in range(len(CAPTIONS)):
        # Pictures of few blocks, which move by a step a frame, a way for each clip.
        picture = np.array(Image.open(family.Family.PICTURES / f"{i}.png").convert("RGB").resize((8, 6), Image.BOX).resize((64, 48), Image.NEAREST))
        frames = [Image.fromarray(np.roll(picture, (k * (1 + i), 2 * k), (0, 1))) for k in range(FRAMES)]
        frames[0].save(OUT / f"{i}.webp", save_all=True, append_images=frames[1:], duration=62, lossless=True, method=6, quality=100)
    with open(OUT / "metadata.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows([["video", "prompt"], *[[f"{i}.webp", caption] for i, caption in enumerate(CAPTIONS)]])


def clip_of(i):
    """A clip [1, 3, F, H, W] from -1 to 1."""
    file = Image.open(OUT / f"{i}.webp")
    frames = []
    for k in range(FRAMES):
        file.seek(k)
        frames.append(torch.from_numpy(np.array(file.convert("RGB"))))
    return torch.stack(frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1


class Way:
    """How one kind of model trains: `predict(model, noisy, sigma, *what)` of what `sample` makes of a clip."""

    def __init__(self, name, vae, models, component="transformer", adapters=None, cut=None):
        self.name, self.vae, self.models, self.adapters, self.cut = name, vae, models, adapters, cut
        self.scale = Wan.scale(vae)
        self.targets = Wan.TARGETS

    def encode(self, clip):
        mean, std = self.scale
        return (self.vae.encode(clip).latent_dist.mode() - mean) / std

    def sample(self, clip, caption):
        if self.cut:
            top = (clip.shape[3] - self.cut) // 2
            clip = clip[:, :, :, top:top + self.cut]
        return self.encode(clip), caption, *self.given(clip)

    def given(self, clip):
        return ()

    def loss(self, noise, latents, sigma, caption, *given):
        noisy = (1 - sigma) * latents + sigma * noise
        return F.mse_loss(self.predict(noisy, sigma, caption, *given), noise - latents)

    def predict(self, noisy, sigma, caption):
        model = self.models[0 if len(self.models) == 1 or sigma >= BOUNDARY else 1]
        return model(hidden_states=noisy, encoder_hidden_states=caption, timestep=sigma.reshape(1) * 1000, return_dict=False)[0]


class Held(Way):
    def given(self, clip):
        return (self.encode(clip[:, :, :1]),)

    def loss(self, noise, latents, sigma, caption, first):
        noisy = (1 - sigma) * latents + sigma * noise
        noisy = torch.cat([first, noisy[:, :, 1:]], 2)
        frames, h, w = noisy.shape[2], noisy.shape[3] // 2, noisy.shape[4] // 2
        times = torch.cat([torch.zeros(1, h * w), (sigma * 1000).expand(1, (frames - 1) * h * w)], 1)
        out = self.models[0](hidden_states=noisy, encoder_hidden_states=caption, timestep=times, return_dict=False)[0]
        return F.mse_loss(out[:, :, 1:], (noise - latents)[:, :, 1:])


class Beside(Way):
    def given(self, clip):
        latents = self.encode(torch.cat([clip[:, :, :1], torch.zeros_like(clip[:, :, 1:])], 2))
        mask = torch.zeros(1, 4, *latents.shape[2:])
        mask[:, :, 0] = 1
        return (torch.cat([mask, latents], 1),)

    def predict(self, noisy, sigma, caption, beside):
        return super().predict(torch.cat([noisy, beside], 1), sigma, caption)


def record(way, samples, replay, expected):
    def loss_of(step):
        latents, *what = samples[int(replay[f"step.{step}.sample"])]
        return way.loss(replay[f"step.{step}.noise"][None], latents, replay[f"step.{step}.sigma"], *what)

    def run(kind, parameters):
        losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
        expected.update({f"{way.name}.{kind}.loss": losses, f"{way.name}.{kind}.grad_norm": norms})

    original = [{n: p.detach().clone() for n, p in model.named_parameters()} for model in way.models]
    run("full", [(f"{i}.{n}", p) for i, model in enumerate(way.models) for n, p in model.named_parameters()])
    trained = []
    for i, model in enumerate(way.models):
        model.load_state_dict(original[i])
        torch.manual_seed(31 + i)
        adapter = training_loop.add_adapter(model, way.targets)
        if way.adapters:
            training_loop.load_adapter(adapter, way.adapters[i], "transformer" if i == 0 else "transformer_2")
        else:
            save_file(training_loop.adapter_state("transformer", model), OUT / "lora_frames.safetensors", metadata={"format": "pt"})
        trained += [(f"{i}.{n}", p) for n, p in adapter]
    run("lora", trained)
    print(way.name, {k: v for k, v in expected.items() if k.startswith(way.name)})


def replay_of(name, latents):
    return training_loop.write_replay(OUT / f"replay_{name}.safetensors", latents, len(CAPTIONS), Wan.REPLAYED)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    write_clips()
    expected = {}
    frames = family.HERE / "wan_frames"

    def part(cls, folder):
        return cls.from_pretrained(folder, torch_dtype=torch.float32)

    with torch.no_grad():
        pipe = WanExperts().both()
        captions = [Wan().conditions(pipe, caption)[0] for caption in CAPTIONS]
    ways = [
        (Way("t2v", pipe.vae, [part(WanTransformer3DModel, Wan.OUT / "model/transformer")], adapters=[Wan.OUT / "lora.safetensors"]), ("t2v", (16, 3, 6, 8))),
        (Way("experts", pipe.vae, [pipe.transformer, pipe.transformer_2], adapters=[WanExperts.OUT / f"lora_{n}_noise.safetensors" for n in ("high", "low")]),
         ("t2v", (16, 3, 6, 8))),
        (Held("ti2v", part(AutoencoderKLWan, frames / "ti2v/vae"), [part(WanTransformer3DModel, frames / "ti2v/transformer")], cut=32), ("ti2v", (6, 3, 2, 4))),
        (Beside("i2v", part(AutoencoderKLWan, frames / "i2v/vae"), [part(WanTransformer3DModel, frames / "i2v/transformer")]), ("i2v", (4, 3, 6, 8))),
    ]
    for way, (name, latents) in ways:
        with torch.no_grad():
            samples = [way.sample(clip_of(i), caption) for i, caption in enumerate(captions)]
        record(way, samples, replay_of(name, latents), expected)
    save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o644)


if __name__ == "__main__":
    main()
