#!/usr/bin/env python3
"""Clips of 22 frames with sound, and ten training steps on them that diffusers + peft take with the small model and adapter of make_minimax_h3.py, in minimax_h3_clips/:

{0,1,2,3}.webp, {0,1,3}.wav, metadata.csv  animations of 32 x 64 whose frame k is shown from 41 k ms on, what is heard beside three of them (800 samples a second, two channels), captions
replay.safetensors    step.{i}.noise, step.{i}.audio_latents_noise, step.{i}.sigma, step.{i}.sample
expected.safetensors  {sounding,half,silent,sound}.{loss,grad_norm} of ten steps: frames and sound, with a weight of 0.5 on sound, without a sound to learn, and of sound alone; initial
                      noise of frames and sound and their latents after 4 sampling steps (noise, audio_latents_noise, latents.plain, audio_latents.plain)
                      given_{first,last}.{loss,grad_norm}: silent clips whose first frame is given, and their last one too, which rows 1 and 3 name in the column end_image of given.csv
sound.safetensors     the autoencoder of sound alone: samples [2, N], the mean of their latents; latents, and the samples that they are decoded to; latents of silence
"""
import csv, shutil, wave
import numpy as np
import torch
import torch.nn.functional as F
from diffusers.modular_pipelines.minimax_h3.before_denoise import MiniMaxH3PrepareLayoutStep, MiniMaxH3SetTimestepsStep, patchify_video_latents
from diffusers.schedulers import MiniMaxH3Scheduler
from PIL import Image
from safetensors.torch import save_file
from transformers import Qwen2VLImageProcessor

import family, training_loop
from make_minimax_h3 import FAMILY, MEAN, SHIFT, SOUND_SHIFT, STD, sound_sigma

OUT = family.HERE / "minimax_h3_clips"
FRAMES, RATE, CAPTIONS, WITHOUT, NAMED = 22, 800, ["red apple", "a cat face, smiling", "tree", "red apple"], 2, (1, 3)
SIZE, NUM_SIDE = (32, 64), 37


def write_clips():
    OUT.mkdir()
    random = np.random.default_rng(5)
    for i in range(len(CAPTIONS)):
        picture = np.array(Image.open(family.Family.PICTURES / f"{i}.png").convert("RGB").resize((8, 4), Image.BOX).resize(SIZE[::-1], Image.NEAREST))
        frames = [Image.fromarray(np.roll(picture, (k * (1 + i), 2 * k), (0, 1))) for k in range(FRAMES)]
        frames[0].save(OUT / f"{i}.webp", save_all=True, append_images=frames[1:], duration=41, lossless=True, method=6, quality=100)
        if i == WITHOUT:
            continue
        time = np.arange(RATE) / RATE
        tones = np.stack([np.sin(2 * np.pi * (20 + 13 * i) * time), np.sin(2 * np.pi * (31 + 7 * i) * time * (1 + time))], 1) * 0.5 + random.normal(size=(RATE, 2)) * 0.1
        with wave.open(str(OUT / f"{i}.wav"), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((tones.clip(-1, 1) * 32767).astype("<i2").tobytes())
    with open(OUT / "metadata.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows([["video", "prompt", "input_audio"], *[[f"{i}.webp", caption, "" if i == WITHOUT else f"{i}.wav"] for i, caption in enumerate(CAPTIONS)]])


    Image.open(family.Family.PICTURES / "2.png").convert("RGB").resize((8, 4), Image.BOX).resize(SIZE[::-1], Image.NEAREST).save(OUT / "end.png")
    with open(OUT / "given.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerows([["video", "prompt", "end_image"], *[[f"{i}.webp", caption, "end.png" if i in NAMED else ""] for i, caption in enumerate(CAPTIONS)]])


def clip_of(i):
    """A clip [1, 3, F, H, W] from 0 to 1."""
    file = Image.open(OUT / f"{i}.webp")
    frames = []
    for k in range(FRAMES):
        file.seek(k)
        frames.append(torch.from_numpy(np.array(file.convert("RGB"))))
    return torch.stack(frames).permute(3, 0, 1, 2)[None].float() / 255


def sound_of(i):
    """Samples [2, N] of the frames' time, filled up to whole latents; None where nothing is heard."""
    if i == WITHOUT:
        return None
    with wave.open(str(OUT / f"{i}.wav"), "rb") as file:
        samples = torch.from_numpy(np.frombuffer(file.readframes(RATE), "<i2").astype(np.float32).reshape(-1, 2).T / 32768)
    return F.pad(samples[:, :round(FRAMES / 24 * RATE)], (0, NUM_SIDE * 20 - round(FRAMES / 24 * RATE)))


def sound_latents(pipe, samples):
    """[1, C, 2 N], all of the left before those of the right."""
    mean, std = (torch.tensor(x).view(1, -1, 1) for x in (pipe.audio_vae.config.latents_mean, pipe.audio_vae.config.latents_std))
    latents = (pipe.audio_vae.encode(samples[:, None]).latent_dist.mode() - mean) / std
    return latents.transpose(0, 1).flatten(1)[None]


@torch.no_grad()
def samples_of(pipe):
    samples = []
    for i, caption in enumerate(CAPTIONS):
        latents = FAMILY.normalised(pipe, pipe.vae.encode((clip_of(i) - MEAN) / STD).latent_dist.mode())
        heard = sound_of(i)
        samples.append((latents, None if heard is None else sound_latents(pipe, heard), *FAMILY.conditions(pipe, caption)))
    return samples


def record(pipe, samples, replay, adapter, start, name, of_frames, of_sound, expected):
    """Without a sound its tokens are noise, and nothing of them is judged."""
    def loss_of(step):
        latents, sound, *conditions = samples[int(replay[f"step.{step}.sample"])]
        noise, audio_noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.audio_latents_noise"][None], replay[f"step.{step}.sigma"]
        sound = None if name == "silent" else sound
        at = sound_sigma(sigma)
        clean = torch.zeros_like(audio_noise) if sound is None else sound
        velocity, of_audio = FAMILY.predict(pipe.transformer, (1 - sigma) * latents + sigma * noise, sigma.reshape(1), *conditions, (1 - at) * clean + at * audio_noise)
        loss = of_frames * F.mse_loss(velocity, noise - latents)
        return loss if sound is None else loss + of_sound * F.mse_loss(of_audio, audio_noise - clean)

    pipe.transformer.load_state_dict(start, strict=False)
    losses, norms, _ = training_loop.train(adapter, training_loop.STEPS, loss_of)
    expected |= {f"{name}.loss": losses, f"{name}.grad_norm": norms}


def ends_of(i, has_last):
    """The given frames of a clip, as pictures [H, W, 3]."""
    clip = (clip_of(i)[0].permute(1, 2, 3, 0) * 255).round().to(torch.uint8).numpy()
    other = np.array(Image.open(OUT / "end.png"))
    return [clip[0], other if i in NAMED else clip[-1]] if has_last else [clip[0]]


@torch.no_grad()
def given_of(pipe, i, has_last):
    """States and kinds of a text with pictures, and latents of these, of a little noise."""
    pictures = ends_of(i, has_last)
    processor = Qwen2VLImageProcessor(**FAMILY.SHOWN)
    shown = processor(images=[Image.fromarray(p) for p in pictures], return_tensors="pt")
    ids, kinds, of_pictures = [], [], []
    one = pipe.tokens.convert_tokens_to_ids
    for k, grid in enumerate(shown["image_grid_thw"]):
        label = pipe.tokens(f"<Picture {k + 1}>: ", add_special_tokens=False)["input_ids"]
        count = int(grid.prod()) // 4
        ids += label + [one("<|vision_start|>")] + [one("<|image_pad|>")] * count + [one("<|vision_end|>")]
        kinds += [1] * len(label) + [0] * (count + 2)
        of_pictures += [0] * (len(label) + 1) + [1] * count + [0]
    prompt = pipe.tokens(CAPTIONS[i], add_special_tokens=False)["input_ids"]
    ids, kinds, of_pictures = torch.tensor([ids + prompt]), torch.tensor(kinds + [1] * len(prompt)), torch.tensor([of_pictures + [0] * len(prompt)])
    states = pipe.text_encoder.model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=of_pictures, pixel_values=shown["pixel_values"],
                                     image_grid_thw=shown["image_grid_thw"], use_cache=False, output_hidden_states=True).hidden_states[50]
    latents = [FAMILY.normalised(pipe, pipe.vae.encode((torch.from_numpy(p).permute(2, 0, 1)[None, :, None].float() / 255 - MEAN) / STD).latent_dist.mode()) for p in pictures]
    noise = torch.randn(latents[0].shape, generator=torch.Generator().manual_seed(42))
    return states, kinds, [0.999 * x + 0.001 * noise for x in latents]


def predict_given(pipe, noisy, sigma, sound, states, kinds, given):
    """The velocity noise - data of frames."""
    f, h, w = noisy.shape[2:]
    layout = MiniMaxH3PrepareLayoutStep.build_packed_sequence(kinds, f, h, w, sound.shape[2] // 2, (1, 2, 2), 2, 2, 0, ("first", "last")[:len(given)])
    position_ids, tags, video, audio, texts, num_given, _ = layout
    times, of_rows = MiniMaxH3SetTimestepsStep.build_row_timesteps(video, audio, num_given, 0, len(kinds), 1 - sigma.item(), 1 - sound_sigma(sigma).item(), max(1 - sigma.item(), 0.999), 1.0)
    rows = torch.cat([patchify_video_latents(x, (1, 2, 2)) for x in (*given, noisy)])[None]
    velocity, _ = pipe.transformer(hidden_states=rows, audio_hidden_states=sound[0].T[None], encoder_hidden_states=states, timestep=times, timestep_indices=of_rows, token_tags=tags,
                                   position_ids=position_ids, video_indices=video, audio_indices=audio, text_indices=texts, return_dict=False)
    rows = velocity[0, num_given:] if velocity.shape[1] > f * h * w // 4 else velocity[0]
    return -rows.view(f, h // 2, w // 2, -1, 2, 2).permute(3, 0, 1, 4, 2, 5).reshape(1, -1, f, h, w)


def record_given(pipe, samples, replay, adapter, start, name, has_last, expected):
    given = [given_of(pipe, i, has_last) for i in range(len(CAPTIONS))]

    def loss_of(step):
        number = int(replay[f"step.{step}.sample"])
        latents, noise, sigma = samples[number][0], replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        sound = sound_sigma(sigma) * replay[f"step.{step}.audio_latents_noise"][None]
        return F.mse_loss(predict_given(pipe, (1 - sigma) * latents + sigma * noise, sigma, sound, *given[number]), noise - latents)

    pipe.transformer.load_state_dict(start, strict=False)
    losses, norms, _ = training_loop.train(adapter, training_loop.STEPS, loss_of)
    expected |= {f"{name}.loss": losses, f"{name}.grad_norm": norms}


@torch.no_grad()
def drawn(pipe, noise, audio_noise, prompts):
    frames, sound = MiniMaxH3Scheduler(SHIFT), MiniMaxH3Scheduler(SOUND_SHIFT)
    texts = [FAMILY.conditions(pipe, prompt)[0][0] for prompt in prompts]
    frames.set_timesteps(5)
    sound.set_timesteps(5)
    latents, audio = noise, audio_noise
    for t, of_sound in zip(frames.timesteps, sound.timesteps):
        velocity, of_audio = FAMILY.predict(pipe.transformer, latents, (1 - t).repeat(len(texts)), texts, audio)
        latents, audio = frames.step(-velocity, t, latents, return_dict=False)[0], sound.step(-of_audio, of_sound, audio, return_dict=False)[0]
    return latents, audio


@torch.no_grad()
def write_sound(pipe):
    torch.manual_seed(11)
    mean, std = (torch.tensor(x).view(1, -1, 1) for x in (pipe.audio_vae.config.latents_mean, pipe.audio_vae.config.latents_std))
    samples, latents = torch.rand(2, 133) * 2 - 1, torch.randn(2, 5, 6)
    encode = lambda x: (pipe.audio_vae.encode(x[:, None]).latent_dist.mode() - mean) / std
    save_file({"samples": samples, "mean": encode(samples), "latents": latents, "decoded": pipe.audio_vae.decode(latents * std + mean).sample[:, 0].contiguous(),
               "silence": encode(torch.zeros(1, 200))}, OUT / "sound.safetensors")


def write_expected(out, expected):
    save_file({n: x.contiguous() for n, x in expected.items()}, out / "expected.safetensors")
    for file in out.rglob("*"):
        file.chmod(0o644)
    print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: x.std().item() for n, x in expected.items() if "latents" in n})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    write_clips()
    pipe = FAMILY.parts()
    write_sound(pipe)
    samples = samples_of(pipe)
    replay = training_loop.write_replay(OUT / "replay.safetensors", (6, 7, 2, 4), len(CAPTIONS))
    replay |= {f"step.{i}.audio_latents_noise": torch.randn(5, 2 * NUM_SIDE) for i in range(training_loop.STEPS)}
    save_file(replay, OUT / "replay.safetensors")
    expected = {"noise": torch.randn(2, 6, 7, 2, 4), "audio_latents_noise": torch.randn(2, 5, 2 * NUM_SIDE)}
    expected["latents.plain"], expected["audio_latents.plain"] = drawn(pipe, expected["noise"], expected["audio_latents_noise"], FAMILY.PROMPTS)
    adapter = training_loop.add_adapter(pipe.transformer, FAMILY.TARGETS)
    training_loop.load_adapter(adapter, FAMILY.OUT / "lora.safetensors")
    start = {n: p.detach().clone() for n, p in adapter}
    for name, of_frames, of_sound in (("sounding", 1, 1), ("half", 1, 0.5), ("silent", 1, 0), ("sound", 0, 1)):
        # A step of which nothing is judged has no gradient.
        heard = [samples[0] if name == "sound" and i == WITHOUT else sample for i, sample in enumerate(samples)]
        record(pipe, heard, replay, adapter, start, name, of_frames, of_sound, expected)
    for name, has_last in (("given_first", False), ("given_last", True)):
        record_given(pipe, samples, replay, adapter, start, name, has_last, expected)
    write_expected(OUT, expected)


if __name__ == "__main__":
    main()
