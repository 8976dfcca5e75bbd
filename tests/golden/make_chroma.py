#!/usr/bin/env python3
"""A whole small Chroma pipeline with random weights, and what diffusers + peft do with it, in chroma_pipeline/:

model/                a diffusers folder, its components in bf16, with T5's tokenizer of assets/tiny-flux
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with guidance
transformer.safetensors  the transformer alone on two samples whose captions differ in length: in.<input>, out, out_weight, and grad.<parameter>: the digest of the
                      gradient of sum(out * out_weight)

diffusers adds the mask of a caption to the scores of attention where the model leaves tokens out, so what the mask is 0 on is cut off here. What it makes of the numbers
of modulation vectors is computed in fp64 here, since their angles are large.
"""
import csv
import shutil

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, ChromaPipeline, ChromaTransformer2DModel, FlowMatchEulerDiscreteScheduler
from PIL import Image
from safetensors.torch import save_file
from transformers import T5Config, T5EncoderModel, T5TokenizerFast

import make_pipeline
import make_qwen_image as qwen
import training_loop
from digest import digest
from make_encoders import randomise

OUT = make_pipeline.HERE / "chroma_pipeline"
STEPS = 10
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "to_add_out", "ff.net.0.proj", "ff.net.2", "proj_mlp", "proj_out"]
PROMPTS = ["red apple", "tree of the north, a cat"]


class Cut(ChromaPipeline):
    def _get_t5_prompt_embeds(self, *args, **options):
        embeds, mask = super()._get_t5_prompt_embeds(*args, **options)
        count = int(mask.sum())
        return embeds[:, :count], mask[:, :count]


def numbers(model):
    count, channels = model.time_text_embed.mod_proj.shape
    half = channels // 2
    angles = torch.arange(count, dtype=torch.float64)[:, None] * 1000 * torch.exp(-np.log(10000.0) / half * torch.arange(half, dtype=torch.float64))
    model.time_text_embed.mod_proj = torch.cat([angles.cos(), angles.sin()], -1).float()
    return model


def parts():
    torch.manual_seed(0)
    tokens = T5TokenizerFast.from_pretrained(make_pipeline.ASSETS / "tokenizer_2")
    t5 = randomise(T5EncoderModel(T5Config(vocab_size=len(tokens), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")))
    vae = randomise(AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                  block_out_channels=(8, 8, 16, 16), layers_per_block=1, latent_channels=16, norm_num_groups=4, use_quant_conv=False,
                                  use_post_quant_conv=False, shift_factor=0.1, scaling_factor=0.6, force_upcast=False))
    transformer = randomise(ChromaTransformer2DModel(in_channels=64, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
                                                     axes_dims_rope=(4, 6, 6), approximator_num_channels=16, approximator_hidden_dim=24, approximator_layers=2), 0.7)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift=3.0)
    pipe = Cut(scheduler=scheduler, vae=qwen.rounded(vae), text_encoder=qwen.rounded(t5), tokenizer=tokens, transformer=numbers(qwen.rounded(transformer)))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def predict(model, noisy, sigma, caption):
    h, w = noisy.shape[2:]
    out = model(hidden_states=ChromaPipeline._pack_latents(noisy, *noisy.shape), encoder_hidden_states=caption, timestep=sigma, txt_ids=torch.zeros(caption.shape[1], 3),
                img_ids=ChromaPipeline._prepare_latent_image_ids(1, h // 2, w // 2, "cpu", torch.float32), return_dict=False)[0]
    return ChromaPipeline._unpack_latents(out, h * 8, w * 8, 8)


@torch.no_grad()
def encode(pipe):
    samples = []
    for row in csv.DictReader(open(qwen.PICTURES / "metadata.csv")):
        x = torch.from_numpy(np.array(Image.open(qwen.PICTURES / row["image"]))).permute(2, 0, 1)[None].float() / 127.5 - 1
        latents = (pipe.vae.encode(x).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor
        samples.append((latents, pipe._get_t5_prompt_embeds(row["prompt"], max_sequence_length=pipe.tokenizer.model_max_length, device="cpu")[0]))
    return samples


def train(pipe, samples, replay, parameters):
    def loss_of(step):
        latents, caption = samples[int(replay[f"step.{step}.sample"])]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        return F.mse_loss(predict(pipe.transformer, (1 - sigma) * latents + sigma * noise, sigma.reshape(1), caption), noise - latents)

    return training_loop.train(parameters, STEPS, loss_of)


@torch.no_grad()
def sampled(pipe, noise, **options):
    out = []
    for prompt, latents in zip(PROMPTS, noise):
        c, h, w = latents.shape
        image = pipe(prompt=prompt, latents=ChromaPipeline._pack_latents(latents[None], 1, c, h, w), height=h * 8, width=w * 8, num_inference_steps=4,
                     max_sequence_length=pipe.tokenizer.model_max_length, output_type="latent", **{"guidance_scale": 1.0, **options}).images
        out.append(ChromaPipeline._unpack_latents(image, h * 8, w * 8, 8))
    return torch.cat(out)


def transformer_alone(model):
    torch.manual_seed(3)
    captions = [torch.randn(5, 16), torch.randn(9, 16)]
    noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
    out = torch.cat([predict(model, noisy[i:i + 1], sigma[i:i + 1], captions[i][None]) for i in range(2)])
    out_weight = torch.randn_like(out)
    (out * out_weight).sum().backward()
    tensors = {"in.noisy": noisy, "in.sigma": sigma, "in.caption.0": captions[0], "in.caption.1": captions[1], "out": out.detach(), "out_weight": out_weight}
    save_file(tensors | {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters()}, OUT / "transformer.safetensors")
    model.zero_grad()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    parts().to(torch.bfloat16).save_pretrained(OUT / "model")
    shutil.rmtree(OUT / "model/tokenizer")
    shutil.copytree(make_pipeline.ASSETS / "tokenizer_2", OUT / "model/tokenizer")
    pipe = parts()  # of which nothing was rounded but the parameters
    transformer_alone(pipe.transformer)
    samples = encode(pipe)
    torch.manual_seed(7)
    replay = {}
    for i in range(STEPS):
        replay |= {f"step.{i}.noise": torch.randn(16, 6, 8), f"step.{i}.sigma": torch.rand(()) * 0.9 + 0.05, f"step.{i}.sample": torch.tensor(i * 3 % len(samples))}
    save_file(replay, OUT / "replay.safetensors")
    noise = torch.randn(2, 16, 6, 8)
    expected = {"noise": noise, "latents.plain": sampled(pipe, noise), "latents.cfg": sampled(pipe, noise, guidance_scale=2.5, negative_prompt="cat")}
    original = {n: p.detach().clone() for n, p in pipe.transformer.named_parameters()}
    expected["full.loss"], expected["full.grad_norm"], _ = train(pipe, samples, replay, list(pipe.transformer.named_parameters()))
    pipe.transformer.load_state_dict(original)
    adapter = training_loop.add_adapter(pipe.transformer, TARGETS)
    save_file(training_loop.adapter_state("transformer", pipe.transformer), OUT / "lora.safetensors", metadata={"format": "pt"})
    expected["latents.lora"] = sampled(pipe, noise)
    expected["lora.loss"], expected["lora.grad_norm"], _ = train(pipe, samples, replay, adapter)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print(expected["full.loss"], expected["lora.loss"], [(k, v.std()) for k, v in expected.items() if k.startswith("latents")], [s[1].shape for s in samples])


if __name__ == "__main__":
    main()
