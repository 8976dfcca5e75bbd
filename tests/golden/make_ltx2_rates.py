#!/usr/bin/env python3
"""A clip of 12 frames a second with sound, on which diffusers + peft take ten training steps and draw at that rate, with the small model and
adapter of make_ltx2.py, in ltx2_rates/:

0.webp, 0.wav, metadata.csv  an animation of 32 x 64 whose frame k is shown from 83 k ms on, what is heard beside it for 0.75 s, a caption
replay.safetensors           step.{i}.noise, step.{i}.audio_latents_noise, step.{i}.sigma, step.{i}.sample
expected.safetensors         sounding.{loss,grad_norm} of ten steps; initial noise of frames and sound and their latents after 4 sampling steps (noise,
                             audio_latents_noise, latents.plain, audio_latents.plain)
coordinates.safetensors      video, audio: the middles of tokens that diffusers' rotary embeddings read, of 3 x 2 x 3 latents at 12 and at 50
                             frames a second and of 5 latents of sound
"""
import csv, shutil
import torch
from PIL import Image
from safetensors.torch import save_file

import family, make_ltx2, make_ltx2_clips as clips, training_loop

OUT, RATE, NUM_SOUND = family.HERE / "ltx2_rates", 12, 19


def write_clip():
    OUT.mkdir()
    source = Image.open(family.HERE / "ltx2_clips/0.webp")
    frames = []
    for k in range(clips.FRAMES):
        source.seek(k)
        frames.append(source.convert("RGB"))
    frames[0].save(OUT / "0.webp", save_all=True, append_images=frames[1:], duration=83, lossless=True, method=6, quality=100)
    clips.write_sound(OUT / "0.wav", 0, clips.RATE * clips.FRAMES // RATE + 400)
    with open(OUT / "metadata.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["video", "prompt", "input_audio"], ["0.webp", clips.CAPTIONS[0], "0.wav"]])


def coordinates(transformer):
    """diffusers holds the edges of tokens, of which its embeddings take the middles."""
    of_frames = [transformer.rope.prepare_video_coords(1, 3, 2, 3, device="cpu", fps=float(rate)).mean(-1) for rate in (RATE, 50)]
    return {"video": torch.cat(of_frames), "audio": transformer.audio_rope.prepare_audio_coords(1, 5, device="cpu").mean(-1)}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    write_clip()
    make_ltx2.RATE = float(RATE)
    clips.OUT, clips.RATE_OF_FRAMES, clips.NUM_SOUND = OUT, RATE, NUM_SOUND
    pipe = clips.FAMILY.parts()
    with torch.no_grad():
        samples = [clips.encoded_sample(pipe, 0)]
    replay = training_loop.write_replay(OUT / "replay.safetensors", clips.LATENTS, len(samples))
    replay |= {f"step.{i}.audio_latents_noise": torch.randn(8, NUM_SOUND) for i in range(training_loop.STEPS)}
    save_file(replay, OUT / "replay.safetensors")
    noise, sound_noise = torch.randn(2, *clips.LATENTS), torch.randn(2, 8, NUM_SOUND)
    expected = {"noise": noise, "audio_latents_noise": sound_noise} | clips.drawn(pipe, noise, sound_noise)
    save_file(coordinates(pipe.transformer), OUT / "coordinates.safetensors")
    adapter = training_loop.add_adapter(pipe.transformer, clips.FAMILY.TARGETS)
    training_loop.load_adapter(adapter, clips.FAMILY.OUT / "lora.safetensors")
    expected["sounding.loss"], expected["sounding.grad_norm"] = clips.train(pipe, samples, replay, adapter, 1.0)
    save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o644)
    print({n: x for n, x in expected.items() if n.endswith("loss")})


if __name__ == "__main__":
    main()
