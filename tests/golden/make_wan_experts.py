#!/usr/bin/env python3
"""A second transformer for the small pipeline of wan_pipeline/ (make_wan.py), as Wan 2.2's A14B has one for little noise, and what diffusers
+ peft do with both, in wan_experts/:

low_noise_model/      the transformer for little noise, in bf16; that of wan_pipeline/ is for much
lora_{high,low}_noise.safetensors  adapters as diffusers' save_lora_weights writes them, rank 4, alpha 2
replay.safetensors    that of wan_pipeline/; sigma says the transformer
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps with both, initial noise and the latents after 4 sampling steps with both:
                      plain, with both LoRAs
"""
import shutil
import torch
import torch.nn.functional as F
from diffusers import WanPipeline, WanTransformer3DModel
from safetensors.torch import save_file

import family, training_loop
from make_encoders import randomise, rounded
from make_wan import Spaced, Wan

BOUNDARY = 0.6  # of sigma; published models have 0.875, where few of ten times are


class WanExperts(Wan):
    OUT = family.HERE / "wan_experts"

    def both(self):
        pipe = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        torch.manual_seed(11)
        config = {name: value for name, value in pipe.transformer.config.items() if name != "_name_or_path"}
        second = rounded(randomise(WanTransformer3DModel.from_config(config), 0.7))
        return WanPipeline(**(pipe.components | {"transformer_2": second, "scheduler": Spaced(shift=3.0)}), boundary_ratio=BOUNDARY)

    def train_both(self, pipe, samples, replay, parameters):
        def loss_of(step):
            latents, caption = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            model = pipe.transformer if sigma >= BOUNDARY else pipe.transformer_2
            return F.mse_loss(self.predict(model, (1 - sigma) * latents + sigma * noise, sigma.reshape(1), caption), noise - latents)

        losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
        return losses, norms

    def write(self):
        shutil.rmtree(self.OUT, ignore_errors=True)
        self.OUT.mkdir()
        pipe = self.both()
        pipe.set_progress_bar_config(disable=True)
        self.both().transformer_2.to(torch.bfloat16).save_pretrained(self.OUT / "low_noise_model")
        samples = self.encode(pipe)
        file = self.OUT / "replay.safetensors"
        replay = training_loop.write_replay(file, self.LATENTS, len(samples), self.REPLAYED)
        file.unlink()
        file.symlink_to("../wan_pipeline/replay.safetensors")
        noise = torch.randn(2, *self.LATENTS)
        expected = {"noise": noise, "latents.plain": self.sampled(pipe, noise)}
        experts = {"high": pipe.transformer, "low": pipe.transformer_2}

        def record(name, parameters):
            expected[f"{name}.loss"], expected[f"{name}.grad_norm"] = self.train_both(pipe, samples, replay, parameters)

        original = {name: {n: p.detach().clone() for n, p in model.named_parameters()} for name, model in experts.items()}
        record("full", [(f"{name}.{n}", p) for name, model in experts.items() for n, p in model.named_parameters()])
        for name, model in experts.items():
            model.load_state_dict(original[name])
        adapters = []
        for component, (name, model) in zip(("transformer", "transformer_2"), experts.items()):
            adapters += [(f"{name}.{n}", p) for n, p in training_loop.add_adapter(model, self.TARGETS)]
            save_file(training_loop.adapter_state(component, model), self.OUT / f"lora_{name}_noise.safetensors", metadata={"format": "pt"})
        expected["latents.lora"] = self.sampled(pipe, noise)
        record("lora", adapters)
        save_file({n: x.contiguous() for n, x in expected.items()}, self.OUT / "expected.safetensors")
        for file in self.OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: x.std().item() for n, x in expected.items() if n.startswith("latents")})
        print([(i, float(replay[f"step.{i}.sigma"])) for i in range(training_loop.STEPS)])


if __name__ == "__main__":
    WanExperts().write()
