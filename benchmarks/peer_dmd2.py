"""The peer: DiffSynth-Studio's DMD2 of a FLUX.2 klein of any size; one process a case, its figures as JSON in --out. `make` writes the model, for both programs.

Losses, phases and optimizers are those of diffsynth.diffusion.dmd2, and the discriminator has the layers of its example. Features end the pass behind the last block
that is read. Latents and texts are random and ready, so that no encoder runs.
"""
import argparse
import copy
import dataclasses
import importlib.metadata
import json
import time
import types
from pathlib import Path

from family_folder import FAMILIES, make

WIDTH, HEAD = 1024, 128
FAMILY = dataclasses.replace(FAMILIES["flux2"], config=FAMILIES["flux2"].config | dict(num_attention_heads=WIDTH // HEAD, num_layers=2, num_single_layers=6))


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("what", choices=["make", "lora", "full"], help="what of the student trains; its fake score always trains whole")
    p.add_argument("--folder", required=True, help="the model")
    p.add_argument("--side", type=int, default=16, help="the picture is this many tokens high and wide")
    p.add_argument("--text_tokens", type=int, default=64)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--feature", type=int, default=4)
    p.add_argument("--update_freq", type=int, default=2)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--out", default="")
    return p.parse_args()


class Reached(Exception):
    """Ends a pass of which nothing more is read."""


def student_of(dit, args):
    if args.what == "full":
        return dit.requires_grad_(True)
    from peft import LoraConfig, inject_adapter_in_model
    dit = inject_adapter_in_model(LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules=FAMILY.targets), dit.requires_grad_(False))
    for parameter in dit.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dit.dtype if hasattr(dit, "dtype") else next(dit.parameters()).dtype)
    return dit


def load(folder):
    import torch
    from safetensors.torch import load_file

    from diffsynth.models.flux2_dit import Flux2DiT
    with torch.device("meta"):
        dit = Flux2DiT(**{name: value for name, value in FAMILY.config.items()})
    weights = {name: value for file in sorted((Path(folder) / "transformer").glob("*.safetensors")) for name, value in load_file(file).items()}
    dit.load_state_dict(weights, assign=True)
    return dit


def discriminator():
    import torch
    nn = torch.nn

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Sequential(nn.Conv2d(WIDTH, WIDTH // 2, 4, 2, 1), nn.GroupNorm(32, WIDTH // 2), nn.LeakyReLU(0.2), nn.Conv2d(WIDTH // 2, 1, 1), nn.AdaptiveAvgPool2d(1),
                                      nn.Flatten())

        def forward(self, features):
            return self.head(features[0].float())
    return Heads()


def runner(args):
    """What runs a model: the prediction, or the picture's tokens behind a block."""
    features = []

    def note(_block, _inputs, outputs):
        tokens = outputs[1] if isinstance(outputs, tuple) else outputs[:, -args.side * args.side:]
        features.append(tokens.transpose(1, 2).unflatten(2, (args.side, args.side)))
        raise Reached

    def run(pipe, model, timestep, progress_id, num_inference_steps, inputs_shared, inputs_posi, feature_indices=None, return_features=False):
        del progress_id, num_inference_steps
        if not return_features:
            return pipe.model_fn(dit=model, timestep=timestep, **inputs_shared, **inputs_posi)
        features.clear()
        hook = [*model.transformer_blocks, *model.single_transformer_blocks][max(feature_indices)].register_forward_hook(note)
        try:
            pipe.model_fn(dit=model, timestep=timestep, **inputs_shared, **inputs_posi)
        except Reached:
            pass
        hook.remove()
        return list(features)
    return run


def train(args):
    import torch
    from diffsynth.diffusion import dmd2
    from diffsynth.pipelines.flux2_image import Flux2ImagePipeline, Flux2Unit_ImageIDs

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    config = dmd2.DMD2Config(student_update_freq=args.update_freq, feature_indices=[args.feature])
    pipe = Flux2ImagePipeline(device="cpu", torch_dtype=torch.bfloat16)
    teacher = load(args.folder).requires_grad_(False)
    pipe.teacher, pipe.fake_score, pipe.discriminator = teacher, copy.deepcopy(teacher).requires_grad_(True), discriminator()
    pipe.dit = student_of(copy.deepcopy(teacher), args)
    run = runner(args)
    module = types.SimpleNamespace(pipe=pipe, dmd2_student_model_name="dit", dmd2_teacher_model_name="teacher", dmd2_fake_score_model_name="fake_score", dmd2_discriminator_model_name="discriminator",
                                   dmd2_model_fn_student=run, dmd2_model_fn_teacher=run, dmd2_model_fn_fake_score=run,
                                   _dmd2_student_param_names={name for name, p in pipe.dit.named_parameters() if p.requires_grad},
                                   _dmd2_fake_score_param_names={name for name, _ in pipe.fake_score.named_parameters()})
    optimizers = {"student_scheduler": None, "fake_score_scheduler": None, "discriminator_scheduler": None}
    for name, model in (("student", pipe.dit), ("fake_score", pipe.fake_score), ("discriminator", pipe.discriminator)):
        optimizers[name] = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, weight_decay=0.01)
    text = torch.arange(args.text_tokens)
    posi = {"prompt_embeds": torch.randn(1, args.text_tokens, FAMILY.config["joint_attention_dim"], dtype=torch.bfloat16),
            "text_ids": torch.stack([text * 0] * 3 + [text], 1)[None]}
    shared = {"input_latents": torch.randn(1, args.side * args.side, FAMILY.config["in_channels"], dtype=torch.bfloat16), "embedded_guidance": 1.0,
              "image_ids": Flux2Unit_ImageIDs().prepare_latent_ids(args.side, args.side)}
    loss_of, seconds = dmd2.DMD2Loss(config), []
    for step in range(args.steps):
        begin = time.perf_counter()
        loss_of(module, (shared, posi, posi), step)["total_loss"].backward()
        current, _ = dmd2._dmd2_current_optimizers(config, optimizers, step)
        if step % config.student_update_freq == 0:
            torch.nn.utils.clip_grad_norm_([p for p in pipe.dit.parameters() if p.requires_grad], config.student_grad_clip_norm)
        for optimizer in current:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    Path(args.out).write_text(json.dumps({"step_seconds": seconds, "million_parameters": sum(p.numel() for p in teacher.parameters()) / 1e6,
                                          "versions": {name: importlib.metadata.version(name) for name in ("diffsynth", "torch")}}))


if __name__ == "__main__":
    given = arguments()
    if given.what == "make":
        make(FAMILY, Path(given.folder))
    else:
        train(given)
