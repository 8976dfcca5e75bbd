#!/usr/bin/env python3
"""A small ControlNet for the pipeline of make_qwen_image_21.py, and what DiffSynth-Studio's code makes with it, in qwen_image_21_control/:

control.safetensors   the ControlNet, with blocks beside the first and the third of the transformer's three
metadata.json         the pictures of make_pipeline.py with a control picture, a picture to inpaint and its mask each
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {control,inpaint,both}.{loss,grad_norm} of ten steps, beside the adapter of qwen_image_21_pipeline/: under a control picture, of what is
                      drawn anew, and both; both.whole.{loss,grad_norm}: the ControlNet trains and the adapter is not there; initial noise and the latents after 4
                      sampling steps under the first row's pictures: control, both, both_cfg
alone.safetensors     transformer and ControlNet on the inputs of qwen_image_21_edit/alone.safetensors and in.control: out, out_weight, and
                      grad.<parameter>: digests of the ControlNet's gradients of sum(out * out_weight)

A picture to inpaint is cut and scaled as the program does it, so that its autoencoder sees the same pixels.
"""
import json
import shutil

import torch
from diffsynth.diffusion.base_pipeline import ControlNetInput
from diffsynth.models.qwen_image_21_controlnet import QwenImage21ControlNet
from diffsynth.models.qwen_image_21_dit import QwenImage21DiT
from diffsynth.pipelines.qwen_image_21 import QwenImage21Pipeline, QwenImage21Unit_ControlNetEmbedder, model_fn_qwen_image_21
from PIL import Image
from safetensors.torch import load_file, save_file

import diffsynth_replay
import family
import training_loop
from make_flux_extras import drawn, half
from make_qwen_image_21 import FAMILY as base

OUT = base.HERE / "qwen_image_21_control"
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]
GIVEN = {"control": ("image",), "inpaint": ("inpaint_image", "inpaint_mask"), "both": ("image", "inpaint_image", "inpaint_mask")}


def write_data():
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": caption, "controlnet_image": f"../pipeline/pictures/{(i + 1) % 4}.png",
             "controlnet_inpaint_image": f"../pipeline/pictures/{i}.png", "controlnet_inpaint_mask": f"../flux_extras/white_{i % 2}.png"} for i, caption in enumerate(CAPTIONS)]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def cut(name):
    """The middle of a picture, as large as the small model's."""
    image = Image.open(OUT / name).convert("RGB")
    left, top = (image.width - base.SIZE[1]) // 2, (image.height - base.SIZE[0]) // 2
    return image.crop((left, top, left + base.SIZE[1], top + base.SIZE[0]))


class Autoencoder:
    """diffusers' in the place of DiffSynth-Studio's, whose pictures have four channels."""

    def __init__(self, pipe):
        self.pipe = pipe

    def encode(self, image, **options):
        return self.pipe._encode_vae_image(image[:, :, None], None)[:, :, 0]


@torch.no_grad()
def control_of(pipe, row, names):
    peer = QwenImage21Pipeline(device="cpu", torch_dtype=torch.float32)
    peer.vae = Autoencoder(pipe)
    given = ControlNetInput(**{name: cut(row[f"controlnet_{name}"]) for name in names})
    control = QwenImage21Unit_ControlNetEmbedder().process(peer, [given], *base.SIZE, False, None, None)["control_context"]
    return control[..., -33:] if "image" not in names else control[..., :33]  # what is not given are zeros for 64 channels, whatever the autoencoder has


def dit(pipe):
    config = pipe.transformer.config
    names = ("in_channels", "out_channels", "num_layers", "attention_head_dim", "num_attention_heads", "context_in_dim", "axes_dims_rope")
    model = QwenImage21DiT(**{name: config[name] for name in names})
    model.load_state_dict(pipe.transformer.state_dict())
    return model.requires_grad_(False)


def predict(model, net, noisy, sigma, text, control, references=(), pictured=None):
    pictured = torch.zeros(len(text), dtype=torch.bool) if pictured is None else pictured
    return model_fn_qwen_image_21(model, noisy, sigma.reshape(1) * 1000, text[None], None, pictured[None], list(references) or None, controlnet=net, control_context=control)


def write_alone(pipe, net):
    inputs = load_file(base.HERE / "qwen_image_21_edit/alone.safetensors")
    torch.manual_seed(17)
    control, model, out = torch.randn(2, 33, 2, 6), dit(pipe), []
    for i in range(2):
        texts, pictured = [], []
        for number in range(2):
            reference, before = inputs[f"in.reference.{number}"][i:i + 1], inputs[f"in.between.{number}"][i]
            count = reference[0, 0].numel() // 4
            texts += [before, torch.zeros(count, 16)]
            pictured += [False] * len(before) + [True] * count
        caption = inputs[f"in.caption.{i}"]
        out.append(predict(model, net, inputs["in.noisy"][i:i + 1], inputs["in.sigma"][i], torch.cat([*texts, caption]), control[i:i + 1].flatten(2).transpose(1, 2),
                           [inputs[f"in.reference.{number}"][i:i + 1] for number in range(2)], torch.tensor(pictured + [False] * len(caption))))
    family.save_alone(net, {"control": control}, torch.cat(out), OUT / "alone.safetensors")


@torch.no_grad()
def sampled(pipe, net, control, noise, **options):
    """By diffusers' pipeline, with DiffSynth-Studio's transformer in it."""
    model, forward = dit(pipe), pipe.transformer.forward

    def call(hidden_states, timestep, encoder_hidden_states, encoder_hidden_states_mask, img_shapes, img_mask, **others):
        return (model(hidden_states, encoder_hidden_states, timestep, img_shapes, img_mask, encoder_hidden_states_mask, controlnet=net, control_context=control),)

    pipe.transformer.forward = call
    latents = base.sampled(pipe, noise, use_kv_cache=False, **options)
    pipe.transformer.forward = forward
    return latents


def train(pipe, net, samples, replay, whole):
    model = dit(pipe)
    net.requires_grad_(whole)
    if whole:
        trained = list(net.named_parameters())
    else:
        model, trained = diffsynth_replay.adapted(model, base.TARGETS, base.OUT / "lora.safetensors")
    return training_loop.train_velocity(lambda noisy, sigma, text, control: predict(model, net, noisy, sigma, text, control), samples, replay, trained)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    rows, pipe = write_data(), base.parts()
    pipe.set_progress_bar_config(disable=True)
    torch.manual_seed(23)
    net = drawn(QwenImage21ControlNet(control_layers=(0, 2), control_in_dim=33, dim=32, num_attention_heads=2, attention_head_dim=16), 0.5)
    save_file(half(net.state_dict()), OUT / "control.safetensors")
    write_alone(pipe, net.requires_grad_(True))
    original = {name: value.clone() for name, value in net.state_dict().items()}
    replay = training_loop.write_replay(OUT / "replay.safetensors", base.LATENTS, len(rows), base.REPLAYED)
    noise, expected = torch.randn(2, *base.LATENTS), {}
    for name, given in GIVEN.items():
        with torch.no_grad():
            samples = [(base.latents(pipe, family.tensor_of(OUT / row["image"])), *base.conditions(pipe, row["prompt"]), control_of(pipe, row, given)) for row in rows]
        for whole in (False, True)[:1 + (name == "both")]:
            label = name + (".whole" if whole else "")
            expected[f"{label}.loss"], expected[f"{label}.grad_norm"], _ = train(pipe, net, samples, replay, whole)
            net.load_state_dict(original)
    for name in ("control", "both"):
        expected[f"latents.{name}"] = sampled(pipe, net, control_of(pipe, rows[0], GIVEN[name]), noise)
    expected["latents.both_cfg"] = sampled(pipe, net, control_of(pipe, rows[0], GIVEN["both"]), noise, true_cfg_scale=2.5, negative_prompt="cat")
    save_file({name: x.contiguous() for name, x in (expected | {"noise": noise}).items()}, OUT / "expected.safetensors")
    for file in OUT.iterdir():
        file.chmod(0o644)
    print({k: v for k, v in expected.items() if k.endswith("loss")}, {k: v.std().item() for k, v in expected.items() if k.startswith("latents")},
          sum(f.stat().st_size for f in OUT.iterdir()))


if __name__ == "__main__":
    main()
