#!/usr/bin/env python3
"""A whole small Qwen-Image-Layered pipeline with random weights, and what diffusers + peft do with it, in qwen_layered_pipeline/:

model/                a folder of QwenImageLayeredPipeline, its components in bf16
layers/               four pictures with two layers each, transparent but for what they show: 0.png (the whole), 0_1.png, 0_2.png, 0.txt (the caption);
                      metadata.json: the same as lists
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, and of the LoRA's without the whole picture among the layers; initial noise and the latents after 4 sampling steps from layers/1.png: plain, with the
                      LoRA, with guidance, with guidance and cfg_normalize
batch.safetensors     the transformer alone on two samples of three layers whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
vae.safetensors       the autoencoder alone: image with transparency, the mean and log-variance of its latents, normalised; latents, and what is decoded
scaled.safetensors    a picture [H, W, 4] and what Pillow scales it to
"""
import json

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLQwenImage, QwenImageLayeredPipeline, QwenImageTransformer2DModel
from diffusers.pipelines.qwenimage import pipeline_qwenimage_layered
from PIL import Image
from safetensors.torch import save_file

import family
from make_encoders import randomise, rounded
from make_qwen_image import QwenImage

CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]
SIZE = (64, 48)  # width, height
# The pipeline knows two areas, both too large here.
pipeline_qwenimage_layered.calculate_dimensions = lambda area, ratio: SIZE


def tensor_of(path):
    """A picture [1, 4, H, W] from -1 to 1."""
    return torch.from_numpy(np.array(Image.open(path).convert("RGBA"))).permute(2, 0, 1)[None].float() / 127.5 - 1


def shown(rng, opaque):
    """A picture with smooth colours, and unless all of it is opaque a box of it, with edges that are half transparent."""
    colours = Image.fromarray(rng.integers(0, 256, (3, 4, 3), dtype=np.uint8)).resize(SIZE, Image.BILINEAR)
    pixels = np.dstack([np.array(colours), np.full((SIZE[1], SIZE[0]), 255, np.uint8)])
    if not opaque:
        top, left = rng.integers(0, 20), rng.integers(0, 30)
        alpha = np.zeros((SIZE[1], SIZE[0]), np.uint8)
        alpha[top:top + 24, left:left + 30] = 128
        alpha[top + 2:top + 22, left + 2:left + 28] = 255
        pixels[..., 3] = alpha
    return Image.fromarray(pixels, "RGBA")


class QwenLayered(QwenImage):
    OUT = family.HERE / "qwen_layered_pipeline"
    TARGETS = QwenImage.TARGETS + ["img_mlp.net.0.proj"]
    LATENTS = (16, 3, 6, 8)
    REPLAYED = torch.bfloat16

    def parts(self):
        pipe = super().parts()
        torch.manual_seed(4)
        vae = randomise(AutoencoderKLQwenImage(base_dim=4, z_dim=16, dim_mult=[1, 1, 2, 2], num_res_blocks=1, input_channels=4), 1.5)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        transformer = randomise(QwenImageTransformer2DModel(in_channels=64, out_channels=16, num_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
                                                            axes_dims_rope=(4, 6, 6), use_additional_t_cond=True, use_layer3d_rope=True), 0.7)
        layered = QwenImageLayeredPipeline(scheduler=pipe.scheduler, vae=rounded(vae), text_encoder=pipe.text_encoder, tokenizer=pipe.tokenizer, processor=None,
                                           transformer=rounded(transformer))
        layered.prompt_template_encode_start_idx = pipe.prompt_template_encode_start_idx
        return layered

    def open(self):
        self.write_layers()
        return super().open()

    def write_layers(self):
        folder, rows, rng = self.OUT / "layers", [], np.random.default_rng(11)
        folder.mkdir()
        for i, caption in enumerate(CAPTIONS):
            back, front = shown(rng, opaque=i % 2 == 0), shown(rng, opaque=False)
            names = [f"{i}.png", f"{i}_1.png", f"{i}_2.png"]
            whole = Image.alpha_composite(Image.alpha_composite(Image.new("RGBA", SIZE, "white"), back), front)
            for name, picture in zip(names, (whole, back, front)):
                (picture.convert("RGB") if picture is whole else picture).save(folder / name, optimize=True)
            (folder / f"{i}.txt").write_text(caption + "\n")
            rows.append({"image": names, "prompt": caption})
        (folder / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")

    def latents(self, pipe, image):
        mean, std = self.scale(pipe.vae)
        return (pipe.vae.encode(image[:, :, None]).latent_dist.mode() - mean) / std

    @torch.no_grad()
    def encode(self, pipe):
        samples = []
        for row in json.loads((self.OUT / "layers/metadata.json").read_text()):
            latents = torch.cat([self.latents(pipe, tensor_of(self.OUT / "layers" / name)) for name in row["image"]], 2)
            samples.append((latents, *self.conditions(pipe, row["prompt"]), latents[:, :, :1]))
        return samples

    @staticmethod
    def pack(x):
        b, c, f, h, w = x.shape
        return QwenImageLayeredPipeline._pack_latents(x.permute(0, 2, 1, 3, 4).contiguous(), b, c, h, w, f)

    @staticmethod
    def unpack_layers(x, layers, rows, columns):
        return QwenImageLayeredPipeline._unpack_latents(x, rows * 8, columns * 8, layers - 1, 8)

    def predict(self, model, noisy, sigma, captions, picture):
        longest = max(len(c) for c in captions)
        text = torch.stack([F.pad(c, (0, 0, 0, longest - len(c))) for c in captions])
        mask = torch.stack([torch.arange(longest) < len(c) for c in captions])
        b, _, f, h, w = noisy.shape
        out = model(torch.cat([self.pack(noisy), self.pack(picture)], 1), encoder_hidden_states=text, encoder_hidden_states_mask=None if mask.all() else mask, timestep=sigma,
                    img_shapes=[[(1, h // 2, w // 2)] * (f + 1)] * b, additional_t_cond=torch.zeros(b, dtype=torch.long), return_dict=False)[0]
        return self.unpack_layers(out[:, :f * h * w // 4], f, h, w).contiguous()

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        layers, h, w = noise.shape[2:]
        last = {}  # the pipeline of 0.42.1 cannot return latents

        def keep(pipe, step, t, values):
            last.update(values)
            return {}

        pipe(image=Image.open(self.OUT / "layers/1.png").convert("RGBA"), prompt=list(self.PROMPTS), latents=self.pack(noise), layers=layers - 1, num_inference_steps=4,
             callback_on_step_end=keep, **{"true_cfg_scale": 1.0, **options})
        return self.unpack_layers(last["latents"], layers, h, w)

    def drawn(self, pipe, noise):
        return super().drawn(pipe, noise) | {"normalized": self.sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt=["cat", "cat"], cfg_normalize=True)}

    def trained_more(self, pipe, adapter, replay):
        """As musubi-tuner trains: layers without the whole picture, on the noise of the others."""
        samples = [(latents[:, :, 1:], captions, picture) for latents, captions, picture in self.encode(pipe)]
        behind = {n: x[:, 1:] if n.endswith("noise") else x for n, x in replay.items()}
        return self.train(pipe, samples, behind, adapter, "without_whole")

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, picture, sigma = torch.randn(2, 16, 3, 4, 6), torch.randn(2, 16, 1, 4, 6), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "picture": picture, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions, picture), self.OUT / "batch.safetensors")
        self.write_autoencoder(pipe)

    @torch.no_grad()
    def write_autoencoder(self, pipe):
        torch.manual_seed(5)
        mean, std = self.scale(pipe.vae)
        image, latents = torch.rand(2, 4, 1, 16, 24) * 2 - 1, torch.randn(1, 16, 1, 2, 3)
        moments = pipe.vae.encode(image).latent_dist
        tensors = {"image": image, "mean": (moments.mean - mean) / std, "logvar": moments.logvar - 2 * std.log(), "latents": latents,
                   "decoded": pipe.vae.decode(latents * std + mean).sample}
        save_file({n: x[:, :, 0].contiguous() for n, x in tensors.items()}, self.OUT / "vae.safetensors")
        picture = Image.open(self.OUT / "layers/1_2.png")
        as_tensor = lambda x: torch.from_numpy(np.array(x))
        save_file({"picture": as_tensor(picture), "scaled": as_tensor(picture.resize((40, 30), Image.BILINEAR))}, self.OUT / "scaled.safetensors")


FAMILY = QwenLayered()

if __name__ == "__main__":
    FAMILY.write()
