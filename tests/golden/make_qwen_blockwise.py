#!/usr/bin/env python3
"""Small blockwise ControlNets for the pipeline of make_qwen_image.py, and what DiffSynth-Studio's code trains with them, in qwen_blockwise/:

control.safetensors, inpaint.safetensors   the ControlNets, of which the second reads a mask as well
metadata.json         the pictures of make_pipeline.py with a control picture and a mask each
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {control,inpaint}.loss: of these with the LoRA of qwen_image_pipeline/, without weights of its schedule; {control,inpaint}.whole.loss: the
                      ControlNet trains and the LoRA is not there; block.{image,control,out}: the second block of control.safetensors alone
"""
import json
import shutil

import torch
from diffsynth.diffusion.base_pipeline import ControlNetInput
from diffsynth.models.qwen_image_controlnet import QwenImageBlockWiseControlNet
from diffsynth.pipelines.qwen_image import QwenImageBlockwiseMultiControlNet, QwenImagePipeline, QwenImageUnit_BlockwiseControlNet, QwenImageUnit_PromptEmbedder
from PIL import Image
from safetensors.torch import save_file

import diffsynth_replay
import make_qwen_edit_diffsynth as peer
from make_qwen_image import FAMILY as base
from make_flux_extras import drawn, half

OUT = base.HERE / "qwen_blockwise"
FLUX = base.HERE / "flux_extras"
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]


def write_data():
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": caption, "blockwise_controlnet_image": f"../pipeline/pictures/{(i + 1) % 4}.png",
             "blockwise_controlnet_inpaint_mask": f"../flux_extras/white_{i % 2}.png"} for i, caption in enumerate(CAPTIONS)]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def opened(name):
    return Image.open(OUT / name).convert("RGB")


def dit():
    return peer.small_dit(base.OUT / "model/transformer")


def opened_pipe():
    theirs = base.parts()
    pipe = QwenImagePipeline(device="cpu", torch_dtype=torch.float32)
    pipe.text_encoder, pipe.vae = peer.Encoder(theirs.text_encoder), peer.Autoencoder(theirs.vae)
    pipe.tokenizer = peer.dropping(theirs.tokenizer, theirs.prompt_template_encode_start_idx, 34)
    pipe.scheduler.set_timesteps(1000, training=True)
    pipe.scheduler.training_weight = lambda timestep: 1
    return pipe


@torch.no_grad()
def encode(pipe, rows, masked):
    samples = []
    for row in rows:
        shared, posi = {"cfg_scale": 1, "edit_image": None}, {"prompt": row["prompt"]}
        shared, posi, _ = pipe.unit_runner(QwenImageUnit_PromptEmbedder(), pipe, shared, posi, {})
        mask = {"inpaint_mask": opened(row["blockwise_controlnet_inpaint_mask"])} if masked else {}
        given = [ControlNetInput(image=opened(row["blockwise_controlnet_image"]), **mask)]
        control = QwenImageUnit_BlockwiseControlNet().process(pipe, given, False, None, None)
        picture = opened(row["image"])
        samples.append(shared | posi | control | {"blockwise_controlnet_inputs": given, "input_latents": pipe.vae.encode(pipe.preprocess_image(picture)),
                                                  "height": picture.height, "width": picture.width})
    return samples


def train(pipe, samples, replay, net, whole):
    pipe.blockwise_controlnet = QwenImageBlockwiseMultiControlNet([net.requires_grad_(whole)])
    if whole:
        pipe.dit, trained = dit(), list(net.named_parameters())
    else:
        pipe.dit, trained = diffsynth_replay.adapted(dit(), base.TARGETS, base.OUT / "lora.safetensors")
    return diffsynth_replay.train(pipe, trained, replay, base.STEPS, samples.__getitem__)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    rows, pipe = write_data(), opened_pipe()
    pipe.dit = dit()
    pipe.in_iteration_models = ("dit", "blockwise_controlnet")
    torch.manual_seed(23)
    replay = {}
    for i in range(base.STEPS):
        index = torch.randint(50, 950, (1,))
        replay |= {f"step.{i}.noise": torch.randn(16, 6, 8), f"step.{i}.sigma": pipe.scheduler.sigmas[index][0].clone(), f"step.{i}.sample": torch.tensor(i * 3 % len(rows))}
    save_file(replay, OUT / "replay.safetensors")
    expected = {}
    for name, more in (("control", 0), ("inpaint", 4)):
        net = drawn(QwenImageBlockWiseControlNet(num_layers=3, in_dim=64, additional_in_dim=more, dim=32), 0.5)
        save_file(half(net.state_dict()), OUT / f"{name}.safetensors")
        if not more:
            image, control = torch.randn(1, 12, 32), torch.randn(1, 12, 64)
            with torch.no_grad():
                out = image + net.blockwise_forward(image, net.process_controlnet_conditioning(control), 1)
            expected |= {"block.image": image, "block.control": control, "block.out": out}
        samples = encode(pipe, rows, more > 0)
        expected[f"{name}.loss"] = train(pipe, samples, replay, net, False)
        expected[f"{name}.whole.loss"] = train(pipe, samples, replay, net, True)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.iterdir():
        file.chmod(0o644)
    print({k: v for k, v in expected.items() if k.endswith("loss")}, sum(f.stat().st_size for f in OUT.iterdir()))


if __name__ == "__main__":
    main()
