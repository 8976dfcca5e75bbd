#!/usr/bin/env python3
"""What Bernini-R makes of sources, put together from diffusers' Wan with the weights of wan_pipeline/, and what peft does, in wan_bernini/:

small.png             a picture of 32 x 48, another size than the clips have
metadata.json         samples: a clip of wan_clips/, a clip that is changed, two pictures
transformer.safetensors  the transformer alone: in.<input>, in.source.{0,1,2}, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight) of some layers
lora.safetensors      an adapter as peft names it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,full}.{loss,grad_norm}; noise, and the latents after 4 sampling steps for the text "red apple" with the sources of the first sample: plain, with guidance of 3 away from
                      "cat": cfg; seven pictures, whose numbers are spread evenly from 1 to 5: many

Sources stand before the clip, the clip among them first, and what is denoised has the number 0: each pair of a head turns by number * 10000^(-2k / head_dim) beside its place.
"""
import json, shutil
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from diffusers import WanPipeline, WanTransformer3DModel
from safetensors.torch import save_file

import family, training_loop
from digest import digest
from make_wan import TOKENS, Wan, walked
from make_wan_clips import CAPTIONS, Way, clip_of

OUT, CLIPS, PICTURES = family.HERE / "wan_bernini", family.HERE / "wan_clips", family.Family.PICTURES
SEEN = ("patch_embedding", "blocks.0.attn1.to_k.", "blocks.1.ffn.net.2", "condition_embedder.time_proj", "proj_out")


def turned(tables, number):
    """Cosines and sines [1, L, 1, D] of a segment, turned by the number of its source; each number of a pair stands twice."""
    cos, sin = (t.double() for t in tables)
    dim = cos.shape[-1]
    angles = (number * 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)).repeat_interleave(2)
    turn = torch.complex(cos, sin) * torch.polar(torch.ones_like(angles), angles)
    return turn.real.float(), turn.imag.float()


def velocity(model, noisy, sigma, text, sources):
    count = len(sources)
    numbers = [i + 1.0 for i in range(count)] if count <= 5 else np.linspace(1, 5, count).tolist()
    segments = [*sources, noisy]
    x = torch.cat([model.patch_embedding(s).flatten(2).transpose(1, 2) for s in segments], 1)
    tables = [turned(model.rope(s), number) for s, number in zip(segments, [*numbers, 0.0])]
    rotary = [torch.cat([t[i] for t in tables], 1) for i in range(2)]
    temb, modulation, text, _ = model.condition_embedder(sigma * 1000, text, None)
    for block in model.blocks:
        x = block(x, text, modulation.unflatten(1, (6, -1)), rotary)
    shift, scale = (model.scale_shift_table + temb[:, None]).chunk(2, 1)
    frames, rows, columns = noisy.shape[2], noisy.shape[3] // 2, noisy.shape[4] // 2
    x = model.proj_out(model.norm_out(x.float()) * (1 + scale) + shift)[:, -frames * rows * columns:]
    x = x.reshape(len(x), frames, rows, columns, 2, 2, -1).permute(0, 6, 1, 2, 4, 3, 5)
    return x.reshape(len(x), -1, frames, rows * 2, columns * 2)


class Bernini:
    def __init__(self):
        self.pipe = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        self.model = WanTransformer3DModel.from_pretrained(Wan.OUT / "model/transformer", torch_dtype=torch.float32)
        self.way = Way("t2v", self.pipe.vae, [self.model])
        with torch.no_grad():
            self.texts = {caption: Wan().conditions(self.pipe, caption)[0] for caption in {*CAPTIONS, "cat"}}

    def text(self, caption):
        return self.texts[caption]

    @torch.no_grad()
    def sources(self, clips, pictures):
        return [self.way.encode(clip_of(i)) for i in clips] + [self.way.encode(family.tensor_of(p)[:, :, None]) for p in pictures]

    def write_alone(self):
        torch.manual_seed(3)
        numbers = lambda *shape: torch.randn(shape).to(torch.bfloat16).float()
        captions = [numbers(5, 16), numbers(9, 16)]
        sources = [numbers(2, 16, 2, 4, 6), numbers(2, 16, 1, 4, 6), numbers(2, 16, 1, 6, 4)]
        noisy, sigma, out_weight = numbers(2, 16, 2, 4, 6), torch.tensor([0.8125, 0.1875]), numbers(2, 16, 2, 4, 6)
        for name, p in self.model.named_parameters():
            p.requires_grad_(name.startswith(SEEN))
        out = velocity(self.model, noisy, sigma, torch.stack([F.pad(c, (0, 0, 0, TOKENS - len(c))) for c in captions]), sources)
        (out * out_weight).sum().backward()
        tensors = {"in.noisy": noisy, "in.sigma": sigma} | {f"in.source.{i}": s for i, s in enumerate(sources)} | {f"in.caption.{i}": c for i, c in enumerate(captions)}
        tensors |= {"out": out.detach().contiguous(), "out_weight": out_weight} | {f"grad.{n}": digest(p.grad) for n, p in self.model.named_parameters() if p.grad is not None}
        save_file(tensors, OUT / "transformer.safetensors")
        self.model.zero_grad()
        self.model.requires_grad_(True)

    def train(self, name, samples, replay, parameters):
        def loss_of(step):
            latents, text, sources = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            return F.mse_loss(velocity(self.model, (1 - sigma) * latents + sigma * noise, sigma.reshape(1), text, sources), noise - latents)

        losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    @torch.no_grad()
    def drawn(self, noise, sources, guidance=None):
        texts = [self.text("red apple"), self.text("cat")]
        return walked(noise, lambda latents, sigma, is_negative=False: velocity(self.model, latents, sigma, texts[is_negative], sources), guidance)

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        picture = np.random.default_rng(71).integers(0, 256, (6, 4, 3), dtype=np.uint8)
        Image.fromarray(np.kron(picture, np.ones((8, 8, 1), np.uint8))).save(OUT / "small.png", optimize=True)
        self.write_alone()
        given = [((i + 1) % 4, [PICTURES / f"{(i + 2) % 4}.png", OUT / "small.png"]) for i in range(len(CAPTIONS))]
        rows = [{"video": f"../wan_clips/{i}.webp", "prompt": caption, "bernini_source_video": f"../wan_clips/{clip}.webp",
                 "bernini_source_images": [f"../pipeline/pictures/{pictures[0].name}", "small.png"]} for i, (caption, (clip, pictures)) in enumerate(zip(CAPTIONS, given))]
        (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
        samples = [(self.way.encode(clip_of(i)).detach(), self.text(caption), self.sources([clip], pictures)) for i, (caption, (clip, pictures)) in enumerate(zip(CAPTIONS, given))]
        latents = tuple(samples[0][0].shape[1:])
        replay = training_loop.write_replay(OUT / "replay.safetensors", latents, len(samples), Wan.REPLAYED)
        noise = torch.randn(1, *latents)
        first = samples[0][2]
        many = self.sources([], [PICTURES / f"{i % 4}.png" for i in range(7)])
        expected = {"noise": noise, "plain": self.drawn(noise, first), "cfg": self.drawn(noise, first, 3.0), "many": self.drawn(noise, many)}
        original = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        expected |= self.train("full", samples, replay, list(self.model.named_parameters()))
        self.model.load_state_dict(original)
        torch.manual_seed(31)
        adapter = training_loop.add_adapter(self.model, Wan.TARGETS)
        save_file(training_loop.adapter_state("transformer", self.model), OUT / "lora.safetensors", metadata={"format": "pt"})
        expected |= self.train("lora", samples, replay, adapter)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: float(expected[n].std()) for n in ("plain", "cfg", "many")}, sum(f.stat().st_size for f in OUT.rglob("*")))


if __name__ == "__main__":
    Bernini().write()
