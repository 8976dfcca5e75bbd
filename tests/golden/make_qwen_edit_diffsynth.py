#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of the pipeline and rows of make_qwen_edit.py, in qwen_edit_diffsynth/:

replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of eight steps
expected.safetensors  loss of these from qwen_edit_pipeline/lora.safetensors, without weights of its schedule, and zero.loss with zero_cond_t

A cell with one picture is a picture there, and one with several a list, which is how it tells Edit from Edit-2509. Its transformer has the width of Qwen-Image
written into it, so a smaller one is put together here from its blocks, with the GELU that the models were trained with in place of its own. It drops 34 or 64
tokens of the published vocabulary, which are more of the small one.
"""
import json
import shutil

import torch
from diffsynth.models import qwen_image_dit
from diffsynth.pipelines.qwen_image import QwenImagePipeline, QwenImageUnit_EditImageEmbedder, QwenImageUnit_PromptEmbedder
from safetensors.torch import load_file, save_file

import diffsynth_replay
import make_qwen_edit as edit
from make_qwen_image import FAMILY as base

OUT = base.HERE / "qwen_edit_diffsynth"
STEPS = 8


class Gelu(qwen_image_dit.ApproximateGELU):
    def forward(self, x):
        return torch.nn.functional.gelu(self.proj(x), approximate="tanh")


def small_dit(folder=edit.OUT / "model/transformer"):
    qwen_image_dit.ApproximateGELU = Gelu
    config = json.loads((folder / "config.json").read_text())
    heads, head = config["num_attention_heads"], config["attention_head_dim"]
    width, text = heads * head, config["joint_attention_dim"]
    dit = qwen_image_dit.QwenImageDiT.__new__(qwen_image_dit.QwenImageDiT)
    torch.nn.Module.__init__(dit)
    dit.pos_embed = qwen_image_dit.QwenEmbedRope(theta=10000, axes_dim=config["axes_dims_rope"], scale_rope=True)
    dit.time_text_embed = qwen_image_dit.TimestepEmbeddings(256, width, diffusers_compatible_format=True, scale=1000, align_dtype_to_timestep=False)
    dit.txt_norm, dit.img_in, dit.txt_in = qwen_image_dit.RMSNorm(text, eps=1e-6), torch.nn.Linear(64, width), torch.nn.Linear(text, width)
    dit.transformer_blocks = torch.nn.ModuleList([qwen_image_dit.QwenImageTransformerBlock(width, heads, head) for _ in range(config["num_layers"])])
    dit.norm_out, dit.proj_out = qwen_image_dit.AdaLayerNorm(width, single=True), torch.nn.Linear(width, 64)
    dit.load_state_dict({k: v.float() for k, v in load_file(folder / "diffusion_pytorch_model.safetensors").items()})
    return dit.requires_grad_(False)


class Encoder(torch.nn.Module):
    """Of all tokens, whatever the mask leaves out afterwards."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, attention_mask=None, output_hidden_states=True, **inputs):
        return self.model(output_hidden_states=True, **inputs).hidden_states


class Autoencoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def encode(self, image, **_):
        mean, std = base.scale(self.model)
        return ((self.model.encode(image[:, :, None]).latent_dist.mode() - mean) / std)[:, :, 0]


def dropping(process, before, expected):
    """Leaves out of the mask as many tokens of what stands before a prompt as the small vocabulary has more of them."""
    def run(*args, **options):
        out = process(*args, **options)
        out["attention_mask"][:, :before - expected] = 0
        return out
    return run


class Embedder(QwenImageUnit_EditImageEmbedder):
    def calculate_dimensions(self, target_area, ratio):
        return super().calculate_dimensions(edit.AREA, ratio)


def opened_pipe():
    theirs, _, plus = edit.parts()
    pipe = QwenImagePipeline(device="cpu", torch_dtype=torch.float32)
    pipe.dit, pipe.text_encoder, pipe.vae = small_dit(), Encoder(theirs.text_encoder), Autoencoder(theirs.vae)
    pipe.tokenizer = dropping(theirs.tokenizer, theirs.prompt_template_encode_start_idx, 34)
    pipe.processor = dropping(plus.processor, plus.prompt_template_encode_start_idx, 64)
    pipe.scheduler.set_timesteps(1000, training=True)
    pipe.scheduler.training_weight = lambda timestep: 1
    return pipe


@torch.no_grad()
def encode(pipe):
    samples = []
    for i, (caption, names) in enumerate(zip(edit.CAPTIONS, edit.REFERENCES)):
        pictures = edit.opened(names)
        cell = None if not names else pictures[0] if len(names) == 1 else pictures
        shared = {"edit_image": cell, "edit_image_auto_resize": True, "cfg_scale": 1}
        posi = {"prompt": caption}
        for unit in (Embedder(), QwenImageUnit_PromptEmbedder()):
            shared, posi, _ = pipe.unit_runner(unit, pipe, shared, posi, {})
        picture = edit.Image.open(base.PICTURES / f"{i}.png").convert("RGB")
        samples.append(shared | posi | {"input_latents": pipe.vae.encode(pipe.preprocess_image(picture)), "height": picture.height, "width": picture.width})
    return samples


def train(pipe, samples, replay, zero):
    pipe.dit, trained = diffsynth_replay.adapted(small_dit(), base.TARGETS, edit.OUT / "lora.safetensors")
    return diffsynth_replay.train(pipe, trained, replay, STEPS, lambda sample: samples[sample] | {"zero_cond_t": zero})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    pipe = opened_pipe()
    samples = encode(pipe)
    torch.manual_seed(11)
    replay = {}
    for i in range(STEPS):
        index = torch.randint(50, 950, (1,))
        replay |= {f"step.{i}.noise": torch.randn(16, 6, 8), f"step.{i}.sigma": pipe.scheduler.sigmas[index][0].clone(), f"step.{i}.sample": torch.tensor(i * 3 % len(samples))}
    save_file(replay, OUT / "replay.safetensors")
    expected = {"loss": train(pipe, samples, replay, False), "zero.loss": train(pipe, samples, replay, True)}
    save_file(expected, OUT / "expected.safetensors")
    for file in OUT.iterdir():
        file.chmod(0o644)
    print(expected, [s["prompt_emb"].shape for s in samples])


if __name__ == "__main__":
    main()
