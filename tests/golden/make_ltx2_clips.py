#!/usr/bin/env python3
"""Clips of 9 frames with sound, and ten training steps on them that diffusers + peft take with the small model and adapter of make_ltx2.py, in ltx2_clips/:

{0,1,2,3}.webp, {0,1,3}.wav, metadata.csv  animations of 32 x 64 whose frame k is shown from 41 k ms on, what is heard beside three of them (16,000 samples a second, two
                      channels), captions
replay.safetensors    step.{i}.noise, step.{i}.audio_latents_noise, step.{i}.sigma, step.{i}.sample
expected.safetensors  {sounding,half,silent}.{loss,grad_norm} of ten steps: frames and sound, with a weight of 0.5 on sound, and without a sound to learn; initial noise of frames
                      and sound and their latents after 4 sampling steps (noise, audio_latents_noise, latents.plain, audio_latents.plain)
"""
import csv, shutil, wave
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

import family, training_loop
from make_ltx2 import FAMILY
from make_ltx2_autoencoders import log_bands

OUT = family.HERE / "ltx2_clips"
FRAMES, RATE_OF_FRAMES, RATE, CAPTIONS, WITHOUT = 9, 24, 16000, ["red apple", "a cat face, smiling", "tree", "red apple"], 2
SIZE, NUM_SOUND, LATENTS = (32, 64), 9, (6, 2, 1, 2)


def write_sound(path, i, num_samples):
    time = np.arange(num_samples) / RATE
    tones = np.stack([np.sin(2 * np.pi * (220 + 130 * i) * time), np.sin(2 * np.pi * (310 + 70 * i) * time * (1 + time))], 1) * 0.5
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((tones * 32767).astype("<i2").tobytes())


def write_clips():
    OUT.mkdir()
    for i in range(len(CAPTIONS)):
        picture = np.array(Image.open(family.Family.PICTURES / f"{i}.png").convert("RGB").resize((8, 4), Image.BOX).resize(SIZE[::-1], Image.NEAREST))
        frames = [Image.fromarray(np.roll(picture, (k * (1 + i), 2 * k), (0, 1))) for k in range(FRAMES)]
        frames[0].save(OUT / f"{i}.webp", save_all=True, append_images=frames[1:], duration=41, lossless=True, method=6, quality=100)
        if i == WITHOUT:
            continue
        write_sound(OUT / f"{i}.wav", i, RATE * FRAMES // RATE_OF_FRAMES + 400)
    with open(OUT / "metadata.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows([["video", "prompt", "input_audio"], *[[f"{i}.webp", caption, "" if i == WITHOUT else f"{i}.wav"] for i, caption in enumerate(CAPTIONS)]])


def clip_of(i):
    """A clip [1, 3, F, H, W] from -1 to 1."""
    file = Image.open(OUT / f"{i}.webp")
    frames = []
    for k in range(FRAMES):
        file.seek(k)
        frames.append(torch.from_numpy(np.array(file.convert("RGB"))))
    return torch.stack(frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1


def sound_of(pipe, i):
    """Latents [1, C, N] of the sound in the frames' time; None where nothing is heard."""
    if i == WITHOUT:
        return None
    with wave.open(str(OUT / f"{i}.wav"), "rb") as file:
        samples = torch.from_numpy(np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float64).reshape(-1, 2).T / 32768)
    bands = log_bands(samples[None, :, :round(FRAMES / RATE_OF_FRAMES * RATE)], 16).float()
    packed = pipe.audio_vae.encode(bands).latent_dist.mode().permute(0, 2, 1, 3).flatten(2)
    return ((packed - pipe.audio_vae.latents_mean) / pipe.audio_vae.latents_std).transpose(1, 2)[:, :, :NUM_SOUND]


def encoded_sample(pipe, i):
    frames = (pipe.vae.encode(clip_of(i)).latent_dist.mode() - pipe.vae.latents_mean.view(1, -1, 1, 1, 1)) / pipe.vae.latents_std.view(1, -1, 1, 1, 1)
    return frames, sound_of(pipe, i), *FAMILY.conditions(pipe, CAPTIONS[i])


@torch.no_grad()
def encoded(pipe):
    return [encoded_sample(pipe, i) for i in range(len(CAPTIONS))]


def train(pipe, samples, replay, parameters, weight, is_heard=True):
    """A sample without a sound has noise in its place, of whose loss nothing counts."""

    def loss_of(step):
        frames, sound, *texts = samples[int(replay[f"step.{step}.sample"])]
        noise, sound_noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.audio_latents_noise"][None], replay[f"step.{step}.sigma"]
        is_there = is_heard and sound is not None
        clean = sound if is_there else torch.zeros_like(sound_noise)
        out, of_sound = FAMILY.predict(pipe.transformer, (1 - sigma) * frames + sigma * noise, sigma.reshape(1), *texts, (1 - sigma) * clean + sigma * sound_noise)
        loss = F.mse_loss(out, noise - frames)
        return loss + weight * is_there * F.mse_loss(of_sound, sound_noise - clean) if is_heard else loss

    losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
    return losses, norms


@torch.no_grad()
def drawn(pipe, noise, sound_noise):
    texts = [torch.cat(x) for x in zip(*(FAMILY.conditions(pipe, prompt) for prompt in FAMILY.PROMPTS))]
    pipe.scheduler.set_timesteps(4, sigmas=[1, 0.75, 0.5, 0.25], mu=0.95 + (noise[0, 0].numel() - 1024) * 1.1 / 3072)
    frames, sound = noise, sound_noise
    for sigma, after in zip(pipe.scheduler.sigmas[:-1], pipe.scheduler.sigmas[1:]):
        velocities = FAMILY.predict(pipe.transformer, frames, sigma.repeat(2), *texts, sound)
        frames, sound = (x + (after - sigma) * v for x, v in zip((frames, sound), velocities))
    return {"latents.plain": frames, "audio_latents.plain": sound}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    write_clips()
    pipe = FAMILY.parts()
    samples = encoded(pipe)
    replay = training_loop.write_replay(OUT / "replay.safetensors", LATENTS, len(samples))
    replay |= {f"step.{i}.audio_latents_noise": torch.randn(8, NUM_SOUND) for i in range(training_loop.STEPS)}
    save_file(replay, OUT / "replay.safetensors")
    noise, sound_noise = torch.randn(2, *LATENTS), torch.randn(2, 8, NUM_SOUND)
    expected = {"noise": noise, "audio_latents_noise": sound_noise} | drawn(pipe, noise, sound_noise)
    adapter = training_loop.add_adapter(pipe.transformer, FAMILY.TARGETS)
    for name, weight, is_heard in (("sounding", 1.0, True), ("half", 0.5, True), ("silent", 0.0, False)):
        training_loop.load_adapter(adapter, FAMILY.OUT / "lora.safetensors")
        expected[f"{name}.loss"], expected[f"{name}.grad_norm"] = train(pipe, samples, replay, adapter, weight, is_heard)
    save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o644)
    print({n: x for n, x in expected.items() if n.endswith("loss")})


if __name__ == "__main__":
    main()
