#!/usr/bin/env python3
"""Terms of a loss in plain torch with peft, whose disable_adapters gives the model before training: the small pipeline of make_pipeline.py, its LoRA and recorded
draws, captions with the trigger word "sks". terms.safetensors: CASE.{loss,grad_norm} of four optimizer steps, and CASE.term where a term is added. The samples' own
losses, and drift, have DiffSynth-Studio's weights by time; terms of other prompts have none."""
import pathlib

import torch
import torch.nn.functional as F
from diffusers import FluxPipeline
from safetensors.torch import load_file, save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import make_pipeline
import training_loop

HERE = pathlib.Path(__file__).parent
ASSETS = HERE.parent.parent / "assets/tiny-flux"
STEPS, TRIGGER, CLASS = 4, "sks", "fruit"


def main():
    pipe = FluxPipeline.from_pretrained(HERE / "pipeline/model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    model = pipe.transformer
    captions = [f"{TRIGGER} {prompt}" for _, prompt in [("", "red apple"), ("", "a cat face, smiling"), ("", "tree"), ("", "red apple")]]

    def encoded(texts):
        return make_pipeline.encode(pipe, [(f"{i}.png", text) for i, text in enumerate(texts)])

    own, of_class, blank = encoded(captions), encoded([c.replace(TRIGGER, CLASS) for c in captions]), encoded([""] * len(captions))
    replay = load_file(HERE / "pipeline/replay.safetensors")
    adapter = training_loop.add_adapter(model, make_pipeline.TARGETS)

    def predict(step, samples):
        latents, text, pooled, text_ids = samples[int(replay[f"step.{step}.sample"])]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        b, c, h, w = latents.shape
        prediction = model(hidden_states=FluxPipeline._pack_latents((1 - sigma) * latents + sigma * noise, b, c, h, w), encoder_hidden_states=text,
                           pooled_projections=pooled, timestep=sigma.reshape(1), guidance=torch.ones(1), txt_ids=text_ids,
                           img_ids=FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32), return_dict=False)[0]
        return prediction, FluxPipeline._pack_latents(noise - latents, b, c, h, w), float(sigma)

    @torch.no_grad()
    def before(step, samples):
        model.disable_adapters()
        prediction = predict(step, samples)[0]
        model.enable_adapters()
        return prediction

    @torch.no_grad()
    def away(step):
        return predict(step, blank)[0]

    def kept(samples):
        return lambda step: F.mse_loss(predict(step, samples)[0], before(step, samples))

    def guided(scale):
        def loss(step):
            p, v, sigma = predict(step, own)
            return F.mse_loss((p + (scale - 1) * away(step)) / scale, v) * make_pipeline.diffsynth_weight(sigma)
        return loss

    def moved(scale):
        def loss(step):
            p, v, sigma = predict(step, own)
            u, g = away(step), 1 + (scale - 1) * sigma
            u = u * ((v * u).sum() / (u.square().sum() + 1e-8))
            return F.mse_loss(p, u + g * (v - u)) * make_pipeline.diffsynth_weight(sigma)
        return loss

    def plain(step):
        p, v, sigma = predict(step, own)
        return F.mse_loss(p, v) * make_pipeline.diffsynth_weight(sigma)

    cases = {"class": (plain, kept(of_class), 0.5, False), "blank": (plain, kept(blank), 2.0, False), "drift": (plain, kept(own), 0.3, True),
             "guided": (guided(3.0), None, 0, False), "moved": (moved(3.0), None, 0, False)}
    out = {}
    for name, (own_loss, term, weight, is_weighed) in cases.items():
        training_loop.load_adapter(adapter, HERE / "pipeline/lora.safetensors")
        terms = []

        def loss_of(step):
            loss = own_loss(step)
            if term is None:
                return loss
            added = term(step)
            terms.append(added.item())
            by_time = make_pipeline.diffsynth_weight(float(replay[f"step.{step}.sigma"])) if is_weighed else 1
            return loss + weight * by_time * added

        losses, norms, _ = training_loop.train(adapter, STEPS, loss_of)
        out |= {f"{name}.loss": losses, f"{name}.grad_norm": norms} | ({f"{name}.term": torch.tensor(terms)} if terms else {})
        print(name, losses, norms, terms)
    save_file(out, HERE / "terms.safetensors")


if __name__ == "__main__":
    main()
