#!/usr/bin/env python3
"""Terms of a loss in plain torch with peft, whose disable_adapters gives the model before training, in fp64: the small pipeline of make_pipeline.py, its LoRA and recorded
draws. terms.safetensors: CASE.{loss,grad_norm} of four optimizer steps, CASE.<name in the log> where a term is added, and CASE.moved, digests [P, 9] of how far the LoRA came. The
samples' own losses, drift and the masked term have DiffSynth-Studio's weights by time; terms of other prompts have none. Passes and detachments are those of ai-toolkit
(class, blank, moved), DiffSynth-Studio (guided), SimpleTuner (drift) and OneTrainer (prior, masked); tlora's ranks those of ControlGenAI/T-LoRA."""
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
ADAMW = {"lr": 1e-2, "eps": 1e-3}  # an eps at which no step is decided by rounding
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]
CLASS_SET = {2, 3}  # rows of it in case prior
MASK = torch.tensor([1.0] * 4 + [0.4] * 2 + [0.0] * 2, dtype=torch.float64)  # of the columns of latents
UNMASKED, MASKED_PRIOR = 0.1, 0.7
LEAST_RANK, RANK = 1, 4


class Model:
    def __init__(self):
        self.pipe = FluxPipeline.from_pretrained(HERE / "pipeline/model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                                 tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float64)
        self.model = self.pipe.transformer
        marked = [f"{TRIGGER} {caption}" for caption in CAPTIONS]
        self.plain, self.own, self.of_none = (self.encoded(texts) for texts in (CAPTIONS, marked, [""] * len(CAPTIONS)))
        self.of_class = self.encoded([text.replace(TRIGGER, CLASS) for text in marked])
        self.replay = load_file(HERE / "pipeline/replay.safetensors")
        self.adapter = training_loop.add_adapter(self.model, make_pipeline.TARGETS)
        self.share = 0.0  # of noise, of which ranks depend where they are masked
        self.masks_ranks = False
        for name, module in self.model.named_modules():
            if name.endswith("lora_A.default"):
                module.register_forward_hook(self.mask_ranks)

    def encoded(self, texts):
        return make_pipeline.encode(self.pipe, [(f"{i}.png", text) for i, text in enumerate(texts)])

    def mask_ranks(self, _module, _inputs, down):
        ranks = int((1 - self.share) * (RANK - LEAST_RANK)) + LEAST_RANK
        return down * (torch.arange(RANK) < ranks) if self.masks_ranks else down

    def row(self, step):
        return int(self.replay[f"step.{step}.sample"])

    def weight(self, step):
        return make_pipeline.diffsynth_weight(float(self.replay[f"step.{step}.sigma"]))

    def predict(self, step, samples):
        """Prediction and target, packed."""
        latents, text, pooled, text_ids = samples[self.row(step)]
        noise, sigma = self.replay[f"step.{step}.noise"][None].double(), self.replay[f"step.{step}.sigma"].double()
        self.share = float(sigma)
        b, c, h, w = latents.shape
        prediction = self.model(hidden_states=FluxPipeline._pack_latents((1 - sigma) * latents + sigma * noise, b, c, h, w), encoder_hidden_states=text, pooled_projections=pooled,
                                timestep=sigma.reshape(1), guidance=torch.ones(1), txt_ids=text_ids,
                                img_ids=FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float64), return_dict=False)[0]
        return prediction, FluxPipeline._pack_latents(noise - latents, b, c, h, w)

    @torch.no_grad()
    def before(self, step, samples):
        self.model.disable_adapters()
        prediction = self.predict(step, samples)[0]
        self.model.enable_adapters()
        return prediction

    def away(self, step):
        with torch.no_grad():
            return self.predict(step, self.of_none)[0]

    def sft(self, step, _):
        return F.mse_loss(*self.predict(step, self.own)) * self.weight(step)

    def kept(self, step, samples):
        before = self.before(step, samples)
        return F.mse_loss(self.predict(step, samples)[0], before)

    def preserve_class(self, step, noted):
        return self.sft(step, noted) + 0.5 * noted("class_preservation_loss", self.kept(step, self.of_class))

    def preserve_blank(self, step, noted):
        return self.sft(step, noted) + 2.0 * noted("blank_preservation_loss", self.kept(step, self.of_none))

    def hold(self, step, noted):
        return self.sft(step, noted) + 0.3 * noted("drift_loss", self.kept(step, self.own)) * self.weight(step)

    def guide(self, step, _):
        away = self.away(step)
        p, v = self.predict(step, self.own)
        return F.mse_loss((p + 2.0 * away) / 3.0, v) * self.weight(step)

    def move_target(self, step, _):
        u = self.away(step)
        p, v = self.predict(step, self.own)
        g = 1 + 2.0 * self.share
        u = u * ((v * u).sum() / (u.square().sum() + 1e-8))
        return F.mse_loss(p, u + g * (v - u)) * self.weight(step)

    def predict_prior(self, step, _):
        before = self.before(step, self.plain)
        p, v = self.predict(step, self.plain)
        return F.mse_loss(p, before if self.row(step) in CLASS_SET else v) * self.weight(step)

    def mask(self, step, noted):
        before = self.before(step, self.own)
        p, v = self.predict(step, self.own)
        b, c, h, w = self.own[0][0].shape
        counts = FluxPipeline._pack_latents(MASK.clamp(UNMASKED, 1).expand(b, c, h, w), b, c, h, w)
        inside = ((p - v).square() * counts / counts.mean()).mean()
        outside = ((p - before).square() * (1 - counts) / (1 - counts).mean()).mean()
        return (inside + MASKED_PRIOR * noted("masked_prior_loss", outside)) * self.weight(step)

    def leave_ranks_out(self, step, noted):
        self.masks_ranks = True
        return self.sft(step, noted)


CASES = {"class": Model.preserve_class, "blank": Model.preserve_blank, "drift": Model.hold, "guided": Model.guide, "moved": Model.move_target, "prior": Model.predict_prior,
         "masked": Model.mask, "tlora": Model.leave_ranks_out}


def main():
    model, out = Model(), {}
    for case, loss_of in CASES.items():
        training_loop.load_adapter(model.adapter, HERE / "pipeline/lora.safetensors")
        before, terms = {name: p.detach().clone() for name, p in model.adapter}, {}

        def noted(name, value):
            terms.setdefault(name, []).append(value.item())
            return value

        losses, norms, _ = training_loop.train(model.adapter, STEPS, lambda step: loss_of(model, step, noted), **ADAMW)
        out |= {f"{case}.loss": losses, f"{case}.grad_norm": norms, f"{case}.moved": training_loop.moved(model.adapter, before)}
        out |= {f"{case}.{name}": torch.tensor(values, dtype=torch.float64) for name, values in terms.items()}
        print(case, losses, norms, terms)
    save_file(out, HERE / "terms.safetensors")


if __name__ == "__main__":
    main()
