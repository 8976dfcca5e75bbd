#!/usr/bin/env python3
"""The loss under guidance as DiffSynth-Studio computes it (2.1.12: --training_cfg_scale of MiniMax-H3, diffsynth/diffusion/loss.py), of given predictions in place
of its model: guided_loss.safetensors has prediction, negative_prediction and target of one sample, loss.SCALE, and loss.SCALE.grad, its gradient to the prediction."""
import pathlib
import types

import torch
from diffsynth.diffusion.loss import FlowMatchSFTMiniMaxH3AudioVideoLoss
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


class Scheduler:
    """One time, at which noise is taken off and losses have no weight."""
    timesteps = torch.tensor([500.0])

    def add_noise(self, latents, noise, timestep):
        return latents

    def training_target(self, latents, noise, timestep):
        return -latents

    def training_weight(self, timestep):
        return 1.0


def main():
    torch.manual_seed(11)
    latents, given, away = torch.randn(1, 4, 2, 4, 4), torch.randn(1, 4, 2, 4, 4), torch.randn(1, 4, 2, 4, 4)
    out = {"prediction": given, "negative_prediction": away, "target": -latents}
    for scale in (1.0, 1.5, 3.0):
        prediction = given.clone().requires_grad_(True)

        def model(is_away=False, **_):
            return (away if is_away else prediction), torch.zeros(1)

        pipe = types.SimpleNamespace(scheduler=Scheduler(), scheduler_audio=Scheduler(), device="cpu", in_iteration_models=[], model_fn=model)
        loss = FlowMatchSFTMiniMaxH3AudioVideoLoss(pipe, training_cfg_scale=scale, inputs_nega={"is_away": True}, input_latents=latents)
        loss.backward()
        out |= {f"loss.{scale}": loss.detach().reshape(1), f"loss.{scale}.grad": prediction.grad.clone()}
        print(scale, loss.item())
    save_file(out, HERE / "guided_loss.safetensors")


if __name__ == "__main__":
    main()
