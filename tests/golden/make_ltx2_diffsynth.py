#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of the small LTX-2 and its clips (make_ltx2.py, make_ltx2_clips.py) -> ltx2_diffsynth.json:

{sounding,reference}  loss and grad_norm of ten steps of the recorded noise, at the times (sigma) of its grid that are next to the recorded ones and with its weights: clips with
                      sound, and such clips beside a reference clip as large
samples               the clip of each step, of those that sound

Positions, the transformer and the loss are its own; texts' states and latents are made by diffusers' pipeline.
"""
import json, sys, types
from unittest import mock

import torch
from PIL import Image
from safetensors.torch import load_file

import make_ltx2_clips as clips, training_loop
from make_ltx2_given import BESIDE

for name in ("torchaudio", "av"):  # which it reads files with, and none is read here
    sys.modules.setdefault(name, mock.MagicMock())
from diffsynth.diffusion.flow_match import FlowMatchScheduler
from diffsynth.diffusion.loss import FlowMatchSFTAudioVideoLoss
from diffsynth.models.ltx2_dit import LTXModel
from diffsynth.pipelines import ltx2_audio_video as theirs

import diffsynth_replay

FAMILY = clips.FAMILY
RATE, HEARD = 24.0, [0, 1, 3]
NAMES = {"proj_in": "patchify_proj", "audio_proj_in": "audio_patchify_proj", "time_embed": "adaln_single", "audio_time_embed": "audio_adaln_single", "prompt_adaln": "prompt_adaln_single",
         "audio_prompt_adaln": "audio_prompt_adaln_single", "av_cross_attn_video_scale_shift": "av_ca_video_scale_shift_adaln_single",
         "av_cross_attn_audio_scale_shift": "av_ca_audio_scale_shift_adaln_single", "av_cross_attn_video_a2v_gate": "av_ca_a2v_gate_adaln_single",
         "av_cross_attn_audio_v2a_gate": "av_ca_v2a_gate_adaln_single", "video_a2v_cross_attn_scale_shift_table": "scale_shift_table_a2v_ca_video",
         "audio_a2v_cross_attn_scale_shift_table": "scale_shift_table_a2v_ca_audio", "norm_q": "q_norm", "norm_k": "k_norm"}


def transformer():
    c = json.loads((FAMILY.OUT / "model/transformer/config.json").read_text())
    same = ("num_attention_heads", "attention_head_dim", "in_channels", "out_channels", "num_layers", "cross_attention_dim", "audio_num_attention_heads", "audio_attention_head_dim",
            "audio_in_channels", "audio_out_channels", "audio_cross_attention_dim")
    dit = LTXModel(**{name: c[name] for name in same}, caption_channels=None, apply_gated_attention=True, cross_attention_adaln=True)
    state = {}
    for file in (FAMILY.OUT / "model/transformer").glob("*.safetensors"):
        for name, value in load_file(file).items():
            state[".".join(NAMES.get(part, part) for part in name.split("."))] = value.float()
    dit.load_state_dict(state)
    return dit.requires_grad_(False)


def pipeline(dit):
    pipe = types.SimpleNamespace(device="cpu", torch_dtype=torch.float32, is_ltx25=False, scheduler=FlowMatchScheduler("LTX-2"), dit=dit, in_iteration_models=("dit",),
                                 model_fn=theirs.model_fn_ltx2, video_patchifier=theirs.VideoLatentPatchifier(patch_size=1), audio_patchifier=theirs.AudioPatchifier(patch_size=1),
                                 generate_noise=lambda *_, **__: None, load_models_to_device=lambda *_: None, preprocess_video=lambda frames: frames,
                                 check_resize_height_width=lambda height, width, frames, **_: (height, width, frames))
    pipe.scheduler.set_timesteps(1000, training=True)
    return pipe


def of_bands(packed):
    """Sound [1, C * bands, N] as [1, C, N, bands]."""
    return packed.unflatten(1, (2, -1)).transpose(2, 3).contiguous()


def beside(pipe, latents):
    """A reference clip with its places."""
    pipe.video_vae_encoder = types.SimpleNamespace(encode=lambda *_: latents)
    frames = [Image.new("RGB", clips.SIZE[::-1])] * clips.FRAMES
    return theirs.LTX2AudioVideoUnit_InContextVideoEmbedder().process(pipe, [frames], *clips.SIZE, clips.FRAMES, RATE, 1, False, 0, 0)


def loss_of(pipe, replay, samples, name, sigmas):
    def of_step(step):
        number = int(replay[f"step.{step}.sample"])
        frames, sound, text, sound_text = samples[number]
        noise, sound_noise = replay[f"step.{step}.noise"][None], of_bands(replay[f"step.{step}.audio_latents_noise"][None])
        index = (pipe.scheduler.sigmas - replay[f"step.{step}.sigma"]).abs().argmin().reshape(1)
        sigmas.append(pipe.scheduler.sigmas[index].item())
        values = theirs.LTX2AudioVideoUnit_NoiseInitializer().process(pipe, *clips.SIZE, clips.FRAMES, 0, "cpu", RATE)
        values |= dict(input_latents=frames, audio_input_latents=of_bands(sound), video_context=text, audio_context=sound_text, video_patchifier=pipe.video_patchifier, audio_patchifier=pipe.audio_patchifier)
        if name == "reference":
            values |= beside(pipe, samples[BESIDE[number]][0])
        drawn = iter((noise, sound_noise))
        with mock.patch("torch.randint", return_value=index), mock.patch("torch.randn_like", side_effect=lambda _: next(drawn)):
            return FlowMatchSFTAudioVideoLoss(pipe, **values)

    return of_step


def main():
    samples, expected = clips.encoded(FAMILY.parts()), {}
    replay = load_file(clips.OUT / "replay.safetensors")
    for step in range(training_loop.STEPS):  # of those that are heard
        if int(replay[f"step.{step}.sample"]) == clips.WITHOUT:
            replay[f"step.{step}.sample"] = torch.tensor(HEARD[step % len(HEARD)])
    for name in ("sounding", "reference"):
        dit, trained = diffsynth_replay.adapted(transformer(), FAMILY.TARGETS, FAMILY.OUT / "lora.safetensors")
        sigmas = []
        losses, norms, _ = training_loop.train(trained, training_loop.STEPS, loss_of(pipeline(dit), replay, samples, name, sigmas))
        expected[name] = {"loss": losses.tolist(), "grad_norm": norms.tolist(), "sigma": sigmas}
    expected["samples"] = [int(replay[f"step.{step}.sample"]) for step in range(training_loop.STEPS)]
    file = clips.OUT.parent / "ltx2_diffsynth.json"
    file.write_text(json.dumps(expected, indent=1) + "\n")
    file.chmod(0o644)
    print(expected)


if __name__ == "__main__":
    main()
