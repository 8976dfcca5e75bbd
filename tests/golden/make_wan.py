#!/usr/bin/env python3
"""A whole small Wan 2.1 text-to-video pipeline with random weights, and what diffusers + peft do with it, in wan_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of assets/tiny-flux
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance; and clip.{noise,latents}: of nine frames
transformer.safetensors  the transformer alone on two clips whose captions differ in length, each filled up with zeros to 12 tokens, as
                      diffusers does: in.<input>, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
"""
import json, os, shutil
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
from transformers import T5TokenizerFast, UMT5Config, UMT5EncoderModel

import family
from make_encoders import randomise, rounded
from make_pipeline import ASSETS

TOKENS = 512  # of a text, as Wan was trained


class Spaced(FlowMatchEulerDiscreteScheduler):
    """Sigmas from 1 to 1/n before the shift, as the pipelines of other families give them to this scheduler."""

    def set_timesteps(self, num_inference_steps, device=None, **options):
        super().set_timesteps(sigmas=np.linspace(1, 1 / num_inference_steps, num_inference_steps), device=device)


Spaced.__name__, Spaced.__module__ = FlowMatchEulerDiscreteScheduler.__name__, FlowMatchEulerDiscreteScheduler.__module__


def walked(noise, velocity, scale=None, first=None):
    """Latents after four steps from noise by velocity(latents, sigma, is_negative=False), for a `scale` with guidance; of clips that go on from
    `first`, the first frame is always that."""
    scheduler = Spaced(shift=5.0)
    scheduler.set_timesteps(4)
    held = lambda latents: latents if first is None else torch.cat([first, latents[:, :, 1:]], 2)
    latents = held(noise)
    for t in scheduler.timesteps:
        sigma = t.reshape(1) / 1000
        prediction = velocity(latents, sigma)
        if scale is not None:
            away = velocity(latents, sigma, is_negative=True)
            prediction = away + scale * (prediction - away)
        latents = held(scheduler.step(prediction, t, latents).prev_sample)
    return latents


class Wan(family.Family):
    OUT = family.HERE / "wan_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "ffn.net.0.proj", "ffn.net.2"]
    PROMPTS = ["red apple", "tree of the north, a cat"]
    LATENTS = (16, 1, 6, 8)
    REPLAYED = torch.bfloat16

    def parts(self):
        torch.manual_seed(0)
        tokens = T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2", model_max_length=TOKENS)
        text = randomise(UMT5EncoderModel(UMT5Config(vocab_size=len(tokens), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)))
        vae = randomise(AutoencoderKLWan(base_dim=4, z_dim=16, dim_mult=[1, 1, 2, 2], num_res_blocks=1), 1.4)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        transformer = randomise(WanTransformer3DModel(num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, text_dim=16, freq_dim=32, ffn_dim=32,
                                                      num_layers=2, rope_max_seq_len=32), 0.7)
        return WanPipeline(scheduler=Spaced(shift=3.0), vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer))

    def open(self):
        pipe = super().open()
        folder = self.OUT / "model/tokenizer"
        shutil.rmtree(folder)
        shutil.copytree(ASSETS / "tokenizer_2", folder)
        vocabulary = folder / "spiece.model"
        vocabulary.unlink()
        vocabulary.symlink_to(os.path.relpath(ASSETS / "tokenizer_2/spiece.model", folder))
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": TOKENS}, indent=2) + "\n")
        return pipe

    @staticmethod
    def scale(vae):
        return [torch.tensor(v)[None, :, None, None, None] for v in (vae.config.latents_mean, vae.config.latents_std)]

    def latents(self, pipe, image):
        mean, std = self.scale(pipe.vae)
        return (pipe.vae.encode(image[:, :, None]).latent_dist.mode() - mean) / std

    def conditions(self, pipe, prompt):
        return (pipe.encode_prompt(prompt, do_classifier_free_guidance=False, max_sequence_length=TOKENS)[0],)

    def predict(self, model, noisy, sigma, caption):
        return model(hidden_states=noisy, encoder_hidden_states=caption, timestep=sigma * 1000, return_dict=False)[0]

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        frames, h, w = noise.shape[2:]
        return pipe(prompt=list(self.PROMPTS), latents=noise, num_frames=(frames - 1) * 4 + 1, height=h * 8, width=w * 8, num_inference_steps=4, output_type="latent",
                    max_sequence_length=TOKENS, **{"guidance_scale": 1.0, **options}).frames

    def drawn(self, pipe, noise):
        clips = torch.randn(2, 16, 3, 6, 8)
        self.clip_noise = clips
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt=["cat", "cat"]), "clip": self.sampled(pipe, clips)}

    def trained_more(self, pipe, adapter, replay):
        return {"clip_noise": self.clip_noise}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma = torch.randn(2, 16, 3, 4, 6), torch.tensor([0.83, 0.21])
        filled = torch.stack([F.pad(c, (0, 0, 0, 12 - len(c))) for c in captions])
        out = self.predict(pipe.transformer, noisy, sigma, filled)
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]}, out, self.OUT / "transformer.safetensors")


FAMILY = Wan()

if __name__ == "__main__":
    FAMILY.write()
