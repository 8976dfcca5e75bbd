#!/usr/bin/env python3
"""The pipeline of make_pipeline.py with reference pictures, as FLUX.1 Kontext takes them, in references/:

a.png, b.png          reference pictures, of other sizes than the pictures that are trained
metadata.json         the pictures of make_pipeline.py with one reference, with two, with none, and with one
expected.safetensors  latents.one, latents.cfg: diffusers' FluxKontextPipeline with a.png after 4 steps from the noise of make_pipeline.py;
                      lora.{loss,grad_norm}: ten steps of its replay and LoRA in the plain loop;
                      diffsynth.loss: the eight steps of make_diffsynth.py's replay and LoRA by DiffSynth-Studio's own code
"""
import json
import shutil

import numpy as np
import torch
import torch.nn.functional as F
from diffsynth.pipelines.flux_image import FluxImageUnit_Kontext
from diffusers import FluxKontextPipeline, FluxPipeline
from PIL import Image
from safetensors.torch import load_file, save_file

import diffsynth_replay
import make_diffsynth
import make_pipeline
import training_loop
from make_wild import open_pipe

OUT = make_pipeline.OUT.parent / "references"
REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]
PROMPTS = ["red apple", "a cat face, smiling", "tree", "red apple"]


def write_pictures():
    rng = np.random.default_rng(5)
    for name, size in (("a.png", (48, 32)), ("b.png", (64, 48))):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(size, Image.BILINEAR).save(OUT / name)
    rows = []
    for i, (prompt, names) in enumerate(zip(PROMPTS, REFERENCES)):
        cell = {} if not names else {"kontext_images": names[0] if len(names) == 1 else names}
        rows.append({"image": f"../pipeline/pictures/{i}.png", "prompt": prompt} | cell)
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")


def opened(names):
    return [Image.open(OUT / name).convert("RGB") for name in names]


@torch.no_grad()
def drawn(pipe, noise, **options):
    b, c, h, w = noise.shape
    out = pipe(image=opened(["a.png"])[0], prompt=["red apple", "tree of the north"], latents=FluxPipeline._pack_latents(noise, b, c, h, w), height=h * 8, width=w * 8,
               max_area=h * w * 64, num_inference_steps=4, guidance_scale=3.5, max_sequence_length=pipe.tokenizer_2.model_max_length, output_type="latent",
               _auto_resize=False, **options).images
    return FluxPipeline._unpack_latents(out, h * 8, w * 8, 8)


@torch.no_grad()
def packed_references(pipe, names):
    """Tokens and ids of reference pictures."""
    tokens, all_ids = [torch.zeros(1, 0, 64)], [torch.zeros(0, 3)]
    for picture in opened(names):
        x = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
        latents = (pipe.vae.encode(x).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor
        b, c, h, w = latents.shape
        ids = FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32)
        ids[..., 0] = 1
        tokens.append(FluxPipeline._pack_latents(latents, b, c, h, w))
        all_ids.append(ids)
    return torch.cat(tokens, 1), torch.cat(all_ids)


def trained(pipe, samples):
    """Losses and gradient norms of the plain loop."""
    replay = load_file(make_pipeline.OUT / "replay.safetensors")
    adapter = training_loop.add_adapter(pipe.transformer, make_pipeline.TARGETS)
    training_loop.load_adapter(adapter, make_pipeline.OUT / "lora.safetensors")
    pipe.transformer.train()
    references = [packed_references(pipe, names) for names in REFERENCES]

    def loss_of(step):
        index = int(replay[f"step.{step}.sample"])
        latents, text, pooled, text_ids = samples[index]
        tokens, ids = references[index]
        noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
        b, c, h, w = latents.shape
        noisy = FluxPipeline._pack_latents((1 - sigma) * latents + sigma * noise, b, c, h, w)
        target_ids = FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32)
        prediction = pipe.transformer(hidden_states=torch.cat([noisy, tokens], 1), encoder_hidden_states=text, pooled_projections=pooled, timestep=sigma.reshape(1),
                                      guidance=torch.tensor([make_pipeline.GUIDANCE]), txt_ids=text_ids, img_ids=torch.cat([target_ids, ids]),
                                      return_dict=False)[0][:, :noisy.shape[1]]
        return F.mse_loss(prediction, FluxPipeline._pack_latents(noise - latents, b, c, h, w))

    losses, norms, _ = training_loop.train(adapter, make_pipeline.STEPS, loss_of)
    return losses, norms


def trained_by_diffsynth(pipe, samples):
    replay = load_file(make_diffsynth.OUT / "replay.safetensors")
    module = make_diffsynth.Module("sft:train")
    start = {f"pipe.dit.{name}": value for name, value in load_file(make_diffsynth.OUT / "start.safetensors").items()}
    module.load_state_dict(start, strict=False)
    module.pipe.vae_encoder = make_diffsynth.Encoder(pipe.vae)
    unit = FluxImageUnit_Kontext()
    with torch.no_grad():
        references = [unit.process(module.pipe, opened(names) or None, False, None, None) for names in REFERENCES]
    return diffsynth_replay.train(module.pipe, make_diffsynth.trained_of(module.pipe.dit), replay, make_diffsynth.STEPS,
                                  lambda sample: make_diffsynth.inputs_of(samples[sample]) | references[sample])


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_pictures()
    pipe = open_pipe()
    samples = make_pipeline.encode(pipe, [(f"{i}.png", prompt) for i, prompt in enumerate(PROMPTS)])
    kontext = FluxKontextPipeline(scheduler=pipe.scheduler, vae=pipe.vae, text_encoder=pipe.text_encoder, tokenizer=pipe.tokenizer, text_encoder_2=pipe.text_encoder_2,
                                  tokenizer_2=pipe.tokenizer_2, transformer=pipe.transformer)
    kontext.set_progress_bar_config(disable=True)
    noise = load_file(make_pipeline.OUT / "expected.safetensors")["noise"]
    expected = {"latents.one": drawn(kontext, noise), "latents.cfg": drawn(kontext, noise, negative_prompt=["cat", "cat"], true_cfg_scale=2.5)}
    expected["diffsynth.loss"] = trained_by_diffsynth(pipe, samples)
    expected["lora.loss"], expected["lora.grad_norm"] = trained(pipe, samples)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.iterdir():
        file.chmod(0o644)
    print({k: v for k, v in expected.items() if "latents" not in k})


if __name__ == "__main__":
    main()
