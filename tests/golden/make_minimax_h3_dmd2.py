#!/usr/bin/env python3
"""DMD2 of the small MiniMax-H3 with both of its streams, frames and sound, on the clips of make_minimax_h3_clips.py, student and fake score training whole without a discriminator
-> minimax_h3_dmd2.safetensors, and where the student sees its own drawing up to a step in place of noisy data -> minimax_h3_dmd2_simulation.safetensors:

step.{i}.noise, sample, sigma, matching_sigma, matching_noise   what is drawn in six steps, of sound behind audio_latents_; of the second file also drawn_steps and step_noise
loss, grad_norm                                                 of each step, the norm before it is clipped

The losses are those of DMD2 (arXiv 2405.14867) as diffsynth.diffusion.dmd2 has them, written here for two streams: each has levels of its own, and their losses are added.
"""
import copy

import torch
from safetensors.torch import save_file

import family
from make_minimax_h3 import FAMILY, MEAN, STD, sound_sigma
from make_minimax_h3_clips import CAPTIONS, WITHOUT, clip_of, sound_latents, sound_of

NUM_STEPS, FRAMES, NUM_SIDE, STUDENT_STEPS, SCALE, CLIP, EPS = 6, 5, 8, 4, 2.0, 0.5, 1e-3
RATES = {"student": 1e-3, "fake": 2e-3}
SHAPES = ((6, 2, 2, 4), (5, 2 * NUM_SIDE))
LEVELS = (lambda sigma: sigma, sound_sigma)


def beside(level, x):
    return level.reshape(-1, *[1] * (x.dim() - 1))


def noised(x0, noise, sigma):
    return [(1 - beside(level(sigma), x)) * x + beside(level(sigma), x) * n for level, x, n in zip(LEVELS, x0, noise)]


@torch.no_grad()
def samples_of(pipe):
    samples = []
    for i, caption in enumerate(CAPTIONS):
        latents = FAMILY.normalised(pipe, pipe.vae.encode((clip_of(i)[:, :, :FRAMES] - MEAN) / STD).latent_dist.mode())
        sound = torch.zeros(1, *SHAPES[1]) if i == WITHOUT else sound_latents(pipe, sound_of(i)[:, :NUM_SIDE * 20])
        samples.append(([latents, sound], *FAMILY.conditions(pipe, caption)))
    return samples


def x0_of(model, noisy, sigma, captions):
    velocities = FAMILY.predict(model, noisy[0], sigma.reshape(1), captions, noisy[1])
    return [x - beside(level(sigma), x) * v for level, x, v in zip(LEVELS, noisy, velocities)]


def run(pipe, samples, away, simulates):
    torch.manual_seed(13)
    student = pipe.transformer.requires_grad_(True)
    teacher, fake = copy.deepcopy(student).requires_grad_(False), copy.deepcopy(student)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=RATES[name], weight_decay=0.01, eps=EPS) for name, model in (("student", student), ("fake", fake))]
    sigmas = torch.linspace(0.999, 0, STUDENT_STEPS + 1, dtype=torch.float64).float()
    out, losses, norms = {}, [], []
    for step in range(NUM_STEPS):
        data, captions = samples[step % len(samples)]
        noise, matching = [[torch.randn(1, *shape) for shape in SHAPES] for _ in range(2)]
        step_noise = [torch.randn(STUDENT_STEPS - 1, *shape) for shape in SHAPES]
        drawn, sigma_m = torch.randint(STUDENT_STEPS, (1,)), torch.rand(1) * 0.9 + 0.05
        sigma = sigmas[drawn]
        if simulates:
            seen = noise
            with torch.no_grad():
                for k in range(int(drawn)):
                    seen = noised(x0_of(student, seen, sigmas[k:k + 1], captions), [n[k:k + 1] for n in step_noise], sigmas[k + 1:k + 2])
        else:
            seen = noised(data, noise, sigma)
        made = x0_of(student, seen, sigma, captions)
        is_students = step % 2 == 0
        if is_students:
            noisy = noised(made, matching, sigma_m)
            with torch.no_grad():
                of_fake, with_text, without = x0_of(fake, noisy, sigma_m, captions), x0_of(teacher, noisy, sigma_m, captions), x0_of(teacher, noisy, sigma_m, away)
                real = [w + SCALE * (c - w) for c, w in zip(with_text, without)]
                targets = [x - (f - r) / ((x - r).abs().mean() + 1e-6) for x, f, r in zip(made, of_fake, real)]
            loss = sum((x - target).square().mean() / 2 for x, target in zip(made, targets))
        else:
            made = [x.detach() for x in made]
            loss = sum((f - x).square().mean() for f, x in zip(x0_of(fake, noised(made, matching, sigma_m), sigma_m, captions), made))
        loss.backward()
        trained = [p for p in (student if is_students else fake).parameters() if p.grad is not None]
        norms.append(torch.stack([p.grad.norm() for p in trained]).norm())
        if is_students:
            torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizers[0 if is_students else 1].step()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        values = {"sample": torch.tensor(step % len(samples)), "sigma": sigma[0], "matching_sigma": sigma_m[0]}
        for prefix, n, m, s in zip(("", "audio_latents_"), noise, matching, step_noise):
            values |= {prefix + "noise": n[0], prefix + "matching_noise": m[0]} | ({prefix + "step_noise": s} if simulates else {})
        if simulates:
            values["drawn_steps"] = drawn[0]
        out |= {f"step.{step}.{name}": value.clone() for name, value in values.items()}
    print([loss.item() for loss in losses], [norm.item() for norm in norms])
    return out | {"loss": torch.stack(losses).double(), "grad_norm": torch.stack(norms).double()}


def main():
    for name, simulates in (("minimax_h3_dmd2", False), ("minimax_h3_dmd2_simulation", True)):
        pipe = FAMILY.parts()
        with torch.no_grad():
            away = FAMILY.conditions(pipe, " ")[0]
        file = family.HERE / f"{name}.safetensors"
        save_file(run(pipe, samples_of(pipe), away, simulates), file)
        file.chmod(0o644)


if __name__ == "__main__":
    main()
