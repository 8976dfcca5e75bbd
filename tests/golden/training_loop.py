"""Adapters of peft with random values, and the plain loop that every trainer runs, for recorded runs."""
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model_state_dict
from safetensors.torch import load_file, save_file

from digest import digest

STEPS = 10


def add_adapter(model, targets, **options):
    """Freezes the model and hangs random adapters of rank 4 on it; its (name, parameter) that train."""
    model.requires_grad_(False)
    model.add_adapter(LoraConfig(r=4, lora_alpha=2, target_modules=targets, init_lora_weights="gaussian", **options))
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    with torch.no_grad():
        for name, p in trained:
            if "magnitude" in name:
                p.mul_(1 + 0.2 * torch.rand_like(p))
            else:
                p.copy_(torch.randn_like(p) * (0.1 if "lora_B" in name else 0.3))
    return trained


@torch.no_grad()
def load_adapter(parameters, file, component="transformer"):
    """Gives (name, parameter) of peft the numbers that a file has under diffusers' keys."""
    state = load_file(file)
    for name, p in parameters:
        p.copy_(state[f"{component}.{name}".replace(".default", "")])


def adapter_state(component, model):
    """The adapter as diffusers writes it, with alphas; `component` goes before the keys."""
    state = {f"{component}.{k}": v.detach().clone().contiguous() for k, v in get_peft_model_state_dict(model).items()}
    return state | {k.replace(".lora_A.weight", ".alpha"): torch.tensor(2.0) for k in state if ".lora_A." in k}


def moved(parameters, before):
    """Digests [P, 9] of how far (name, parameter) came from what they were by name, in the order of names."""
    return torch.stack([digest(p - before[name]) for name, p in sorted(parameters)])


def train(parameters, num_steps, loss_of, **adamw):
    """Losses, gradient norms and the first step's gradients of AdamW steps on `loss_of(step)`; parameters are (name, tensor). What the loss does not read has no gradient,
    and stays. `adamw`: what of AdamW is to be other than lr=1e-3, weight_decay=0.01 and torch's own."""
    optimizer = torch.optim.AdamW([p for _, p in parameters], **{"lr": 1e-3, "weight_decay": 0.01} | adamw)
    losses, norms, first = [], [], None
    for step in range(num_steps):
        loss = loss_of(step)
        loss.backward()
        losses.append(loss.item())
        gradients = {n: p.grad for n, p in parameters if p.grad is not None}
        norms.append(torch.stack([g.norm() for g in gradients.values()]).norm().item())
        first = first or {n: g.clone() for n, g in gradients.items()}
        optimizer.step()
        optimizer.zero_grad()
    return torch.tensor(losses), torch.tensor(norms), first


def write_replay(file, latents, num_samples, held_in=torch.float32, steps=STEPS, stride=3):
    """Draws noise of this shape, of numbers that `held_in` holds, its level, and a sample for every step; seeds torch."""
    torch.manual_seed(7)
    replay = {}
    for i in range(steps):
        replay |= {f"step.{i}.noise": torch.randn(*latents).to(held_in), f"step.{i}.sigma": torch.rand(()) * 0.9 + 0.05,
                   f"step.{i}.sample": torch.tensor(i * stride % num_samples)}
    save_file(replay, file)
    return {n: x.float() if n.endswith("noise") else x for n, x in replay.items()}


def train_velocity(predict, samples, replay, parameters):
    """Trains by the squared error of velocities; a sample is latents [1, C, h, w] and what `predict(noisy, sigma, ...)` takes further."""

    def loss_of(step):
        latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        return F.mse_loss(predict((1 - sigma) * latents + sigma * noise, sigma.reshape(1), *conditions), noise - latents)

    return train(parameters, STEPS, loss_of)
