#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of small transformers of Wan that read more than a prompt -> wan_control.safetensors

Parameters and inputs are sines, by name and place (sines below), so that no file holds them.
control   52 channels and a reference picture: out, grad.<parameter>: the digest of the gradient of sum(out * out)
camera    36 channels and rays of a camera: the same
motion    16 channels and a motion controller: the same, of the controller alone
rays.{wide,tall}  rays of five frames as the transformer takes them, of a camera that goes LeftUp, and In
"""
import pathlib
import numpy as np
import torch
from diffsynth.models.wan_video_dit import WanModel
from diffsynth.models.wan_video_motion_controller import WanMotionControllerModel
from diffsynth.pipelines.wan_video import model_fn_wan_video
from safetensors.torch import save_file

from digest import digest

SIZES = dict(dim=24, ffn_dim=32, out_dim=16, text_dim=16, freq_dim=32, eps=1e-6, patch_size=(1, 2, 2), num_heads=2, num_layers=2, has_image_input=False)


def sines(name, shape, scale=1.0):
    """Numbers of a name: scale * sin(sum of its letters + 0.7 * place)."""
    places = np.arange(int(np.prod(shape)), dtype=np.float64)
    return torch.from_numpy((scale * np.sin(sum(name.encode()) + 0.7 * places)).astype(np.float32)).reshape(shape)


def filled(model):
    for name, p in model.named_parameters():
        is_norm = ".norm" in name and name.endswith("weight")
        fan = p[0].numel() if p.dim() > 1 and not name.endswith("modulation") else 100
        p.data = 1 + sines(name, p.shape, 0.1) if is_norm else sines(name, p.shape, fan**-0.5)
    return model


def outcome(name, model, expected, **inputs):
    dit = inputs["dit"]
    out = model_fn_wan_video(latents=sines("latents", (1, 16, 2, 4, 6)), timestep=torch.tensor([300.0]), context=sines("context", (1, 12, 16)), **inputs)
    (out * out).sum().backward()
    expected[f"{name}.out"] = out.detach().contiguous()
    for n, p in model.named_parameters():
        expected[f"{name}.grad.{n}"] = digest(p.grad)
    dit.zero_grad()


def rays_of(height, width, direction, speed):
    """As WanVideoUnit_FunCameraControl makes them of five frames."""
    from diffsynth.models.wan_video_camera_controller import SimpleAdapter

    with torch.device("meta"):
        adapter = SimpleAdapter(24, 8, (2, 2), (2, 2))
    rays = adapter.process_camera_coordinates(direction, 5, height, width, speed).permute(3, 0, 1, 2)[None]
    rays = torch.cat([rays[:, :, :1].repeat_interleave(4, 2), rays[:, :, 1:]], 2).transpose(1, 2)
    b, f, c, h, w = rays.shape
    return rays.reshape(b, f // 4, 4, c, h, w).transpose(2, 3).reshape(b, f // 4, c * 4, h, w).transpose(1, 2).contiguous()


expected = {}
dit = filled(WanModel(in_dim=52, has_ref_conv=True, require_clip_embedding=False, **SIZES))
outcome("control", dit, expected, dit=dit, y=sines("beside", (1, 36, 2, 4, 6)), reference_latents=sines("reference", (1, 16, 1, 4, 6)))
dit = filled(WanModel(in_dim=36, add_control_adapter=True, require_clip_embedding=False, **SIZES))
rays = rays_of(32, 48, "LeftUp", 0.02)
outcome("camera", dit, expected, dit=dit, y=sines("beside", (1, 20, 2, 4, 6)), control_camera_latents_input=rays)
dit, motion = filled(WanModel(in_dim=16, **SIZES)), filled(WanMotionControllerModel(freq_dim=32, dim=24))
outcome("motion", motion, expected, dit=dit, motion_controller=motion, motion_bucket_id=torch.tensor([40.0]))
expected["rays.wide"], expected["rays.tall"] = rays_of(4, 8, "LeftUp", 0.02), rays_of(8, 4, "In", 0.3)
save_file(expected, pathlib.Path(__file__).parent / "wan_control.safetensors")
print({n: x.std().item() for n, x in expected.items() if "grad" not in n})
