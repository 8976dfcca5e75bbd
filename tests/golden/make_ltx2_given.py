#!/usr/bin/env python3
"""Frames without noise beside those of LTX-2's clips, which diffusers' transformer reads as further tokens with places of their own: the clips of
make_ltx2_clips.py and the small model and adapter of make_ltx2.py, in ltx2_given/:

reference.csv         clips, captions and beside each another clip (in_context_videos), which is seen as large (in_context_downsample_factor 1)
replay.safetensors    step.{i}.noise, step.{i}.audio_latents_noise, step.{i}.sigma, step.{i}.sample
references.csv        the same beside two clips each
expected.safetensors  {reference,references,frames,keyframes}.{loss,grad_norm} of ten steps beside one and two of them, with the first and the last frame given, and
                      with the frames 3 and 6 and the last one
beside.safetensors    the transformer alone: in.<input>, in.reference and in.last, latents of half the sides and of the last of 17 frames, at 12 frames
                      a second: out, sound, and with the first frame given as well given.out, given.sound; in.several, of the last nine frames, and
                      in.last for the frame 5: several.out, several.sound
"""
import csv, json, shutil
from types import SimpleNamespace
import torch
import torch.nn.functional as F
from diffusers import LTX2ConditionPipeline
from safetensors.torch import save_file

import family, make_ltx2_clips as clips, training_loop

FAMILY, OUT, NUM_SOUND = clips.FAMILY, family.HERE / "ltx2_given", clips.NUM_SOUND
BESIDE = [1, 2, 3, 0]


def beside_of(name, number):
    """The clips beside one."""
    return [BESIDE[number], number][:2 if name == "references" else 1]


def tokens(x):
    return x.flatten(2).transpose(1, 2)


def reference(model, latents, rate, scale):
    """Latents with the places of a clip that is seen `scale` times smaller."""
    coords = model.rope.prepare_video_coords(1, *latents.shape[2:], device="cpu", fps=rate)
    coords[:, 1:] *= scale
    return latents, coords


SCALES = SimpleNamespace(transformer_spatial_patch_size=1, transformer_temporal_patch_size=1, vae_temporal_compression_ratio=8, vae_spatial_compression_ratio=32)


def keyframe(latents, rate, number):
    """Latents of frames with the places that diffusers gives what begins at that frame."""
    num_latents = latents.shape[2]
    return latents, LTX2ConditionPipeline._prepare_keyframe_coords(SCALES, *latents.shape[2:], number, 8 * num_latents - 7, rate, "cpu")


def predict(model, noisy, sigma, text, sound_text, sound, rate, beside=(), num_given=0):
    f, h, w = noisy.shape[2:]
    of_clip, count = model.rope.prepare_video_coords(1, f, h, w, device="cpu", fps=rate), f * h * w
    all_tokens = torch.cat([tokens(noisy), *(tokens(x) for x, _ in beside)], 1)
    coords = torch.cat([of_clip, *(c for _, c in beside)], 2).expand(noisy.shape[0], -1, -1, -1)
    timestep = (sigma * 1000).view(-1, 1).repeat(1, all_tokens.shape[1])
    timestep[:, :num_given * h * w] = timestep[:, count:] = 0
    out, of_sound = model(hidden_states=all_tokens, audio_hidden_states=sound.transpose(1, 2), encoder_hidden_states=text, audio_encoder_hidden_states=sound_text, timestep=timestep,
                          audio_timestep=sigma * 1000, sigma=sigma * 1000, audio_sigma=sigma * 1000, num_frames=f, height=h, width=w, fps=rate, audio_num_frames=sound.shape[2],
                          video_coords=coords, use_cross_timestep=True, return_dict=False)
    return out[:, :count].transpose(1, 2).unflatten(2, (f, h, w)), of_sound.transpose(1, 2)


def train(pipe, samples, replay, parameters, name):
    """Nothing is heard: noise stands for the sound, and is not judged."""

    def loss_of(step):
        number = int(replay[f"step.{step}.sample"])
        latents, (third, sixth, last), *texts = samples[number]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        sound = sigma * replay[f"step.{step}.audio_latents_noise"][None]
        noisy, rate, model = (1 - sigma) * latents + sigma * noise, 24.0, pipe.transformer
        if name.startswith("reference"):
            beside = [reference(model, samples[i][0], rate, 1) for i in beside_of(name, number)]
            return F.mse_loss(predict(model, noisy, sigma.reshape(1), *texts, sound, rate, beside)[0], noise - latents)
        beside = [keyframe(last, rate, clips.FRAMES - 1)]
        if name == "keyframes":
            beside = [keyframe(third, rate, 3), keyframe(sixth, rate, 6), *beside]
            return F.mse_loss(predict(model, noisy, sigma.reshape(1), *texts, sound, rate, beside)[0], noise - latents)
        noisy = torch.cat([latents[:, :, :1], noisy[:, :, 1:]], 2)
        out = predict(model, noisy, sigma.reshape(1), *texts, sound, rate, beside, 1)[0]
        return F.mse_loss(out[:, :, 1:], (noise - latents)[:, :, 1:])

    losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
    return {f"{name}.loss": losses, f"{name}.grad_norm": norms}


@torch.no_grad()
def alone(model):
    torch.manual_seed(3)
    inputs = dict(noisy=torch.randn(2, 6, 3, 2, 4), sigma=torch.tensor([0.3, 0.8]), text=torch.randn(2, 5, 32), sound_text=torch.randn(2, 5, 16), sound=torch.randn(2, 8, 35))
    small, last = torch.randn(2, 6, 3, 1, 2), torch.randn(2, 6, 1, 2, 4)
    beside = [keyframe(last, 12.0, 16), reference(model, small, 12.0, 2)]
    out, sound = predict(model, *inputs.values(), 12.0, beside)
    given, of_given = predict(model, *inputs.values(), 12.0, beside, 1)
    ends = torch.randn(2, 6, 2, 2, 4)
    several, of_several = predict(model, *inputs.values(), 12.0, [keyframe(last, 12.0, 5), keyframe(ends, 12.0, 8)], 1)
    tensors = {f"in.{n}": x for n, x in inputs.items()} | {"in.reference": small, "in.last": last, "out": out, "sound": sound, "given.out": given, "given.sound": of_given}
    tensors |= {"in.several": ends, "several.out": several, "several.sound": of_several}
    save_file({n: x.contiguous() for n, x in tensors.items()}, OUT / "beside.safetensors")


@torch.no_grad()
def encoded(pipe):
    def latents(clip):
        return (pipe.vae.encode(clip).latent_dist.mode() - pipe.vae.latents_mean.view(1, -1, 1, 1, 1)) / pipe.vae.latents_std.view(1, -1, 1, 1, 1)

    frames = lambda i: [latents(clips.clip_of(i)[:, :, k:k + 1]) for k in (3, 6, clips.FRAMES - 1)]
    return [(latents(clips.clip_of(i)), frames(i), *FAMILY.conditions(pipe, caption)) for i, caption in enumerate(clips.CAPTIONS)]


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    for name in ("reference", "references"):
        with open(OUT / f"{name}.csv", "w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["video", "prompt", "in_context_videos", "in_context_downsample_factor"])
            for i, caption in enumerate(clips.CAPTIONS):
                rows.writerow([f"../ltx2_clips/{i}.webp", caption, json.dumps([f"../ltx2_clips/{k}.webp" for k in beside_of(name, i)]), 1])
    pipe = FAMILY.parts()
    samples = encoded(pipe)
    replay = training_loop.write_replay(OUT / "replay.safetensors", clips.LATENTS, len(samples))
    replay |= {f"step.{i}.audio_latents_noise": torch.randn(8, NUM_SOUND) for i in range(training_loop.STEPS)}
    save_file(replay, OUT / "replay.safetensors")
    alone(pipe.transformer)
    adapter = training_loop.add_adapter(pipe.transformer, FAMILY.TARGETS)
    expected = {}
    for name in ("reference", "references", "frames", "keyframes"):
        training_loop.load_adapter(adapter, FAMILY.OUT / "lora.safetensors")
        expected |= train(pipe, samples, replay, adapter, name)
    save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o644)
    print(expected)


if __name__ == "__main__":
    main()
