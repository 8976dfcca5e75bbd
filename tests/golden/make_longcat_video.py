#!/usr/bin/env python3
"""A whole small LongCat-Video pipeline with random weights, and what DiffSynth-Studio's transformer, diffusers, transformers and peft do with it, in longcat_video_pipeline/:

model/                a folder as LongCat-Video is published, its components in bf16: dit, text_encoder, tokenizer, vae, scheduler
lora.safetensors      an adapter as SimpleTuner and DiffSynth-Studio write it but for its prefix, of fused layers, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
replay_clips.safetensors  the same for clips of wan_clips/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps on pictures, first.{lora,full}.* of ten on clips whose first frame is given, initial noise and the latents
                      after 4 sampling steps: plain, with the LoRA, with guidance; clip_noise, clip.*: of nine frames, without given frames, with the first one of
                      wan_clips/0.webp, and with five of them
first.png             that first frame
transformer.safetensors  the transformer alone on two clips whose captions differ in length, each filled up to 12 tokens: in.<input>, out, out_weight, and grad.<parameter>:
                      the digest of the gradient of sum(out * out_weight), by the names of layers that are not fused; given.*: where two latent frames are without noise

The transformer is DiffSynth-Studio's copy of LongCat-Video's class; steps and guidance are written out as in LongCat-Video's pipeline_longcat_video.py.
"""
import json, os, shutil, types

import torch
import torch.nn.functional as F
from diffsynth.models.longcat_video_dit import LongCatVideoTransformer3DModel
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler
from peft import inject_adapter_in_model
from PIL import Image
from safetensors.torch import save_file
from transformers import T5TokenizerFast, UMT5Config, UMT5EncoderModel

import family, training_loop
from digest import digest
from make_encoders import randomise, rounded
from make_pipeline import ASSETS
from make_wan import TOKENS, Wan

SHIFT, FUSED = 12.0, {"attn.qkv": ["attn.to_q", "attn.to_k", "attn.to_v"], "cross_attn.kv_linear": ["cross_attn.to_k", "cross_attn.to_v"], "cross_attn.q_linear": ["cross_attn.to_q"]}


class Pipeline(types.SimpleNamespace):
    def set_progress_bar_config(self, **_):
        pass


def by_layer(name, tensor):
    """A fused layer's tensor, by the names of its parts."""
    for fused, parts in FUSED.items():
        if f".{fused}." in name and not name.replace(f".{fused}.", ".").count("norm"):
            return {name.replace(f".{fused}.", f".{part}."): x for part, x in zip(parts, tensor.chunk(len(parts)))}
    return {name: tensor}


def star(given, away):
    """The scale that brings what guidance leads away from nearest to the guided, in each sample (CFG-Zero*, arXiv 2503.18886)."""
    given, away = given.flatten(1), away.flatten(1)
    return ((given * away).sum(1) / ((away ** 2).sum(1) + 1e-8)).view(-1, 1, 1, 1, 1)


class LongCatVideo(Wan):
    OUT = family.HERE / "longcat_video_pipeline"
    TARGETS = ["attn.qkv", "attn.proj", "q_linear", "kv_linear", "cross_attn.proj", "ffn.w1", "ffn.w2", "ffn.w3", "adaLN_modulation.1"]
    SIZES = dict(in_channels=16, out_channels=16, hidden_size=32, depth=2, num_heads=2, caption_channels=16, mlp_ratio=4, adaln_tembed_dim=12, frequency_embedding_size=32)

    def parts(self):
        torch.manual_seed(0)
        tokens = T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2", model_max_length=TOKENS)
        text = randomise(UMT5EncoderModel(UMT5Config(vocab_size=len(tokens), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)))
        vae = randomise(AutoencoderKLWan(base_dim=4, z_dim=16, dim_mult=[1, 1, 2, 2], num_res_blocks=1), 1.4)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        transformer = randomise(LongCatVideoTransformer3DModel(**self.SIZES), 0.7)
        with torch.no_grad():  # so that a few tokens count among hundreds of padding
            transformer.y_embedder.y_proj[2].weight.mul_(4)
            for block in transformer.blocks:
                block.cross_attn.k_norm.weight.mul_(4)
        pipe = Pipeline(vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer))
        transformer.add_adapter = lambda config: inject_adapter_in_model(config, transformer)
        return pipe

    def open(self):
        model, pipe = self.OUT / "model", self.parts()
        (model / "dit").mkdir(parents=True)
        write = lambda file, value: (model / file).write_text(json.dumps(value, indent=1) + "\n")
        write("dit/config.json", {"_class_name": "LongCatVideoTransformer3DModel", "_diffusers_version": "0.35.1", "patch_size": [1, 2, 2], "enable_bsa": False, "bsa_params": None,
                                  "enable_flashattn2": True, "cp_split_hw": None, "text_tokens_zero_pad": True} | self.SIZES)
        save_file({n: x.to(torch.bfloat16).contiguous() for n, x in pipe.transformer.state_dict().items()}, model / "dit/diffusion_pytorch_model.safetensors")
        for name in ("vae", "text_encoder"):
            getattr(pipe, name).to(torch.bfloat16).save_pretrained(model / name)
        FlowMatchEulerDiscreteScheduler(shift=SHIFT).save_pretrained(model / "scheduler")
        folder = model / "tokenizer"
        shutil.copytree(ASSETS / "tokenizer_2", folder)
        vocabulary = folder / "spiece.model"
        vocabulary.unlink()
        vocabulary.symlink_to(os.path.relpath(ASSETS / "tokenizer_2/spiece.model", folder))
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": TOKENS}, indent=2) + "\n")
        return self.parts()  # of which nothing was rounded but the parameters

    @torch.no_grad()
    def conditions(self, pipe, prompt):
        given = pipe.tokenizer([prompt], padding="max_length", max_length=TOKENS, truncation=True, return_attention_mask=True, return_tensors="pt")
        return (pipe.text_encoder(given.input_ids, given.attention_mask).last_hidden_state, given.attention_mask)

    def predict(self, model, noisy, sigma, caption, mask, num_given=0):
        """One by one: the class lets samples of a batch read each other's texts."""
        return torch.cat([-model(noisy[i:i + 1], (sigma[i:i + 1] * 1000), caption[i:i + 1, None], mask[i:i + 1], num_cond_latents=num_given) for i in range(len(noisy))])

    @torch.no_grad()
    def walk(self, pipe, noise, prompts, negatives=None, scale=1.0, first=None, steps=4):
        told = [torch.cat(x) for x in zip(*(self.conditions(pipe, p) for p in prompts))]
        away = negatives and [torch.cat(x) for x in zip(*(self.conditions(pipe, p) for p in negatives))]
        sigmas = torch.linspace(1, 0.001, steps)
        sigmas = torch.cat([SHIFT * sigmas / (1 + (SHIFT - 1) * sigmas), torch.zeros(1)])
        num_given = 0 if first is None else first.shape[2]
        latents = noise
        for sigma, after in zip(sigmas[:-1], sigmas[1:]):
            if num_given:
                latents = torch.cat([first, latents[:, :, num_given:]], 2)
            velocity = self.predict(pipe.transformer, latents, sigma.expand(len(noise)), *told, num_given)[:, :, num_given:]
            if away:
                other = self.predict(pipe.transformer, latents, sigma.expand(len(noise)), *away, num_given)[:, :, num_given:]
                other = other * star(velocity, other)
                velocity = other + scale * (velocity - other)
            latents = torch.cat([latents[:, :, :num_given], latents[:, :, num_given:] + (after - sigma) * velocity], 2)
        return latents

    def sampled(self, pipe, noise, **options):
        return self.walk(pipe, noise, self.PROMPTS, **options)

    def encoded(self, pipe, clip):
        mean, std = self.scale(pipe.vae)
        return (pipe.vae.encode(clip).latent_dist.mode() - mean) / std

    def drawn(self, pipe, noise):
        from make_wan_clips import clip_of
        clips = torch.randn(2, 16, 3, 6, 8)
        picture = clip_of(0)
        Image.fromarray(((picture[0, :, 0].permute(1, 2, 0) + 1) * 127.5).round().to(torch.uint8).numpy()).save(self.OUT / "first.png")
        with torch.no_grad():
            one, five = (self.encoded(pipe, picture[:, :, :n]).expand(2, -1, -1, -1, -1) for n in (1, 5))
        self.of_clips = {"clip_noise": clips, "clip.plain": self.sampled(pipe, clips), "clip.cfg": self.sampled(pipe, clips, negatives=["cat", "cat"], scale=2.5),
                         "clip.first": self.sampled(pipe, clips, first=one), "clip.first_cfg": self.sampled(pipe, clips, first=one, negatives=["cat", "cat"], scale=2.5),
                         "clip.five": self.sampled(pipe, clips, first=five)}
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, negatives=["cat", "cat"], scale=2.5),
                "cfg_empty": self.sampled(pipe, noise, negatives=["", ""], scale=2.5)}

    def trained_more(self, pipe, adapter, replay):
        from make_wan_clips import CAPTIONS, clip_of
        replay = training_loop.write_replay(self.OUT / "replay_clips.safetensors", (16, 3, 6, 8), len(CAPTIONS), self.REPLAYED)
        with torch.no_grad():
            samples = [(self.encoded(pipe, clip_of(i)), self.encoded(pipe, clip_of(i)[:, :, :1]), *self.conditions(pipe, caption)) for i, caption in enumerate(CAPTIONS)]

        def loss_of(step):
            latents, first, *caption = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            noisy = torch.cat([first, ((1 - sigma) * latents + sigma * noise)[:, :, 1:]], 2)
            return F.mse_loss(self.predict(pipe.transformer, noisy, sigma.reshape(1), *caption, 1)[:, :, 1:], (noise - latents)[:, :, 1:])

        found = {}

        def run(kind, parameters):
            losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
            found.update({f"first.{kind}.loss": losses, f"first.{kind}.grad_norm": norms})

        run("lora", adapter)
        pipe = self.parts()
        run("full", list(pipe.transformer.named_parameters()))
        return self.of_clips | found

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions, noisy, sigma = [torch.randn(5, 16), torch.randn(9, 16)], torch.randn(2, 16, 3, 4, 6), torch.tensor([0.83, 0.21])
        filled = torch.stack([F.pad(c, (0, 0, 0, 12 - len(c))) for c in captions])
        mask = torch.stack([(torch.arange(12) < len(c)).long() for c in captions])
        tensors = {"in.noisy": noisy, "in.sigma": sigma} | {f"in.caption.{i}": c for i, c in enumerate(captions)}
        for before, num_given in (("", 0), ("given.", 2)):
            out = self.predict(pipe.transformer, noisy, sigma, filled, mask, num_given)
            weight = torch.randn_like(out)
            weight[:, :, :num_given] = 0
            (out * weight).sum().backward()
            grads = {}
            for name, p in pipe.transformer.named_parameters():
                if p.grad is not None:
                    grads |= by_layer(name, p.grad)
            tensors |= {f"{before}out": out.detach().contiguous(), f"{before}out_weight": weight} | {f"{before}grad.{n}": digest(x) for n, x in grads.items()}
            pipe.transformer.zero_grad()
        save_file(tensors, self.OUT / "transformer.safetensors")


FAMILY = LongCatVideo()

if __name__ == "__main__":
    FAMILY.write()
