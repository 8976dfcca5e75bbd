"""DiffSynth-Studio's loss with the sample, the noise and the σ of a recorded run's step in place of what it draws."""
from unittest import mock

from diffsynth.diffusion import FlowMatchSFTLoss
from peft import LoraConfig, inject_adapter_in_model

import training_loop


def adapted(dit, targets, file):
    """The frozen model with the adapter of a file on it, and its (name, parameter) that train."""
    dit = inject_adapter_in_model(LoraConfig(r=4, lora_alpha=2, target_modules=targets), dit)
    trained = [(name, p) for name, p in dit.named_parameters() if p.requires_grad]
    training_loop.load_adapter(trained, file)
    return dit, trained


def loss(pipe, replay, step, values):
    """Its loss of one step; `values`: what its units made of the step's sample."""
    noise = replay[f"step.{step}.noise"][None]
    if values["input_latents"].dim() == 3:  # as tokens
        noise = noise.flatten(2).transpose(1, 2)
    index = (pipe.scheduler.sigmas - replay[f"step.{step}.sigma"]).abs().argmin().reshape(1)
    with mock.patch("torch.randint", return_value=index), mock.patch("torch.randn_like", return_value=noise):
        return FlowMatchSFTLoss(pipe, **values)


def train(pipe, parameters, replay, num_steps, values_of):
    """Losses of `training_loop.train`; `values_of(sample)` gives what FlowMatchSFTLoss is called with."""
    return training_loop.train(parameters, num_steps, lambda step: loss(pipe, replay, step, values_of(int(replay[f"step.{step}.sample"]))))[0]
