#!/usr/bin/env python3
"""Diffusion negative-aware fine-tuning in plain torch with peft, on the small pipeline of make_pipeline.py and its LoRA: the model before
training is the transformer with adapters disabled, and the policy that drew an average of the adapter, taken anew every ROUND steps. The
formulas are those of arXiv 2509.16117. nft.safetensors: step.{i}.noise, .sigma, .sample, .drawn_picture, .optimality, .round_scores of ten
steps, which a run replays, and loss, grad_norm, policy_loss, kl_loss and drift of each."""
import pathlib

import torch
from diffusers import FluxPipeline
from safetensors.torch import load_file, save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import make_pipeline
import make_stable_diffusion_runs as runs
import training_loop

HERE = pathlib.Path(__file__).parent
ASSETS = HERE.parent.parent / "assets/tiny-flux"
STEPS, ROUND = 10, 4
BETA, KL_WEIGHT, MOST_ADVANTAGE = 0.5, 0.01, 5.0
MOST_DECAY, RISE = 0.5, 0.1


def scaled_error(taken, x0):
    with torch.no_grad():
        divisor = (taken.double() - x0.double()).abs().mean().clamp(min=1e-5)
    return ((taken - x0) ** 2).mean() / divisor


def main():
    pipe = FluxPipeline.from_pretrained(HERE / "pipeline/model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    with torch.no_grad():
        samples = make_pipeline.encode(pipe, runs.rows())
    recorded = load_file(HERE / "pipeline/replay.safetensors")
    torch.manual_seed(11)
    for step in range(STEPS):
        latents = samples[int(recorded[f"step.{step}.sample"])][0][0]
        recorded[f"step.{step}.drawn_picture"] = (latents + 0.5 * torch.randn_like(latents)).contiguous()
        recorded[f"step.{step}.optimality"] = torch.rand(())
        recorded[f"step.{step}.round_scores"] = torch.tensor([float(step // ROUND), 0.25])

    model = pipe.transformer
    adapter = training_loop.add_adapter(model, make_pipeline.TARGETS)
    training_loop.load_adapter(adapter, HERE / "pipeline/lora.safetensors", "transformer")
    old = {name: p.detach().clone() for name, p in adapter}
    told = {name: [] for name in ("policy_loss", "kl_loss", "drift")}

    def predict(step):
        _, text, pooled, text_ids = samples[int(recorded[f"step.{step}.sample"])]
        x0, noise, sigma = recorded[f"step.{step}.drawn_picture"][None], recorded[f"step.{step}.noise"][None], recorded[f"step.{step}.sigma"]
        b, c, h, w = x0.shape
        x = (1 - sigma) * x0 + sigma * noise
        ids = FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32)
        packed = model(hidden_states=FluxPipeline._pack_latents(x, b, c, h, w), encoder_hidden_states=text, pooled_projections=pooled,
                       timestep=sigma.reshape(1), guidance=torch.ones(1), txt_ids=text_ids, img_ids=ids, return_dict=False)[0]
        return FluxPipeline._unpack_latents(packed, h * 8, w * 8, 8), x, x0, sigma

    @torch.no_grad()
    def predict_old(step):
        present = {name: p.detach().clone() for name, p in adapter}
        for name, p in adapter:
            p.copy_(old[name])
        v = predict(step)[0]
        for name, p in adapter:
            p.copy_(present[name])
        return v

    def loss_of(step):
        if step > 0 and step % ROUND == 0:
            decay = min(MOST_DECAY, RISE * step)
            with torch.no_grad():
                for name, p in adapter:
                    old[name] = decay * old[name] + (1 - decay) * p
        v_old = predict_old(step)
        model.disable_adapters()
        with torch.no_grad():
            v_before = predict(step)[0]
        model.enable_adapters()
        v, x, x0, sigma = predict(step)
        r = recorded[f"step.{step}.optimality"]
        better, worse = BETA * v + (1 - BETA) * v_old, (1 + BETA) * v_old - BETA * v
        policy = MOST_ADVANTAGE / BETA * (r * scaled_error(x - sigma * better, x0) + (1 - r) * scaled_error(x - sigma * worse, x0))
        kl = ((v - v_before) ** 2).mean()
        told["policy_loss"].append(policy.item())
        told["kl_loss"].append(kl.item())
        told["drift"].append((kl / (v_before ** 2).mean()).sqrt().item())
        return policy + KL_WEIGHT * kl

    losses, norms, _ = training_loop.train(adapter, STEPS, loss_of)
    out = recorded | {"loss": losses, "grad_norm": norms} | {name: torch.tensor(values) for name, values in told.items()}
    print(losses, norms, told)
    save_file(out, HERE / "nft.safetensors")


if __name__ == "__main__":
    main()
