#!/usr/bin/env python3
"""The cache that DiffSynth-Studio's `--task sft:data_process` writes for FLUX.1, in its layout: one file a sample, <process>/<index>.pth, a
tuple of three dictionaries (shared, positive, negative) with all that its units read and wrote, pictures included; written by torch.save
from the pipeline and pictures of make_pipeline.py. Also torch files of other kinds: kinds.pth, and some that must be refused.

diffsynth_cache/0/{0,1,2,3}.pth, diffsynth_cache/other/{kinds,checkpoint,text_encoder,os_system,module}.pth
"""
import collections
import os
import pathlib
import shutil

import numpy as np
import torch
from diffusers import FluxPipeline
from PIL import Image
from transformers import CLIPTokenizer, T5TokenizerFast

HERE = pathlib.Path(__file__).parent
OUT = HERE / "diffsynth_cache"
ASSETS = HERE.parent.parent / "assets/tiny-flux"


def sample(pipe, picture, prompt):
    image = Image.open(picture).convert("RGB")
    x = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
    latents = (pipe.vae.encode(x).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor
    text, pooled, ids = pipe.encode_prompt(prompt, prompt_2=prompt, max_sequence_length=pipe.tokenizer_2.model_max_length)
    noise = torch.randn_like(latents)
    shared = {"input_image": image, "height": image.height, "width": image.width, "cfg_scale": 1, "embedded_guidance": 1, "t5_sequence_length": 512,
              "tiled": False, "rand_device": "cpu", "use_gradient_checkpointing": True, "use_gradient_checkpointing_offload": False, "seed": None,
              "noise": noise, "latents": noise, "input_latents": latents, "guidance": torch.tensor([1.0]), "image_ids": torch.zeros(1, 12, 3)}
    positive = {"prompt": prompt, "positive": True, "prompt_emb": text, "pooled_prompt_emb": pooled, "text_ids": ids[None]}
    return shared, positive, positive | {"prompt": "", "positive": False}


class Command:
    def __reduce__(self):
        return os.system, ("touch burnish_ran_a_pickle",)


@torch.no_grad()
def main():
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "0").mkdir(parents=True)
    (OUT / "other").mkdir()
    torch.manual_seed(3)
    pipe = FluxPipeline.from_pretrained(HERE / "pipeline/model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    prompts = ["red apple", "a cat face, smiling", "tree", "red apple"]
    for i, prompt in enumerate(prompts):
        torch.save(sample(pipe, HERE / f"pipeline/pictures/{i}.png", prompt), OUT / f"0/{i}.pth")
    grid = torch.arange(24.0).reshape(4, 6)
    kinds = {"fp32": grid, "transposed": grid.t(), "row": grid[2], "column": grid[:, 3], "bf16": grid.bfloat16(), "fp16": grid.half(), "int64": torch.arange(5), "uint8": torch.arange(5, dtype=torch.uint8),
             "bool": torch.tensor([True, False]), "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "parameter": torch.nn.Parameter(grid * 2), "fp8": grid.to(torch.float8_e4m3fn)}
    torch.save(kinds, OUT / "other/kinds.pth")
    torch.save({"epoch": 3, "global_step": 12345678901234567890123, "state_dict": collections.OrderedDict(weight=grid, bias=grid[0])}, OUT / "other/checkpoint.pth")
    torch.save(pipe.text_encoder.state_dict(), OUT / "other/text_encoder.pth")
    torch.save({"weight": grid, "hook": Command()}, OUT / "other/os_system.pth")
    torch.save(torch.nn.Linear(2, 2), OUT / "other/module.pth")


if __name__ == "__main__":
    main()
