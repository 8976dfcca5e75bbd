#!/usr/bin/env python3
"""Clips of make_minimax_h3_clips.py beside references, pictures, clips and sounds, with the small model and adapter of make_minimax_h3.py, in minimax_h3_references/:

metadata.json         rows with references of all kinds in an order of their own; files are those of minimax_h3_clips/ and pipeline/pictures/
expected.safetensors  references.{loss,grad_norm} of the ten steps of minimax_h3_clips/replay.safetensors, whose frames and sound are learned; latents after 4 sampling steps from the
                      noise there, of the prompt "red apple" beside the references of the first row (latents, audio_latents)

On the way the tokens of texts, and the places of all tokens, are compared with those of DiffSynth-Studio's own code.
"""
import json, shutil, sys, types, wave
import numpy as np
import torch
import torch.nn.functional as F
from diffusers.modular_pipelines.minimax_h3.before_denoise import MiniMaxH3Ref2VAPrepareLayoutStep, MiniMaxH3SetTimestepsStep, patchify_video_latents
from diffusers.modular_pipelines.minimax_h3.encoders import MiniMaxH3Ref2VATextEncoderStep
from diffusers.modular_pipelines.minimax_h3.references import MiniMaxH3AudioReference, MiniMaxH3ImageReference, MiniMaxH3VideoReference
from diffusers.schedulers import MiniMaxH3Scheduler
from PIL import Image
from safetensors.torch import load_file
from transformers import Qwen2VLImageProcessor, Qwen3VLVideoProcessor

import family, training_loop
from make_minimax_h3 import FAMILY, MEAN, SHIFT, SOUND_SHIFT, STD, sound_sigma
from make_minimax_h3_clips import CAPTIONS, FRAMES, RATE, WITHOUT, clip_of, samples_of, sound_latents, write_expected
from make_minimax_h3_clips import OUT as CLIPS

sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))  # which DiffSynth-Studio reads files with, and none is read here
from diffsynth.models.minimax_h3_text_encoder import presentation_ref2va, sample_qwen_video_frames
from diffsynth.pipelines.minimax_h3_audio_video import MiniMaxH3Unit_PackedSequenceBuilder

OUT = family.HERE / "minimax_h3_references"
AREA, PICTURES = 2048, "../pipeline/pictures"
# Of each row; sounds are those of files.
ROWS = [
    [{"type": "image", "image": f"{PICTURES}/0.png"}, {"type": "video_audio", "video": "../minimax_h3_clips/1.webp", "audio": "../minimax_h3_clips/1.wav"}],
    [{"type": "audio", "audio": "../minimax_h3_clips/3.wav"}, {"type": "image", "image": f"{PICTURES}/1.png"}, {"type": "image", "image": "../minimax_h3_clips/end.png"}],
    [{"type": "video", "video": "../minimax_h3_clips/0.webp"}, {"type": "audio", "audio": "../minimax_h3_clips/0.wav"}],
    [],
]


def shown(picture):
    """Scaled to AREA, sides multiples of 32, as diffusers' calculate_dimensions has it."""
    ratio = picture.width / picture.height
    width = (AREA * ratio) ** 0.5
    size = tuple(max(1, round(x / 32)) * 32 for x in (width, width / ratio))
    return picture if picture.size == size else picture.resize(size, Image.LANCZOS)


def frames_of(file):
    number = int(file.split("/")[-1][0])
    return (clip_of(number)[0].permute(1, 2, 3, 0) * 255).round().to(torch.uint8).numpy()


def heard_in(file):
    with wave.open(str(OUT / file), "rb") as sound:
        samples = torch.from_numpy(np.frombuffer(sound.readframes(RATE), "<i2").astype(np.float32).reshape(-1, 2).T / 32768)
    return samples[:, :int(FRAMES / 24 * RATE)]


def references_of(row):
    references = []
    for entry in ROWS[row]:
        if entry["type"] == "image":
            references.append(MiniMaxH3ImageReference(image=shown(Image.open(OUT / entry["image"]).convert("RGB"))))
        elif entry["type"] == "audio":
            references.append(MiniMaxH3AudioReference(audio=heard_in(entry["audio"]), sample_rate=RATE))
        else:
            references.append(MiniMaxH3VideoReference(frames=frames_of(entry["video"]), fps=24.0, audio=heard_in(entry["audio"]) if "audio" in entry else None))
    return references


def check_text(pipe, prompt, references, images, per_block, ids, kinds):
    """DiffSynth-Studio tells of references in the same tokens."""
    labels, counts, times = [], {}, []
    for r in references:
        for kind in (["audio"] if r.has_audio else []) + ([] if r.kind == "audio" else [r.kind]):
            counts[kind] = counts.get(kind, 0) + 1
            labels.append((kind, counts[kind]))
        if r.kind == "video":
            times.append(sample_qwen_video_frames(r.frames)[1])
    own, own_kinds = presentation_ref2va(pipe.tokens, prompt, labels, images, [[n] * len(t) for n, t in zip(per_block, times)], times)
    assert own.tolist() == list(ids) and own_kinds.tolist() == list(kinds)


def check_places(layout, references, of_frames, of_sounds, kinds, f, h, w, num_sound):
    """DiffSynth-Studio has the same tokens at the same places."""
    frames, sounds, blocks = iter(of_frames), iter(of_sounds), []
    for r in references:
        block = {"kind": "video_audio" if r.kind == "video" and r.has_audio else r.kind, "ref_audio_t": next(sounds).shape[0] // 2 if r.has_audio else 0}
        if r.kind != "audio":
            block |= dict(zip(("latent_t", "latent_h", "latent_w"), next(frames).shape[2:]))
        blocks.append(block)
    packed = MiniMaxH3Unit_PackedSequenceBuilder()._build_packed_ref2va(len(kinds), f, h, w, num_sound, blocks)
    places, _, video, audio = layout[:4]
    assert torch.equal(packed["img_position_ids"][0, :len(places)], places) and torch.equal(packed["img_pos"], video) and torch.equal(packed["audio_pos"], audio)


@torch.no_grad()
def states_of(pipe, prompt, references):
    """States of the text, and the kinds of its tokens."""
    step, merged = MiniMaxH3Ref2VATextEncoderStep, 4
    inputs, images, per_block, times = {}, [], [], []
    pictures = [r.image for r in references if r.kind == "image"]
    if pictures:
        inputs |= Qwen2VLImageProcessor(**FAMILY.SHOWN)(images=pictures, return_tensors="pt")
        images = [int(grid.prod()) // merged for grid in inputs["image_grid_thw"]]
    clips = [step._sample_video_condition_frames(r.frames, 24.0, 2.0, 2) for r in references if r.kind == "video"]
    if clips:
        seen = Qwen3VLVideoProcessor(**FAMILY.SHOWN_CLIPS)(videos=[np.stack(frames) for frames, _ in clips], do_sample_frames=False, return_tensors="pt")
        inputs |= {name: seen[name] for name in ("pixel_values_videos", "video_grid_thw")}
        per_block = [int(grid[1] * grid[2]) // merged for grid in seen["video_grid_thw"]]
        times = [t for _, t in clips]
    ids, kinds = step._build_presentation(pipe.tokens, prompt, references, images, per_block, times)
    check_text(pipe, prompt, references, images, per_block, ids, kinds)
    one = pipe.tokens.convert_tokens_to_ids
    ids, kinds = torch.tensor([ids]), torch.tensor(kinds)
    of_media = (ids == one("<|image_pad|>")).int() + 2 * (ids == one("<|video_pad|>")).int()
    states = pipe.text_encoder.model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=of_media, use_cache=False, output_hidden_states=True, **inputs).hidden_states[50]
    return states, kinds


@torch.no_grad()
def latents_of(pipe, references):
    """Latents of frames, of a little noise, and rows of sounds."""
    frames, sounds = [], []
    for r in references:
        if r.kind != "audio":
            pixels = torch.from_numpy(np.array(r.image))[None] if r.kind == "image" else torch.from_numpy(r.frames)
            z = FAMILY.normalised(pipe, pipe.vae.encode((pixels.permute(3, 0, 1, 2)[None].float() / 255 - MEAN) / STD).latent_dist.mode())
            noise = torch.randn(z.shape[1:] if z.shape[2] > 1 else z[:, :, 0].shape[1:], generator=torch.Generator().manual_seed(42)).reshape(z.shape)
            frames.append(0.999 * z + 0.001 * noise)
        if r.has_audio:
            heard = F.pad(r.audio, (0, -r.audio.shape[1] % 20))
            sounds.append(sound_latents(pipe, heard)[0].T.contiguous())
    return frames, sounds


def given_of(pipe, row, prompt):
    references = references_of(row)
    return references, *states_of(pipe, prompt, references), *latents_of(pipe, references)


def predict(pipe, noisy, sigma, sound, references, states, kinds, of_frames, of_sounds):
    """The velocities noise - data of frames and of sound."""
    f, h, w = noisy.shape[2:]
    layout = MiniMaxH3Ref2VAPrepareLayoutStep.build_ref2va_packed_sequence(kinds, references, of_frames, of_sounds, f, h, w, sound.shape[2] // 2, (1, 2, 2), 2, 2, 0)
    check_places(layout, references, of_frames, of_sounds, kinds, f, h, w, sound.shape[2] // 2)
    position_ids, tags, video, audio, texts, num_video, num_audio = layout
    times, of_rows = MiniMaxH3SetTimestepsStep.build_row_timesteps(video, audio, num_video, num_audio, len(kinds), 1 - sigma.item(), 1 - sound_sigma(sigma).item(),
                                                                   max(1 - sigma.item(), 0.999), 1.0)
    rows = torch.cat([patchify_video_latents(x, (1, 2, 2)) for x in (*of_frames, noisy)])[None]
    heard = torch.cat([*of_sounds, sound[0].T])[None]
    velocity, of_audio = pipe.transformer(hidden_states=rows, audio_hidden_states=heard, encoder_hidden_states=states, timestep=times, timestep_indices=of_rows, token_tags=tags,
                                          position_ids=position_ids, video_indices=video, audio_indices=audio, text_indices=texts, return_dict=False)
    velocity, of_audio = velocity[0, velocity.shape[1] - f * h * w // 4:], of_audio[0, of_audio.shape[1] - sound.shape[2]:]
    return -velocity.view(f, h // 2, w // 2, -1, 2, 2).permute(3, 0, 1, 4, 2, 5).reshape(1, -1, f, h, w), -of_audio.T[None]


def record(pipe, samples, replay, adapter):
    given = [given_of(pipe, i, caption) for i, caption in enumerate(CAPTIONS)]

    def loss_of(step):
        number = int(replay[f"step.{step}.sample"])
        latents, sound = samples[number][:2]
        noise, audio_noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.audio_latents_noise"][None], replay[f"step.{step}.sigma"]
        at = sound_sigma(sigma)
        clean = torch.zeros_like(audio_noise) if sound is None else sound
        velocity, of_audio = predict(pipe, (1 - sigma) * latents + sigma * noise, sigma, (1 - at) * clean + at * audio_noise, *given[number])
        loss = F.mse_loss(velocity, noise - latents)
        return loss if sound is None else loss + F.mse_loss(of_audio, audio_noise - clean)

    losses, norms, _ = training_loop.train(adapter, training_loop.STEPS, loss_of)
    return {"references.loss": losses, "references.grad_norm": norms}


@torch.no_grad()
def drawn(pipe, noise, audio_noise):
    frames, sound = MiniMaxH3Scheduler(SHIFT), MiniMaxH3Scheduler(SOUND_SHIFT)
    given = given_of(pipe, 0, "red apple")
    frames.set_timesteps(5)
    sound.set_timesteps(5)
    latents, audio = noise, audio_noise
    for t, of_sound in zip(frames.timesteps, sound.timesteps):
        velocity, of_audio = predict(pipe, latents, 1 - t, audio, *given)
        latents, audio = frames.step(-velocity, t, latents, return_dict=False)[0], sound.step(-of_audio, of_sound, audio, return_dict=False)[0]
    return latents, audio


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    rows = [{"video": f"../minimax_h3_clips/{i}.webp", "prompt": caption} | ({} if i == WITHOUT else {"input_audio": f"../minimax_h3_clips/{i}.wav"}) | {"references": ROWS[i]}
            for i, caption in enumerate(CAPTIONS)]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=2) + "\n")
    pipe, replay = FAMILY.parts(), load_file(CLIPS / "replay.safetensors")
    start = load_file(CLIPS / "expected.safetensors")
    expected = dict(zip(("latents", "audio_latents"), drawn(pipe, start["noise"][:1], start["audio_latents_noise"][:1])))
    samples = samples_of(pipe)
    adapter = training_loop.add_adapter(pipe.transformer, FAMILY.TARGETS)
    training_loop.load_adapter(adapter, FAMILY.OUT / "lora.safetensors")
    expected |= record(pipe, samples, replay, adapter)
    write_expected(OUT, expected)


if __name__ == "__main__":
    main()
