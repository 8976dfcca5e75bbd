#!/usr/bin/env python3
"""Direct preference optimization in plain torch with peft, whose disable_adapter gives the reference: the small pipelines of make_pipeline.py
(flow matching) and make_stable_diffusion.py (SD 1.5: epsilon), their LoRAs and recorded draws. Row i prefers picture i to picture i + 1.
dpo.safetensors: {flux,sd15}.{loss,grad_norm,margin} of four optimizer steps."""
import pathlib

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, FluxPipeline
from safetensors.torch import load_file, save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import make_pipeline
import make_stable_diffusion_runs as runs
import training_loop

HERE = pathlib.Path(__file__).parent
ASSETS = HERE.parent.parent / "assets/tiny-flux"
STEPS, BETA = 4, 50.0


def flux():
    pipe = FluxPipeline.from_pretrained(HERE / "pipeline/model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    with torch.no_grad():
        samples = make_pipeline.encode(pipe, runs.rows())
    replay = load_file(HERE / "pipeline/replay.safetensors")

    def errors(step, rejected):
        row = int(replay[f"step.{step}.sample"])
        latents, (_, text, pooled, text_ids) = samples[(row + rejected) % len(samples)][0], samples[row]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        b, c, h, w = latents.shape
        noisy = FluxPipeline._pack_latents((1 - sigma) * latents + sigma * noise, b, c, h, w)
        ids = FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32)
        prediction = pipe.transformer(hidden_states=noisy, encoder_hidden_states=text, pooled_projections=pooled, timestep=sigma.reshape(1),
                                      guidance=torch.ones(1), txt_ids=text_ids, img_ids=ids, return_dict=False)[0]
        return F.mse_loss(prediction, FluxPipeline._pack_latents(noise - latents, b, c, h, w))

    return pipe.transformer, make_pipeline.TARGETS, HERE / "pipeline/lora.safetensors", "transformer", errors


def sd15():
    pipe = runs.open_pipe("sd15_pipeline")
    samples, scheduler = runs.encode(pipe), DDPMScheduler.from_config(pipe.scheduler.config)
    replay = load_file(HERE / "sd15_pipeline/replay.safetensors")

    def errors(step, rejected):
        row = int(replay[f"step.{step}.sample"])
        latents, text = samples[(row + rejected) % len(samples)][0], samples[row][1]
        noise, t = replay[f"step.{step}.noise"][None], replay[f"step.{step}.timestep"].reshape(1)
        return F.mse_loss(pipe.unet(scheduler.add_noise(latents, noise, t), t, text).sample, noise)

    return pipe.unet, runs.TARGETS, HERE / "sd15_pipeline/lora.safetensors", "unet", errors


def main():
    out = {}
    for name, open_model in (("flux", flux), ("sd15", sd15)):
        model, targets, file, component, errors = open_model()
        adapter = training_loop.add_adapter(model, targets)
        training_loop.load_adapter(adapter, file, component)
        margins = []

        def loss_of(step):
            model.disable_adapters()
            with torch.no_grad():
                reference = errors(step, 0) - errors(step, 1)
            model.enable_adapters()
            margin = -BETA / 2 * (errors(step, 0) - errors(step, 1) - reference)
            margins.append(margin.item())
            return -F.logsigmoid(margin)

        losses, norms, _ = training_loop.train(adapter, STEPS, loss_of)
        out |= {f"{name}.loss": losses, f"{name}.grad_norm": norms, f"{name}.margin": torch.tensor(margins)}
        print(name, losses, norms, margins)
    save_file(out, HERE / "dpo.safetensors")


if __name__ == "__main__":
    main()
