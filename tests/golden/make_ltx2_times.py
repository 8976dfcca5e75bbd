#!/usr/bin/env python3
"""Golden file of LTX-2.5's times: its small transformer of make_ltx2.py with the first frame given, whose tokens have the time 0 in the attention between
frames and sound as well, while gates of that attention have the time of the other stream. diffusers has one switch for both, so that the gate of frames
is given its time here. DiffSynth-Studio's LTXModel with use_tokenwise_av_ca_scale_shift (2.1.12) gives the same numbers to 2e-7.

ltx2_times_25.safetensors: in.<input>, out and sound, and grad.<parameter>: the digest of the gradient of sum(out * out_weight) + sum(sound * sound_weight);
                           crossed.out as all versions before have it, with the time of the other stream for scales and shifts too.
"""
import json
import torch
from diffusers import LTX2VideoTransformer3DModel
from safetensors import safe_open
from safetensors.torch import save_file

from digest import digest
from family import HERE
from make_ltx2 import LTX2, RATE

FRAMES, HEIGHT, WIDTH = 3, 2, 3


def load():
    with safe_open(HERE / "ltx2_pipeline/version_25.safetensors", "pt") as file:
        config = json.loads(file.metadata()["config"])
        weights = {name[2:]: file.get_tensor(name).float() for name in file.keys() if name.startswith("w.")}
    model = LTX2VideoTransformer3DModel(**{k: v for k, v in config.items() if not k.startswith("_")})
    model.load_state_dict(weights)
    return model


def at_time(layers, sigma):
    """Has a module that embeds times embed this one, whatever it is given."""
    forward = layers.forward
    layers.forward = lambda timestep, **more: forward(sigma * 1000, **more)


def predict(model, inputs, crossed):
    noisy, sigma, count = inputs["noisy"], inputs["sigma"], HEIGHT * WIDTH
    timestep = (sigma * 1000).view(-1, 1).repeat(1, FRAMES * count)
    timestep[:, :count] = 0
    marks = (torch.arange(FRAMES * count) < count).float().view(1, -1, 1)
    out, sound = model(hidden_states=noisy.flatten(2).transpose(1, 2), audio_hidden_states=inputs["sound"].transpose(1, 2), encoder_hidden_states=inputs["text"],
                       audio_encoder_hidden_states=inputs["sound_text"], timestep=timestep, audio_timestep=sigma * 1000, sigma=sigma * 1000, audio_sigma=sigma * 1000, num_frames=FRAMES,
                       height=HEIGHT, width=WIDTH, fps=RATE, audio_num_frames=inputs["sound"].shape[2], use_cross_timestep=crossed, video_keyframes_mask=marks, return_dict=False)
    return out.transpose(1, 2).unflatten(2, (FRAMES, HEIGHT, WIDTH)), sound.transpose(1, 2)


def main():
    model = load()
    torch.manual_seed(7)
    inputs = LTX2.inputs(16, 8)
    with torch.no_grad():
        crossed = predict(model, inputs, crossed=True)[0]
    at_time(model.av_cross_attn_video_a2v_gate, inputs["sigma"])
    out, sound = predict(model, inputs, crossed=False)
    weights = torch.randn_like(out), torch.randn_like(sound)
    ((out * weights[0]).sum() + (sound * weights[1]).sum()).backward()
    tensors = {f"in.{n}": x for n, x in inputs.items()} | {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters() if p.grad is not None}
    tensors |= {"out": out.detach(), "sound": sound.detach(), "out_weight": weights[0], "sound_weight": weights[1], "crossed.out": crossed}
    save_file({n: x.contiguous() for n, x in tensors.items()}, HERE / "ltx2_times_25.safetensors")


if __name__ == "__main__":
    main()
