#!/usr/bin/env python3
"""What diffusers + peft do with the small pipelines of make_stable_diffusion.py, beside each in sdxl_pipeline/ and sd15_pipeline/:

lora.safetensors, dora.safetensors   adapters as diffusers' save_lora_weights writes them, rank 4, alpha 2; dora on half of the layers
replay.safetensors    step.{i}.noise, step.{i}.timestep, step.{i}.sample of ten steps
noise.safetensors     noise and step_noise, with which pictures are drawn
expected.safetensors  <run>.{loss,grad_norm} of ten steps of every run (full, lora, dora and their variants);
                      latents.<case> after 5 sampling steps

Pictures are those of pipeline/ (64 by 48): for SDXL cut to 64 by 40, so that the cut is part of what it is told; for SD 1.5 scaled and cut to 192 by 128,
since its lowest level, an eighth of the latents, must not be a single place: group norms over two numbers amplify rounding without bound.
"""
import csv, pathlib
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import (DDIMScheduler, DDPMScheduler, DPMSolverMultistepScheduler, EulerAncestralDiscreteScheduler, EulerDiscreteScheduler, StableDiffusionPipeline,
                       StableDiffusionXLPipeline)
from diffusers.schedulers import scheduling_euler_ancestral_discrete as ancestral
from diffusers.training_utils import compute_snr
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPTokenizer

import training_loop

HERE = pathlib.Path(__file__).parent
TOKENS = HERE.parent.parent / "assets/tiny-flux/tokenizer"
SIZES, STEPS = {"sdxl_pipeline": (40, 64), "sd15_pipeline": (128, 192)}, 10
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj", "ff.net.2"]
PROMPTS = ["red apple", "tree of the north"]
LONG = "red apple and a cat face, smiling, tree of the north, red apple, a cat, green tree, blue sea, yellow sun, cat and apple"


def open_pipe(name, dtype=torch.float32):
    xl = name == "sdxl_pipeline"
    words = CLIPTokenizer.from_pretrained(TOKENS)
    kind = StableDiffusionXLPipeline if xl else StableDiffusionPipeline
    pipe = kind.from_pretrained(HERE / name / "model", tokenizer=words, torch_dtype=dtype, **(dict(tokenizer_2=CLIPTokenizer.from_pretrained(TOKENS, pad_token="!")) if xl else dict(safety_checker=None)))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def rows():
    with open(HERE / "pipeline/pictures/metadata.csv") as f:
        return [(r["image"], r["prompt"]) for r in csv.DictReader(f)]


def encode_text(pipe, prompt):
    if isinstance(pipe, StableDiffusionXLPipeline):
        text, _, pooled, _ = pipe.encode_prompt(prompt, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False)
        return text, pooled
    return pipe.encode_prompt(prompt, device="cpu", num_images_per_prompt=1, do_classifier_free_guidance=False)[0], None


def size_of(pipe):
    return SIZES["sdxl_pipeline" if isinstance(pipe, StableDiffusionXLPipeline) else "sd15_pipeline"]


@torch.no_grad()
def encode(pipe):
    samples, (height, width) = [], size_of(pipe)
    for name, prompt in rows():
        covering = Image.open(HERE / "pipeline/pictures" / name).resize((width, width * 48 // 64), Image.BILINEAR)
        top = (covering.height - height) // 2
        pixels = np.asarray(covering)[top:top + height]
        x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(pipe.vae.dtype) / 127.5 - 1
        samples.append((pipe.vae.encode(x).latent_dist.mode() * pipe.vae.config.scaling_factor, *encode_text(pipe, prompt)))
    return samples


def train(pipe, samples, replay, parameters, scheduler, gamma=0, **adamw):
    (height, width) = size_of(pipe)
    v = scheduler.config.prediction_type == "v_prediction"

    def loss_of(step):
        latents, text, pooled = samples[int(replay[f"step.{step}.sample"])]
        noise, t = replay[f"step.{step}.noise"][None], replay[f"step.{step}.timestep"].reshape(1)
        added = dict(text_embeds=pooled, time_ids=torch.tensor([[48.0, 64, 4, 0, height, width]])) if pooled is not None else None
        prediction = pipe.unet(scheduler.add_noise(latents, noise, t), t, text, added_cond_kwargs=added).sample
        loss = F.mse_loss(prediction, scheduler.get_velocity(latents, noise, t) if v else noise)
        if gamma:
            snr = compute_snr(scheduler, t)
            loss = loss * (torch.clamp(snr, max=gamma) / (snr + 1 if v else snr)).item()
        return loss

    return training_loop.train(parameters, STEPS, loss_of, **adamw)


@torch.no_grad()
def sampled(pipe, noise, scheduler=None, steps=5, prompts=PROMPTS, **options):
    kept, drawn = pipe.scheduler, iter(noise["step_noise"])
    ancestral.randn_tensor = lambda *a, **k: next(drawn)
    pipe.scheduler = scheduler or kept
    if "prompt_embeds" not in options:
        options["prompt"] = prompts
    # diffusers' clip_skip looks for the final norm there; load_lora_weights takes the name for one of the layers' names.
    aliased = "clip_skip" in options and not hasattr(pipe.text_encoder, "text_model")
    if aliased:
        object.__setattr__(pipe.text_encoder, "text_model", pipe.text_encoder)
    out = pipe(latents=noise["noise"].clone(), height=size_of(pipe)[0], width=size_of(pipe)[1], num_inference_steps=steps, output_type="latent", **{"guidance_scale": 1.0} | options).images
    if aliased:
        object.__delattr__(pipe.text_encoder, "text_model")
    pipe.scheduler = kept
    return out


def chunked(pipe, prompt, chunks):
    """A long prompt in chunks, joined as sd-scripts does: one start, the inner tokens of every chunk, one end."""
    length = pipe.tokenizer.model_max_length
    ids = pipe.tokenizer(prompt)["input_ids"][1:-1]
    assert len(ids) > (chunks - 1) * (length - 2), len(ids)
    parts, pooled = [], None
    for words, encoder in ((pipe.tokenizer, pipe.text_encoder), (pipe.tokenizer_2, pipe.text_encoder_2)):
        batch = []
        for i in range(chunks):
            row = [words.bos_token_id, *ids[i * (length - 2):(i + 1) * (length - 2)], words.eos_token_id]
            batch.append(row + [words.pad_token_id] * (length - len(row)))
        out = encoder(torch.tensor(batch), output_hidden_states=True)
        pooled, state = out[0], out.hidden_states[-2]
        parts.append(torch.cat([state[0, :1], *(s[1:-1] for s in state), state[-1, -1:]])[None])
    return torch.cat(parts, -1), pooled[:1]


def make(name):
    torch.manual_seed(7)
    xl = name == "sdxl_pipeline"
    pipe, expected, replay = open_pipe(name), {}, {}
    samples = encode(pipe)
    rows_columns = SIZES[name][0] // 8, SIZES[name][1] // 8
    for i in range(STEPS):
        replay |= {f"step.{i}.noise": torch.randn(4, *rows_columns), f"step.{i}.timestep": torch.randint(0, 1000, ()), f"step.{i}.sample": torch.tensor(i * 3 % 4)}
    replay["step.4.timestep"] = torch.tensor(999)
    save_file(replay, HERE / name / "replay.safetensors")
    noise = {"noise": torch.randn(2, 4, *rows_columns), "step_noise": torch.randn(5, 2, 4, *rows_columns)}
    save_file(noise, HERE / name / "noise.safetensors")

    config = dict(pipe.scheduler.config) | dict(timestep_spacing="leading", clip_sample=False, final_sigmas_type="zero")
    config.pop("skip_prk_steps", None)
    euler = EulerDiscreteScheduler.from_config(config)
    cfg = dict(guidance_scale=3.0, negative_prompt=["cat", "cat"])
    expected |= {"latents.plain": sampled(pipe, noise, euler), "latents.euler": sampled(pipe, noise, euler, **cfg),
                 "latents.euler_a": sampled(pipe, noise, EulerAncestralDiscreteScheduler.from_config(config), **cfg),
                 "latents.dpmpp_2m": sampled(pipe, noise, DPMSolverMultistepScheduler.from_config(config), **cfg),
                 "latents.ddim": sampled(pipe, noise, DDIMScheduler.from_config(config), **cfg),
                 "latents.no_negative": sampled(pipe, noise, euler, guidance_scale=3.0), "latents.empty": sampled(pipe, noise, euler, prompts=["", ""]),
                 "latents.long": sampled(pipe, noise, euler, prompts=[LONG, LONG]), "latents.clip_skip": sampled(pipe, noise, euler, clip_skip=1),
                 "latents.rescale": sampled(pipe, noise, euler, guidance_rescale=0.7, **cfg)}
    if xl:
        text, pooled = chunked(pipe, LONG, 2)
        expected["latents.chunks"] = sampled(pipe, noise, euler, prompt_embeds=text.repeat(2, 1, 1), pooled_prompt_embeds=pooled.repeat(2, 1))
    v = config | dict(prediction_type="v_prediction", rescale_betas_zero_snr=True, timestep_spacing="trailing")
    expected["latents.v_ddim"] = sampled(pipe, noise, DDIMScheduler.from_config(v), **cfg)
    expected["latents.v_euler"] = sampled(pipe, noise, EulerDiscreteScheduler.from_config(v), **cfg)

    epsilon = DDPMScheduler.from_config(config)
    velocity = DDPMScheduler.from_config(v)
    original = {n: p.detach().clone() for n, p in pipe.unet.named_parameters()}
    pipe.unet.requires_grad_(True)
    for run, scheduler in (("full", epsilon), ("full_v", velocity)):
        losses, norms, first = train(pipe, samples, replay, list(pipe.unet.named_parameters()), scheduler)
        expected |= {f"{run}.loss": losses, f"{run}.grad_norm": norms}
        pipe.unet.load_state_dict(original)

    adapter = training_loop.add_adapter(pipe.unet, TARGETS)
    start = {n: p.detach().clone() for n, p in adapter}
    save_file(training_loop.adapter_state("unet", pipe.unet), HERE / name / "lora.safetensors", metadata={"format": "pt"})
    expected["latents.lora"] = sampled(pipe, noise, euler)
    pipe.unet.train()
    for run, scheduler, gamma in (("lora", epsilon, 0), ("lora_v", velocity, 0), ("lora_min_snr", epsilon, 5), ("lora_v_min_snr", velocity, 5)):
        pipe.unet.load_state_dict(start, strict=False)
        losses, norms, first = train(pipe, samples, replay, adapter, scheduler, gamma)
        expected |= {f"{run}.loss": losses, f"{run}.grad_norm": norms}
    pipe.unet.delete_adapters("default")
    adapter = training_loop.add_adapter(pipe.unet, TARGETS[::2], use_dora=True)
    save_file(training_loop.adapter_state("unet", pipe.unet), HERE / name / "dora.safetensors", metadata={"format": "pt"})
    losses, norms, _ = train(pipe, samples, replay, adapter, epsilon)
    expected |= {"dora.loss": losses, "dora.grad_norm": norms}
    save_file({k: t.contiguous() for k, t in expected.items()}, HERE / name / "expected.safetensors")
    print(name, {k: round(t.std().item(), 3) for k, t in expected.items() if k.startswith("latents")}, expected["full.loss"], expected["lora.loss"])


if __name__ == "__main__":
    make("sdxl_pipeline")
    make("sd15_pipeline")
