#!/usr/bin/env python3
"""Sliders and erased concepts in plain torch with peft, of the small FLUX.1 of make_pipeline.py and the small SD 1.5 of make_stable_diffusion.py, in fp64: the passes, targets
and detachments of ai-toolkit (concept_slider, image_reference_slider_trainer) and of p1atdev/LECO. Each of flux_concepts.safetensors and sd15_concepts.safetensors is a replay
file, and has what eight records of it teach the pipeline's LoRA:

step.{i}.noise, sigma or timestep, sample, drawn_steps   two records are alike but for the sample
<case>.{loss,grad_norm}           of each optimizer step; two losses for each end of a slider, with its anchor: <case>.<name in the log>
<case>.moved                      [P, 9] digests of how far each of the LoRA's parameters came, by the order of their names

slider   pictures under an anchor; drawn_slider: two sliders in turn, at latents that the model before training draws under the class
erase    two concepts in turn, the second one strengthened under a prompt of its own, at latents that the model draws as it has become
pairs    two pictures with the LoRA at strengths 1.5 and -1.5, both in each step
"""
import contextlib
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import DDIMScheduler, FluxPipeline
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import make_pipeline as flux
import make_stable_diffusion_runs as sd
import training_loop

HERE = pathlib.Path(__file__).parent
NUM_RECORDS, NUM_STEPS, TAKEN = 8, 6, [2, 0, 5, 3]  # steps of a drawing, and how many were taken before the times of pairs of records
ADAMW = {"lr": 1e-2, "eps": 1e-3}  # an eps at which no step is decided by rounding
SLIDERS = [{"class": "a person", "positive": "an old person", "negative": "a young person"}, {"class": "", "positive": "a cat face, smiling", "negative": "tree"}]
ANCHOR = "a dog"
GUIDANCE, ANCHOR_STRENGTH, STRENGTH = 2.5, 0.7, 1.5
ERASED = [dict(target="a red apple", positive="a red apple", neutral="a fruit", scale=-1.5), dict(target="a girl", positive="cat ears", neutral="a girl", scale=0.5)]


class Flux:
    name, component, time, drawing_scale = "flux", "transformer", "sigma", 1.0

    def __init__(self):
        self.pipe = FluxPipeline.from_pretrained(flux.OUT / "model", tokenizer=CLIPTokenizer.from_pretrained(flux.ASSETS / "tokenizer"),
                                                 tokenizer_2=T5TokenizerFast.from_pretrained(flux.ASSETS / "tokenizer_2"), torch_dtype=torch.float64)
        self.model, self.targets, self.lora = self.pipe.transformer, flux.TARGETS, flux.OUT / "lora.safetensors"
        with torch.no_grad():
            self.samples = [(latents, self.packed(prompt)) for (latents, *_), (_, prompt) in zip(flux.encode(self.pipe, sd.rows()), sd.rows())]
        slope, num_tokens = (1.15 - 0.5) / (4096 - 256), 3 * 4
        self.pipe.scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / NUM_STEPS, NUM_STEPS), mu=num_tokens * slope + 0.5 - slope * 256)
        self.sigmas = self.pipe.scheduler.sigmas

    @torch.no_grad()
    def packed(self, prompt):
        return self.pipe.encode_prompt(prompt, prompt_2=prompt, max_sequence_length=self.pipe.tokenizer_2.model_max_length)

    def time_after(self, steps):
        return self.sigmas[steps].float()

    def predict(self, latents, sigma, prompt):
        text, pooled, ids = prompt
        b, c, h, w = latents.shape
        out = self.model(hidden_states=FluxPipeline._pack_latents(latents, b, c, h, w), encoder_hidden_states=text, pooled_projections=pooled, timestep=sigma.double().reshape(1),
                         guidance=torch.ones(1), txt_ids=ids, img_ids=FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float64), return_dict=False)[0]
        return FluxPipeline._unpack_latents(out, h * 8, w * 8, 8)

    def noisy(self, latents, noise, sigma):
        return (1 - sigma.double()) * latents + sigma.double() * noise

    def target(self, latents, noise, _):
        return noise - latents

    def step(self, prediction, i, latents):
        return latents + (self.sigmas[i + 1].double() - self.sigmas[i].double()) * prediction


class StableDiffusion:
    name, component, time, drawing_scale = "sd15", "unet", "timestep", 3.0

    def __init__(self):
        self.pipe = sd.open_pipe("sd15_pipeline", torch.float64)
        self.model, self.targets, self.lora = self.pipe.unet, sd.TARGETS, HERE / "sd15_pipeline/lora.safetensors"
        self.samples = [(latents, text) for latents, text, _ in sd.encode(self.pipe)]
        self.scheduler = DDIMScheduler.from_config(dict(self.pipe.scheduler.config) | dict(clip_sample=False))
        self.scheduler.set_timesteps(NUM_STEPS)
        self.scheduler.alphas_cumprod = self.scheduler.alphas_cumprod.double()

    @torch.no_grad()
    def packed(self, prompt):
        return sd.encode_text(self.pipe, prompt)[0]

    def time_after(self, steps):
        return self.scheduler.timesteps[steps]

    def predict(self, latents, timestep, prompt):
        return self.model(latents, timestep.reshape(1), prompt).sample

    def noisy(self, latents, noise, timestep):
        return self.scheduler.add_noise(latents, noise, timestep.reshape(1))

    def target(self, _, noise, __):
        return noise

    def step(self, prediction, i, latents):
        return self.scheduler.step(prediction, self.scheduler.timesteps[i], latents).prev_sample


def spread_as(tensor, like):
    return (tensor - tensor.mean()) / (tensor.std() + 1e-8) * like.std() + like.mean()


class Runs:
    def __init__(self, family):
        torch.manual_seed(13)
        self.family, self.out, self.replay = family, {}, {}
        self.adapter = training_loop.add_adapter(family.model, family.targets)
        family.model.train()
        shape = family.samples[0][0].shape[1:]
        for i in range(NUM_RECORDS):
            if i % 2 == 0:
                noise, steps = torch.randn(shape), TAKEN[i // 2]
            self.replay |= {f"step.{i}.noise": noise.clone(), f"step.{i}.{family.time}": family.time_after(steps).clone(), f"step.{i}.sample": torch.tensor(i % 2),
                            f"step.{i}.drawn_steps": torch.tensor(steps)}
        self.prompts = {text: family.packed(text) for text in {"", ANCHOR, *(text for one in SLIDERS + ERASED for text in one.values() if isinstance(text, str))}}

    def sample(self, i):
        return int(self.replay[f"step.{i}.sample"])

    def record(self, i):
        """Latents and caption of its picture, noise, time and steps before it."""
        of = lambda name: self.replay[f"step.{i}.{name}"]
        return *self.family.samples[self.sample(i)], of("noise")[None].double(), of(self.family.time), int(of("drawn_steps"))

    def at(self, strength):
        for module in self.family.model.modules():
            if isinstance(module, BaseTunerLayer):
                module.set_scale("default", strength)

    @contextlib.contextmanager
    def before_training(self):
        self.family.model.disable_adapters()
        with torch.no_grad():
            yield
        self.family.model.enable_adapters()

    @torch.no_grad()
    def drawn(self, noise, num_steps, prompt, scale):
        """Latents behind so many steps from noise; guided, both predictions are of the model as it is."""
        latents = noise
        for i in range(num_steps):
            time = self.family.time_after(i)
            prediction = self.family.predict(latents, time, self.prompts[prompt])
            if scale != 1:
                away = self.family.predict(latents, time, self.prompts[""])
                prediction = away + scale * (prediction - away)
            latents = self.family.step(prediction, i, latents)
        return latents

    def slider_loss(self, noisy, time, one, anchor_strength, noted):
        """As concept_slider: each end is compared twice, and the sum of both ends' losses has the gradient."""
        predict = lambda text: self.family.predict(noisy, time, self.prompts[text])
        with self.before_training():
            positive, middle, negative, anchor = (predict(text) for text in (one["positive"], one["class"], one["negative"], ANCHOR))
        led, loss = positive - negative, 0
        for name, end in (("positive", 1.0), ("negative", -1.0)):
            target = spread_as(middle + end * GUIDANCE * led, middle)
            self.at(end)
            of_end = F.mse_loss(predict(one["class"]), target)
            noted(name + "_loss", of_end)
            of_end = of_end + of_end
            if anchor_strength:
                of_anchor = F.mse_loss(predict(ANCHOR), anchor)
                noted(name + "_anchor_loss", of_anchor)
                of_end = of_end + anchor_strength * of_anchor
            loss = loss + of_end / 3
        self.at(1.0)
        return loss

    def slider(self, i, noted):
        latents, _, noise, time, _ = self.record(i)
        return self.slider_loss(self.family.noisy(latents, noise, time), time, SLIDERS[0], ANCHOR_STRENGTH, noted)

    def drawn_slider(self, i, noted):
        _, _, noise, time, steps = self.record(i)
        one = SLIDERS[self.sample(i)]
        with self.before_training():
            noisy = self.drawn(noise, steps, one["class"], self.family.drawing_scale)
        return self.slider_loss(noisy, time, one, 0, noted)

    def erase(self, i, noted):
        """As LECO, whose actions differ in the sign; its model draws under the prompt at which it learns."""
        _, _, noise, time, steps = self.record(i)
        one = ERASED[self.sample(i)]
        noisy = self.drawn(noise, steps, one["target"], self.family.drawing_scale)
        predict = lambda text: self.family.predict(noisy, time, self.prompts[text])
        with self.before_training():
            target = predict(one["neutral"]) + one["scale"] * (predict(one["positive"]) - predict(""))
        loss = F.mse_loss(predict(one["target"]), target)
        noted("erased_loss", loss)
        return loss

    def pairs(self, i, _):
        loss = 0
        for record, strength in ((2 * i, STRENGTH), (2 * i + 1, -STRENGTH)):
            latents, caption, noise, time, _ = self.record(record)
            self.at(strength)
            prediction = self.family.predict(self.family.noisy(latents, noise, time), time, caption)
            loss = loss + F.mse_loss(prediction, self.family.target(latents, noise, time)) / 2
        self.at(1.0)
        return loss

    def run(self, case, num_steps):
        training_loop.load_adapter(self.adapter, self.family.lora, self.family.component)
        before, parts = {name: p.detach().clone() for name, p in self.adapter}, {}
        loss_of = getattr(self, case)
        losses, norms, _ = training_loop.train(self.adapter, num_steps, lambda i: loss_of(i, lambda name, value: parts.setdefault(name, []).append(value.item())), **ADAMW)
        self.out |= {f"{case}.loss": losses.double(), f"{case}.grad_norm": norms.double()} | {f"{case}.{name}": torch.tensor(values, dtype=torch.float64) for name, values in parts.items()}
        self.out[f"{case}.moved"] = training_loop.moved(self.adapter, before)
        print(self.family.name, case, losses, norms, parts)


def main():
    for family in (Flux(), StableDiffusion()):
        runs = Runs(family)
        for case, num_steps in (("slider", 4), ("drawn_slider", 4), ("erase", 6), ("pairs", 4)):
            runs.run(case, num_steps)
        file = HERE / f"{family.name}_concepts.safetensors"
        save_file(runs.replay | runs.out, file)
        file.chmod(0o644)


if __name__ == "__main__":
    main()
