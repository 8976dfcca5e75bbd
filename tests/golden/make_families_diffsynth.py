#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of the pipelines, pictures and replays of make_zimage.py and make_flux2.py:

families_diffsynth.safetensors   {zimage,flux2}.loss of ten steps of each pipeline's lora.safetensors, and flux2.references.loss with its reference
                                 pictures; without weights of its schedule

Prompts, reference pictures, noise, target and loss go through its units and its loss. Its transformers are built as small as the pipelines' and take their weights as they are; the
encoders and autoencoders inside are the pipelines' own.
"""
import csv
import json

import torch
from diffsynth.models import z_image_dit
from diffsynth.models.flux2_dit import Flux2DiT
from diffsynth.pipelines import flux2_image, z_image
from PIL import Image
from safetensors.torch import load_file, save_file

import diffsynth_replay
from make_flux2 import FAMILY as flux2
from make_zimage import FAMILY as zimage


class Calling(torch.nn.Module):
    """A model that is called in another way."""

    def __init__(self, **calls):
        super().__init__()
        for name, call in calls.items():
            setattr(self, name, call)


class TimestepEmbedder(z_image_dit.TimestepEmbedder):
    """In the dtype of its weights, where its own rounds to bf16 whatever they are."""

    def forward(self, t):
        return self.mlp(self.timestep_embedding(t, self.frequency_embedding_size).to(self.mlp[0].weight.dtype))


class Zimage:
    golden, targets = zimage, zimage.TARGETS

    def open(self):
        theirs = zimage.parts()
        pipe = z_image.ZImagePipeline(device="cpu", torch_dtype=torch.float32)
        pipe.tokenizer, pipe.text_encoder = theirs.tokenizer, theirs.text_encoder.model
        config = theirs.vae.config
        pipe.vae_encoder = Calling(forward=lambda image: (theirs.vae.encode(image).latent_dist.mode() - config.shift_factor) * config.scaling_factor)
        return pipe

    def dit(self):
        z_image_dit.TimestepEmbedder = TimestepEmbedder
        config = json.loads((zimage.OUT / "model/transformer/config.json").read_text())
        names = ("dim", "n_layers", "n_refiner_layers", "n_heads", "n_kv_heads", "cap_feat_dim", "axes_dims", "axes_lens")
        return loaded(z_image_dit.ZImageDiT(**{name: config[name] for name in names}), zimage)


class Flux2:
    golden, targets = flux2, flux2.TARGETS

    def open(self):
        theirs = flux2.parts()
        theirs.image_processor.check_image_input = lambda image: image
        pipe = flux2_image.Flux2ImagePipeline(device="cpu", torch_dtype=torch.float32)
        pipe.tokenizer, pipe.text_encoder_qwen3 = theirs.tokenizer, theirs.text_encoder.model
        pipe.vae = Calling(encode=lambda image: theirs._encode_vae_image(image, None))
        return pipe

    def dit(self):
        config = json.loads((flux2.OUT / "model/transformer/config.json").read_text())
        names = ("in_channels", "num_layers", "num_single_layers", "attention_head_dim", "num_attention_heads", "joint_attention_dim", "axes_dims_rope", "guidance_embeds")
        return loaded(Flux2DiT(**{name: config[name] for name in names}), flux2)


def loaded(dit, golden):
    files = sorted((golden.OUT / "model/transformer").glob("*.safetensors"))
    dit.load_state_dict({name: value.float() for file in files for name, value in load_file(file).items()})
    return dit.requires_grad_(False)


@torch.no_grad()
def encode(pipe, references):
    """All that its units make of every row, but for noise."""
    samples = []
    for number, row in enumerate(csv.DictReader(open(zimage.PICTURES / "metadata.csv"))):
        picture = Image.open(zimage.PICTURES / row["image"]).convert("RGB")
        edit = [Image.open(flux2.HERE / "references" / name).convert("RGB") for name in references[number]] or None
        shared = {"input_image": picture, "height": picture.height, "width": picture.width, "edit_image": edit, "edit_image_auto_resize": False, "cfg_scale": 1,
                  "embedded_guidance": 1.0, "noise": None, "rand_device": "cpu", "seed": 0}
        posi = {"prompt": row["prompt"]}
        for unit in pipe.units:
            if "Noise" not in type(unit).__name__ and "ControlNet" not in type(unit).__name__:
                shared, posi, _ = pipe.unit_runner(unit, pipe, shared, posi, {})
        samples.append({name: value for name, value in (shared | posi).items() if name not in ("noise", "latents")})
    return samples


def train(pipe, family, samples):
    golden = family.golden
    pipe.dit, trained = diffsynth_replay.adapted(family.dit(), family.targets, golden.OUT / "lora.safetensors")
    replay = load_file(golden.OUT / "replay.safetensors")
    pipe.scheduler.sigmas = torch.stack([replay[f"step.{step}.sigma"] for step in range(golden.STEPS)])
    pipe.scheduler.timesteps = 1000 * pipe.scheduler.sigmas
    pipe.scheduler.training_weight = lambda timestep: 1
    return diffsynth_replay.train(pipe, trained, replay, golden.STEPS, samples.__getitem__)


def main():
    none, expected = [[]] * 4, {}
    for name, family, references in (("zimage", Zimage(), none), ("flux2", Flux2(), none), ("flux2.references", Flux2(), flux2.REFERENCES)):
        pipe = family.open()
        pipe.scheduler.training = True
        expected[name + ".loss"] = train(pipe, family, encode(pipe, references))
    for name, losses in expected.items():
        of = "references" if "references" in name else "lora"
        theirs = load_file((zimage if name.startswith("z") else flux2).OUT / "expected.safetensors")[of + ".loss"]
        print(name, losses, "largest difference from diffusers'", ((losses - theirs).abs() / theirs).max().item())
    file = zimage.HERE / "families_diffsynth.safetensors"
    save_file(expected, file)
    file.chmod(0o644)


if __name__ == "__main__":
    main()
