#!/usr/bin/env python3
"""What DiffSynth-Studio's own DMD2 makes of the small FLUX.2 klein and the pictures of make_flux2.py, all of student, fake score and discriminator training whole -> dmd2.safetensors, and
what it makes where the student sees its own drawing up to a step in place of noisy data -> dmd2_simulation.safetensors:

step.{i}.noise, sample, sigma, matching_sigma, matching_noise, regularising_noise   what it drew in eight steps; of the second file also drawn_steps and step_noise
loss                                                                                             of each step
grad_norm                                                                                        of what trains in each step, before it is clipped
student.<parameter>, fake_score.<parameter>, discriminator.<parameter>                           digests of the weights after the last step

Losses, draws and phases are those of diffsynth.diffusion.dmd2, prompts and pictures those of its units; it has no backward simulation, which is written here by the paper (arXiv 2405.14867, 4.5). Features are taken by hooks; the discriminator, which is no part of the package,
has the layers of its example for FLUX.2 and begins as burnish draws it. AdamW's eps is large enough for steps not to be decided by rounding.
"""
import copy
import types

import torch
from diffsynth.diffusion import dmd2
from safetensors.torch import save_file

from digest import digest
from make_families_diffsynth import Flux2, encode
from make_flux2 import FAMILY as flux2

NUM_STEPS, FEATURES, SEED, RATE, EPS = 8, [1, 3], 0, 1e-3, 1e-3
CONFIG = dmd2.DMD2Config(student_update_freq=2, student_sample_steps=4, feature_indices=FEATURES, gan_loss_weight=0.3, gan_r1_reg_weight=2.0, gan_r1_reg_alpha=0.1, teacher_cfg_scale=2.0,
                         fake_score_learning_rate=2e-3, discriminator_learning_rate=5e-4, student_grad_clip_norm=0.5)
MASK = (1 << 64) - 1


def mix64(x):
    """base/random_key.h, of a number or a name."""
    if isinstance(x, str):
        hashed = 0
        for byte in x.encode():
            hashed = mix64(hashed ^ byte)
        return hashed
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Discriminator(torch.nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        half = width // 2
        self.heads = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Conv2d(width, half, 4, 2, 1), torch.nn.GroupNorm(max(1, half // 4), half), torch.nn.LeakyReLU(0.2), torch.nn.Conv2d(half, 1, 1),
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()) for _ in range(num_heads))
        generator = torch.Generator().manual_seed(mix64("discriminator") ^ SEED)
        for head in self.heads:
            for layer in (head[0], head[3]):
                bound = layer.weight[0].numel() ** -0.5
                for p in (layer.weight, layer.bias):
                    p.data.uniform_(-bound, bound, generator=generator)

    def forward(self, features):
        return torch.cat([head(x) for head, x in zip(self.heads, features)], 1)


def run(pipe, model, timestep, progress_id, num_inference_steps, inputs_shared, inputs_posi, feature_indices=None, return_features=False):
    """As its example: the prediction, or the picture's tokens behind blocks."""
    features, hooks = [], []
    height, width = inputs_shared["height"] // 16, inputs_shared["width"] // 16

    def note(_block, _inputs, outputs):
        tokens = outputs[1] if isinstance(outputs, tuple) else outputs[:, -height * width:]
        features.append(tokens.transpose(1, 2).unflatten(2, (height, width)))

    if return_features:
        blocks = [*model.transformer_blocks, *model.single_transformer_blocks]
        hooks = [blocks[i].register_forward_hook(note) for i in sorted(feature_indices)]
    out = pipe.model_fn(dit=model, timestep=timestep, **inputs_shared, **inputs_posi)
    for hook in hooks:
        hook.remove()
    return features if return_features else out


class Drawn:
    """torch, whose draws are noted."""

    def __init__(self):
        self.all = []

    def __getattr__(self, name):
        made = getattr(torch, name)
        if name not in ("rand", "randint", "randn_like"):
            return made

        def noted(*args, **kwargs):
            self.all.append(made(*args, **kwargs))
            return self.all[-1]
        return noted


class Simulating(dmd2.DMD2Loss):
    def _generate_student_data(self, module, real_data, inputs_shared, inputs_posi):
        sigmas, timesteps = dmd2.make_dmd2_student_schedule(module.pipe, self.config.student_sample_steps, real_data.device)
        step_id = dmd2.torch.randint(0, self.config.student_sample_steps, (1,))
        latents, *step_noise = (dmd2.torch.randn_like(real_data) for _ in range(self.config.student_sample_steps))
        x0_at = lambda i: self._model_forward_x0(module, module.pipe.dit, run, latents, timesteps[i:i + 1], sigmas[i:i + 1], inputs_shared, inputs_posi)
        for i in range(int(step_id)):
            with torch.no_grad():
                latents = dmd2._forward_process(x0_at(i), step_noise[i], sigmas[i + 1:i + 2])
        return x0_at(int(step_id)), latents


def record(drawn, number, sample, row, out, simulates):
    step_id, noise, *drawn = drawn
    step_noise, (sigma, matching, *more) = (drawn[:CONFIG.student_sample_steps - 1], drawn[CONFIG.student_sample_steps - 1:]) if simulates else ([], drawn)
    height, width = sample["height"] // 16, sample["width"] // 16
    latents = lambda tokens: tokens[0].t().unflatten(1, (height, width)).contiguous()
    values = {"sample": torch.tensor(row), "noise": latents(noise), "matching_noise": latents(matching),
              "matching_sigma": (sigma * (CONFIG.matching_t_max - CONFIG.matching_t_min) + CONFIG.matching_t_min)[0], "sigma": torch.linspace(0.999, 0, CONFIG.student_sample_steps + 1, dtype=torch.float64)[step_id[0]].float(),
              "regularising_noise": latents(more[0]) if more else torch.zeros(32, height, width)}
    if simulates:
        values |= {"drawn_steps": step_id[0], "step_noise": torch.stack([latents(of_step) for of_step in step_noise])}
    out.update({f"step.{number}.{name}": value for name, value in values.items()})


def make(file_name, kind):
    torch.manual_seed(7)
    family = Flux2()
    pipe = family.open()
    pipe.scheduler.training = True
    samples = encode(pipe, [[]] * 4)
    empty = next(unit for unit in pipe.units if "Qwen3PromptEmbedder" in type(unit).__name__)
    with torch.no_grad():
        negative = empty.process(pipe, "")
    module = types.SimpleNamespace(pipe=pipe, dmd2_student_model_name="dit", dmd2_teacher_model_name="teacher", dmd2_fake_score_model_name="fake_score", dmd2_discriminator_model_name="discriminator",
                                   dmd2_model_fn_student=run, dmd2_model_fn_teacher=run, dmd2_model_fn_fake_score=run)
    pipe.dit = family.dit().requires_grad_(True)
    pipe.teacher, pipe.fake_score = copy.deepcopy(pipe.dit).requires_grad_(False), copy.deepcopy(pipe.dit)
    pipe.discriminator = Discriminator(32, len(FEATURES))
    module._dmd2_student_param_names = module._dmd2_fake_score_param_names = {name for name, _ in pipe.dit.named_parameters()}
    adamw = lambda model, rate: torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, eps=EPS)
    optimizers = {"student": adamw(pipe.dit, RATE), "fake_score": adamw(pipe.fake_score, CONFIG.fake_score_learning_rate),
                  "discriminator": adamw(pipe.discriminator, CONFIG.discriminator_learning_rate)}
    for name in list(optimizers):
        optimizers[name + "_scheduler"] = None
    drawn, out, losses, norms = Drawn(), {}, [], []
    dmd2.torch = drawn  # the losses draw by it
    loss_of = kind(CONFIG)
    for step in range(NUM_STEPS):
        sample = samples[step % 4]
        shared = {name: value for name, value in sample.items() if name not in negative}
        drawn.all.clear()
        loss = loss_of(module, (shared, {name: sample[name] for name in negative}, negative), step)["total_loss"]
        loss.backward()
        record(drawn.all, step, sample, step % 4, out, kind is Simulating)
        current, _ = dmd2._dmd2_current_optimizers(CONFIG, optimizers, step)
        trained = [p for optimizer in current for group in optimizer.param_groups for p in group["params"]]
        norms.append(torch.stack([p.grad.norm() for p in trained if p.grad is not None]).norm())
        if step % CONFIG.student_update_freq == 0:
            torch.nn.utils.clip_grad_norm_(trained, CONFIG.student_grad_clip_norm)
        for optimizer in current:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    print([loss.item() for loss in losses], [norm.item() for norm in norms])
    for name, model in (("student", pipe.dit), ("fake_score", pipe.fake_score), ("discriminator", pipe.discriminator)):
        out.update({f"{name}.{path}": digest(p) for path, p in model.named_parameters()})
    out.update({"loss": torch.stack(losses).double(), "grad_norm": torch.stack(norms).double()})
    file = flux2.HERE / file_name
    save_file(out, file)
    file.chmod(0o644)


def main():
    make("dmd2.safetensors", dmd2.DMD2Loss)
    make("dmd2_simulation.safetensors", Simulating)


if __name__ == "__main__":
    main()
