#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of Wan's prompts, and its losses of the clips and adapters of make_wan_clips.py -> wan_diffsynth.json:

prompts   text, the same as it is cleaned, and its tokens without padding
experts   what of its 1000 times each expert of A14B trains on: the share at which they meet, and the numbers from and to which times are drawn
{t2v,high,low,ti2v,i2v}  ten steps of the adapter: sigma, which is one of its 1000; loss and grad_norm, with its weights of times. Captions are the first prompts,
          clips, noise and samples those of make_wan_clips.py; high and low are the experts of make_wan_experts.py, each within its times

Prompts, tokens, encoders, first frames, noisy latents, target and loss go through its units and its loss.
"""
import json
from unittest import mock

import torch
from diffsynth.diffusion import FlowMatchSFTLoss
from diffsynth.models.wan_video_dit import WanModel
from diffsynth.models.wan_video_text_encoder import HuggingfaceTokenizer, WanTextEncoder
from diffsynth.models.wan_video_vae import VideoVAE38_, VideoVAE_, WanVideoVAE, WanVideoVAE38
from diffsynth.pipelines.wan_video import WanVideoPipeline
from peft import LoraConfig, inject_adapter_in_model
from PIL import Image
from safetensors.torch import load_file

import diffsynth_replay
import family
import training_loop
from make_wan import TOKENS, Wan
from make_wan_clips import FRAMES, OUT as CLIPS
from make_wan_experts import WanExperts
from make_wan_files import TEXT, TRANSFORMER, original_vae, renamed

PROMPTS = ["  red&amp;amp;blue apple,\n\n on a\ttree ", "“a cat’s face”, smiling\u00a0&#39;so&#39;", "\uff34ree\u3000of the no\ufb01th\u2026 \x1b[31mred\x07", "un pequen\u0303o a\u0301rbol & 猫\ufeff 😀 <b>"]
MEET = 0.417
FRAMES_OF = family.HERE / "wan_frames"


def weights(folder, rename):
    file = next(folder.glob("*.safetensors"))
    return {rename(name): value.float() for name, value in load_file(file).items() if name != "encoder.embed_tokens.weight"}


def config(folder):
    return json.loads((folder / "config.json").read_text())


def tokenizer():
    return HuggingfaceTokenizer(Wan.OUT / "model/tokenizer", seq_len=TOKENS, clean="whitespace")


def text_encoder():
    folder = Wan.OUT / "model/text_encoder"
    c = config(folder)
    model = WanTextEncoder(vocab=c["vocab_size"], dim=c["d_model"], dim_attn=c["num_heads"] * c["d_kv"], dim_ffn=c["d_ff"], num_heads=c["num_heads"], num_layers=c["num_layers"])
    model.load_state_dict(weights(folder, lambda name: renamed(name, TEXT)))
    return model.eval()


def autoencoder(folder):
    c = config(folder)
    is_later = c.get("is_residual", False)
    vae = (WanVideoVAE38 if is_later else WanVideoVAE)()
    sizes = dict(dim=c["base_dim"], z_dim=c["z_dim"], dim_mult=c["dim_mult"], num_res_blocks=c["num_res_blocks"])
    vae.model = VideoVAE38_(dec_dim=c["decoder_base_dim"], **sizes) if is_later else VideoVAE_(**sizes)
    vae.model.load_state_dict(weights(folder, lambda name: original_vae(name, c["num_res_blocks"], by_level=is_later)))
    vae.z_dim, vae.scale = c["z_dim"], [torch.tensor(c["latents_mean"]), 1 / torch.tensor(c["latents_std"])]
    return vae.eval()


def transformer(folder, **options):
    c = config(folder)
    dim = c["num_attention_heads"] * c["attention_head_dim"]
    model = WanModel(dim=dim, in_dim=c["in_channels"], ffn_dim=c["ffn_dim"], out_dim=c["out_channels"], text_dim=c["text_dim"], freq_dim=c["freq_dim"], eps=c["eps"],
                     patch_size=c["patch_size"], num_heads=c["num_attention_heads"], num_layers=c["num_layers"], has_image_input=False, require_clip_embedding=False, **options)
    model.load_state_dict(weights(folder, lambda name: renamed(name, TRANSFORMER)))
    return model.requires_grad_(False)


def clip(number, height):
    file = Image.open(CLIPS / f"{number}.webp")
    frames = []
    for k in range(FRAMES):
        file.seek(k)
        top = (file.height - height) // 2
        frames.append(file.convert("RGB").crop((0, top, file.width, top + height)))
    return frames


def adapted(dit, file, component):
    """The model with the adapter of a file on it, and its (name, parameter) that train."""
    dit = inject_adapter_in_model(LoraConfig(r=4, lora_alpha=2, target_modules=["q", "k", "v", "o", "ffn.0", "ffn.2"]), dit)
    values = {renamed(name.removeprefix(component + "."), TRANSFORMER): value for name, value in load_file(file).items()}
    trained = [(name, p) for name, p in dit.named_parameters() if p.requires_grad]
    for name, p in trained:
        p.data.copy_(values[name.replace(".default", "")])
    return dit, trained


@torch.no_grad()
def encode(pipe, height, from_frame):
    """All that its units make of every clip, but for noise."""
    samples = []
    names = {name for unit in pipe.units for name in unit.input_params or ()}
    for number, prompt in enumerate(PROMPTS):
        frames = clip(number, height)
        shared = dict.fromkeys(names) | {"input_video": frames, "input_image": frames[0] if from_frame else None, "height": height, "width": 64, "num_frames": FRAMES, "cfg_scale": 1,
                                         "tiled": False, "rand_device": "cpu", "seed": 0, "cfg_merge": False}
        posi = {"prompt": prompt}
        for unit in pipe.units:
            shared, posi, _ = pipe.unit_runner(unit, pipe, shared, posi, {})
        samples.append({name: value for name, value in (shared | posi).items() if value is not None and name not in ("noise", "latents")})
    return samples


def times_of(pipe, values):
    """From and to which of its times its loss draws."""
    seen = []
    with torch.no_grad(), mock.patch("torch.randint", side_effect=lambda low, high, size: seen.append((low, high)) or torch.full(size, low)):
        FlowMatchSFTLoss(pipe, **values)
    return seen[0]


def steps(pipe, dit, adapter, component, replay, height=48, from_frame=False, boundaries=(0, 1)):
    """Ten steps of the adapter, and from and to which times its loss draws."""
    pipe.dit = dit
    samples = [sample | dict(zip(("min_timestep_boundary", "max_timestep_boundary"), boundaries)) for sample in encode(pipe, height, from_frame)]
    pipe.dit, trained = adapted(dit, adapter, component)
    low, high = times_of(pipe, samples[0])
    replay = {name: value.float() if name.endswith("noise") else value for name, value in load_file(replay).items()}
    grid = pipe.scheduler.sigmas
    for step in range(training_loop.STEPS):
        nearest = (grid - replay[f"step.{step}.sigma"]).abs().argmin().item()
        replay[f"step.{step}.sigma"] = grid[low + nearest * (high - low) // len(grid)]
    losses, norms, _ = training_loop.train(trained, training_loop.STEPS, lambda step: diffsynth_replay.loss(pipe, replay, step, samples[int(replay[f"step.{step}.sample"])]))
    return {"sigma": [float(replay[f"step.{step}.sigma"]) for step in range(training_loop.STEPS)], "loss": losses.tolist(), "grad_norm": norms.tolist()}, [low, high]


def main():
    cut = tokenizer()
    prompts = []
    for text in PROMPTS:
        ids, mask = cut(text, return_mask=True, add_special_tokens=True)
        prompts.append({"text": text, "clean": cut._clean(text), "ids": ids[0, :int(mask.sum())].tolist()})
    pipe = WanVideoPipeline(device="cpu", torch_dtype=torch.float32)
    pipe.scheduler.set_timesteps(1000, training=True)
    pipe.tokenizer, pipe.text_encoder, pipe.vae = cut, text_encoder(), autoencoder(Wan.OUT / "model/vae")
    high, low = Wan.OUT / "model/transformer", WanExperts.OUT / "low_noise_model"
    clips = CLIPS / "replay_t2v.safetensors"
    of = {}
    of["t2v"], _ = steps(pipe, transformer(high), Wan.OUT / "lora.safetensors", "transformer", clips)
    of["high"], at_most = steps(pipe, transformer(high), WanExperts.OUT / "lora_high_noise.safetensors", "transformer", clips, boundaries=(0, MEET))
    of["low"], at_least = steps(pipe, transformer(low), WanExperts.OUT / "lora_low_noise.safetensors", "transformer_2", clips, boundaries=(MEET, 1))
    for name, height, options in (("ti2v", 32, dict(seperated_timestep=True, fuse_vae_embedding_in_latents=True, require_vae_embedding=False)), ("i2v", 48, {})):
        pipe.vae = autoencoder(FRAMES_OF / name / "vae")
        of[name], _ = steps(pipe, transformer(FRAMES_OF / name / "transformer", **options), CLIPS / "lora_frames.safetensors", "transformer", CLIPS / f"replay_{name}.safetensors",
                            height, from_frame=True)
    file = family.HERE / "wan_diffsynth.json"
    experts = {"meet": MEET, "high": at_most, "low": at_least}
    file.write_text(json.dumps({"prompts": prompts, "experts": experts} | of, indent=1, ensure_ascii=True) + "\n")
    for name, values in of.items():
        print(name, values)
    print(prompts, experts)


if __name__ == "__main__":
    main()
