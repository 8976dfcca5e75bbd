#!/usr/bin/env python3
"""A whole small FLUX.1-dev pipeline with random weights, and what diffusers + peft do with it, in pipeline/:

model/                a diffusers folder, its components in bf16 (tokenizers: those of assets/tiny-flux)
pictures/, metadata.csv   training samples
lora.safetensors, dora.safetensors   adapters as diffusers' save_lora_weights writes them, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,dora,full,lora_diffsynth}.{loss,grad_norm} of ten steps, lora.grad.<name> of the first one,
                      initial noise and the latents after 4 sampling steps: plain, with the LoRA, with true CFG
"""
import csv, pathlib, shutil
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast

import training_loop
from make_encoders import randomise, rounded

HERE = pathlib.Path(__file__).parent
OUT = HERE / "pipeline"
ASSETS = HERE.parent.parent / "assets/tiny-flux"
STEPS, GUIDANCE = 10, 1.0
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "to_add_out", "ff.net.0.proj", "ff.net.2", "proj_mlp", "proj_out"]


def parts():
    torch.manual_seed(0)
    clip_tokens, t5_tokens = CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"), T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2")
    eos = len(clip_tokens) - 1
    clip = randomise(CLIPTextModel(CLIPTextConfig(vocab_size=len(clip_tokens), hidden_size=12, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                                                  max_position_embeddings=clip_tokens.model_max_length, bos_token_id=eos - 1, eos_token_id=eos, pad_token_id=eos)))
    t5 = randomise(T5EncoderModel(T5Config(vocab_size=len(t5_tokens), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")))
    vae = randomise(AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                  block_out_channels=(8, 8, 8, 16), layers_per_block=1, latent_channels=16, norm_num_groups=4, use_quant_conv=False,
                                  use_post_quant_conv=False, shift_factor=0.1, scaling_factor=0.6, force_upcast=False))
    transformer = randomise(FluxTransformer2DModel(patch_size=1, in_channels=64, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
                                                   joint_attention_dim=16, pooled_projection_dim=12, guidance_embeds=True, axes_dims_rope=(4, 6, 6)), 0.7)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096, shift=3.0)
    return FluxPipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(clip), tokenizer=clip_tokens, text_encoder_2=rounded(t5), tokenizer_2=t5_tokens,
                        transformer=rounded(transformer))


def pictures():
    rng = np.random.default_rng(0)
    rows = []
    for i, prompt in enumerate(["red apple", "a cat face, smiling", "tree", "red apple"]):
        small = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(small).resize((64, 48), Image.BILINEAR).save(OUT / "pictures" / f"{i}.png")
        rows.append((f"{i}.png", prompt))
    with open(OUT / "pictures/metadata.csv", "w", newline="") as f:
        csv.writer(f).writerows([("image", "prompt"), *rows])
    return rows


@torch.no_grad()
def encode(pipe, rows):
    samples = []
    for name, prompt in rows:
        x = torch.from_numpy(np.asarray(Image.open(OUT / "pictures" / name))).permute(2, 0, 1)[None].to(pipe.vae.dtype) / 127.5 - 1
        latents = (pipe.vae.encode(x).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor
        text, pooled, ids = pipe.encode_prompt(prompt, prompt_2=prompt, max_sequence_length=pipe.tokenizer_2.model_max_length)
        samples.append((latents, text, pooled, ids))
    return samples


def diffsynth_weight(sigma):
    """DiffSynth-Studio's weights over its 1,000 shifted sigmas: a bell around the middle, its smallest value taken off, mean 1."""
    t = torch.linspace(1, 0.003 / 1.002, 1000, dtype=torch.float64)
    grid = 3 * t / (1 + 2 * t)
    bell = torch.exp(-2 * ((grid * 1000 - 500) / 1000) ** 2)
    shifted = bell - bell.min()
    return (torch.exp(torch.tensor(-2 * (sigma - 0.5) ** 2)) - bell.min()) / shifted.mean()


def train(pipe, samples, replay, parameters, weighting=lambda sigma: 1.0):
    """Losses, gradient norms and the first step's gradients of the plain loop every trainer runs."""
    model = pipe.transformer

    def loss_of(step):
        latents, text, pooled, text_ids = samples[int(replay[f"step.{step}.sample"])]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        noisy = (1 - sigma) * latents + sigma * noise
        b, c, h, w = latents.shape
        prediction = model(hidden_states=FluxPipeline._pack_latents(noisy, b, c, h, w), encoder_hidden_states=text, pooled_projections=pooled, timestep=sigma.reshape(1),
                           guidance=torch.tensor([GUIDANCE]), txt_ids=text_ids, img_ids=FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32),
                           return_dict=False)[0]
        return F.mse_loss(prediction, FluxPipeline._pack_latents(noise - latents, b, c, h, w)) * weighting(float(sigma))

    return training_loop.train(parameters, STEPS, loss_of)


@torch.no_grad()
def sampled(pipe, noise, prompts, **options):
    b, c, h, w = noise.shape
    packed = FluxPipeline._pack_latents(noise, b, c, h, w)
    out = pipe(prompt=prompts, latents=packed, height=h * 8, width=w * 8, num_inference_steps=4, guidance_scale=3.5,
               max_sequence_length=pipe.tokenizer_2.model_max_length, output_type="latent", **options).images
    return FluxPipeline._unpack_latents(out, h * 8, w * 8, 8)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "pictures").mkdir(parents=True)
    pipe = parts()
    pipe.set_progress_bar_config(disable=True)
    parts().to(torch.bfloat16).save_pretrained(OUT / "model")
    for tokenizer in ("tokenizer", "tokenizer_2"):
        shutil.rmtree(OUT / "model" / tokenizer)
    rows = pictures()
    samples = encode(pipe, rows)
    expected = {}

    replay = training_loop.write_replay(OUT / "replay.safetensors", (16, 6, 8), len(rows))
    noise = torch.randn(2, 16, 6, 8)
    prompts = ["red apple", "tree of the north"]
    expected |= {"noise": noise, "latents.plain": sampled(pipe, noise, prompts),
                 "latents.cfg": sampled(pipe, noise, prompts, negative_prompt=["cat", "cat"], true_cfg_scale=2.5)}

    original = {n: p.detach().clone() for n, p in pipe.transformer.named_parameters()}
    pipe.transformer.requires_grad_(True)
    losses, norms, _ = train(pipe, samples, replay, list(pipe.transformer.named_parameters()))
    expected |= {"full.loss": losses, "full.grad_norm": norms}
    pipe.transformer.load_state_dict(original)

    adapter = training_loop.add_adapter(pipe.transformer, TARGETS)
    start = {n: p.detach().clone() for n, p in adapter}
    save_file(training_loop.adapter_state("transformer", pipe.transformer), OUT / "lora.safetensors", metadata={"format": "pt"})
    expected["latents.lora"] = sampled(pipe, noise, prompts)
    pipe.transformer.train()
    for kind, weighting in (("lora", lambda sigma: 1.0), ("lora_diffsynth", diffsynth_weight)):
        pipe.transformer.load_state_dict(start, strict=False)
        losses, norms, first = train(pipe, samples, replay, adapter, weighting)
        expected |= {f"{kind}.loss": losses, f"{kind}.grad_norm": norms}
        if kind == "lora":
            expected |= {"lora.grad." + n.replace(".default", ""): g for n, g in first.items()}
    pipe.transformer.delete_adapters("default")
    adapter = training_loop.add_adapter(pipe.transformer, TARGETS, use_dora=True)
    save_file(training_loop.adapter_state("transformer", pipe.transformer), OUT / "dora.safetensors", metadata={"format": "pt"})
    losses, norms, _ = train(pipe, samples, replay, adapter)
    expected |= {"dora.loss": losses, "dora.grad_norm": norms}
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    print(expected["full.loss"], expected["lora.loss"], expected["lora_diffsynth.loss"], [expected[k].std() for k in expected if k.startswith("latents")])


if __name__ == "__main__":
    main()
