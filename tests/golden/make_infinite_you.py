#!/usr/bin/env python3
"""Small components of InfiniteYou over the pipeline of make_pipeline.py, and what DiffSynth-Studio trains with them, in infinite_you/:

image_proj_model.bin   its projector of faces, in a dictionary of its own as the published file has it
controlnet/            the config.json of a ControlNet as diffusers saves it; its weights are those of flux_extras/controlnet/ without its kinds of control
face_{0,1}.safetensors what ArcFace would make of a face, 512 numbers drawn
metadata.json          the pictures of make_pipeline.py with a face, a control picture and a guidance
expected.safetensors   loss, both.loss: the first steps of make_diffsynth.py's replay, with its LoRA, and with both components trained
"""
import json
import shutil

import torch
from diffsynth.diffusion.base_pipeline import ControlNetInput
from diffsynth.models.flux_infiniteyou import InfiniteYouImageProjector
from diffsynth.pipelines import flux_image
from safetensors.torch import load_file, save_file

import make_flux_extras as extras
import make_pipeline
from make_wild import open_pipe

OUT = make_pipeline.OUT.parent / "infinite_you"


def write_data():
    rows = []
    for i, prompt in enumerate(extras.PROMPTS):
        rows.append({"image": f"../pipeline/pictures/{i}.png", "prompt": prompt, "controlnet_image": f"../pipeline/pictures/{(i + 1) % 4}.png",
                     "infinityou_id_image": f"face_{i % 2}.safetensors", "infinityou_guidance": 1.0 + 0.5 * i})
    for i in range(2):
        face = torch.randn(512)
        save_file({"embedding": face / face.norm()}, OUT / f"face_{i}.safetensors")
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    torch.manual_seed(17)
    rows, pipe = write_data(), open_pipe()
    samples = make_pipeline.encode(pipe, [(f"{i}.png", prompt) for i, prompt in enumerate(extras.PROMPTS)])
    case, expected = extras.Case(samples, pipe), {}
    union = load_file(extras.OUT / "controlnet/diffusion_pytorch_model.safetensors")
    control = extras.control_net(OUT / "controlnet", 64, union, num_single_layers=1, guidance_embeds=True)
    projector = extras.drawn(InfiniteYouImageProjector(dim=8, depth=2, dim_head=64, heads=1, num_queries=3, output_dim=extras.TEXT, ff_mult=2), 1.0)
    torch.save({"image_proj": extras.half(projector.state_dict())}, OUT / "image_proj_model.bin")

    def by_face(module):
        def inputs(which, _):
            row = rows[which]
            given = ControlNetInput(image=extras.Image.open(OUT / row["controlnet_image"]).convert("RGB"))
            face = load_file(OUT / row["infinityou_id_image"])["embedding"]
            id_emb = module.pipe.image_proj_model(face.reshape(1, 1, 512))
            return {"controlnet_inputs": [given], "id_emb": id_emb, "infinityou_guidance": torch.tensor([row["infinityou_guidance"]])} \
                | flux_image.FluxImageUnit_ControlNet().process(module.pipe, [given], False, None, None)
        return inputs

    for both in (False, True):
        module = case.module(lora=not both)
        module.pipe.controlnet = flux_image.MultiControlNet([control.requires_grad_(both)])
        module.pipe.image_proj_model = projector.requires_grad_(both)
        trained = torch.nn.ModuleList([control, projector]) if both else None
        expected["both.loss" if both else "loss"] = case.run(module, by_face(module), trained)
    save_file(expected, OUT / "expected.safetensors")
    for file in OUT.rglob("*.*"):
        file.chmod(0o644)
    print(expected, sum(f.stat().st_size for f in OUT.rglob("*.*")))


if __name__ == "__main__":
    main()
