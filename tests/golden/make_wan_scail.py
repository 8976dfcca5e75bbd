#!/usr/bin/env python3
"""A small random transformer of SCAIL-2, put together from diffusers' Wan, and what it and peft do, in wan_scail/; the image encoder is that of wan_image/, other components are those of wan_pipeline/:

transformer/          the transformer in bf16, in the published names
transformer.safetensors  the transformer alone: in.<input>, {animation,replacement}.out, out_weight, and {animation,replacement}.grad.<parameter>: the digest of the gradient of
                      sum(out * out_weight) of some layers
clips/                of five frames, 64 by 32, of four colours each: {i}.gif, drive.{i}.gif; masks drive.{i}.mask.gif, black and of three of seven colours; picture.{i}.png and picture.{i}.mask.png
metadata.json         samples: a clip, a picture or two, a driving clip, masks, and whether a person is replaced
lora.safetensors      an adapter as peft names it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,patches}.{loss,grad_norm} of training the adapter, each sample in its way, and the three convolutions, all samples as animations; areas of the first sample: picture_areas,
                      driving_areas; noise, and the latents after 4 sampling steps for the text "red apple": animation of the first sample, with guidance of 3 away from "cat": cfg; replacement of the second

Places: pictures stand before the clip in time, the first of them nearest; the driving clip stands beside it, 120 tokens to the right, at means of four places each. Replacing, pictures stand 120 tokens
below the clip, the nearest at the time of its first frame.
"""
import json, shutil
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from diffusers import WanPipeline, WanTransformer3DModel
from safetensors.torch import save_file
from transformers import CLIPVisionModel

import family, training_loop
from digest import digest
from make_encoders import randomise, rounded
from make_wan import TOKENS, Wan, walked
from make_wan_animate import WanAnimate
from make_wan_files import TRANSFORMER, renamed

OUT = family.HERE / "wan_scail"
HEIGHT, WIDTH, FRAMES, STEPS = 32, 64, 5, 10
NAMES = [(rf"^condition_embedder\.image_embedder\.{ours}\.", f"img_emb.proj.{theirs}.") for ours, theirs in (("norm1", 0), (r"ff\.net\.0\.proj", 1), (r"ff\.net\.2", 3), ("norm2", 4))] + TRANSFORMER + [
    (r"\.add_k_proj", ".k_img"), (r"\.add_v_proj", ".v_img"), (r"\.norm_added_k", ".norm_k_img")]
COLOURS = [(255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (255, 0, 255), (0, 255, 255)]
SEEN = ("patch_embedding", "blocks.0.attn1.to_k.", "blocks.1.attn2.add_v_proj", "blocks.1.ffn.net.2", "condition_embedder.image_embedder.ff.net.2", "condition_embedder.time_proj", "proj_out")
PATCHES = ("patch_embedding",)


def known(latents):
    return torch.cat([latents, torch.ones_like(latents[:, :4])], 1)


class Scail(WanTransformer3DModel):
    """diffusers' parts with two convolutions, and places of their own."""

    def add_convolutions(self, areas=28):
        like = self.patch_embedding
        conv = lambda channels: torch.nn.Conv3d(channels, like.out_channels, like.kernel_size, like.stride)
        self.patch_embedding_pose, self.patch_embedding_mask = conv(like.in_channels), conv(areas)
        return self

    def table(self, frames, rows, columns, from_frame, from_row, from_column):
        """Cosines and sines [frames, rows, columns, head_dim], each number of a pair twice."""
        sizes = [self.rope.t_dim, self.rope.h_dim, self.rope.w_dim]
        tables = []
        for values in (self.rope.freqs_cos, self.rope.freqs_sin):
            t, h, w = values.double().split(sizes, 1)
            places = (t[from_frame:from_frame + frames, None, None], h[None, from_row:from_row + rows, None], w[None, None, from_column:from_column + columns])
            tables.append(torch.cat([x.expand(frames, rows, columns, -1) for x in places], -1))
        return tables

    def forward(self, noisy, sigma, text, states, pictures, picture_areas, driving, driving_areas, replaces):
        num_pictures, frames, (rows, columns) = pictures.shape[2], noisy.shape[2], (n // 2 for n in noisy.shape[3:])
        all_frames = torch.cat([known(pictures), torch.cat([noisy, torch.zeros_like(noisy[:, :4])], 1)], 2)
        areas = torch.cat([picture_areas, torch.zeros(len(noisy), picture_areas.shape[1], *noisy.shape[2:])], 2)
        patches = self.patch_embedding(all_frames) + self.patch_embedding_mask(areas)
        driving = self.patch_embedding_pose(known(driving)) + self.patch_embedding_mask(driving_areas)
        x = torch.cat([patches.flatten(2), driving.flatten(2)], 2).transpose(1, 2)
        first = num_pictures - int(replaces)
        tables = [self.table(num_pictures, rows, columns, 0, 120 * int(replaces), 0), self.table(frames, rows, columns, first, 0, 0), self.table(frames, rows, columns, first, 0, 120)]
        tables[2] = [t.unflatten(2, (-1, 2)).unflatten(1, (-1, 2)).mean((2, 4)) for t in tables[2]]
        rotary = [torch.cat([t[i].flatten(0, 2) for t in tables])[None, :, None].float() for i in range(2)]
        temb, modulation, text, states = self.condition_embedder(sigma * 1000, text, states)
        for block in self.blocks:
            x = block(x, torch.cat([states, text], 1), modulation.unflatten(1, (6, -1)), rotary)
        shift, scale = (self.scale_shift_table + temb[:, None]).chunk(2, 1)
        x = self.proj_out(self.norm_out(x.float()) * (1 + scale) + shift)[:, num_pictures * rows * columns:][:, :frames * rows * columns]
        x = x.reshape(len(x), frames, rows, columns, 2, 2, -1).permute(0, 6, 1, 2, 4, 3, 5)
        return x.reshape(len(x), -1, frames, rows * 2, columns * 2)


def areas_of(masks):
    """The areas [1, 28, f, h, w] of masks [1, 3, F, H, W] from -1 to 1."""
    on = (masks[0].transpose(0, 1) > (225 - 127.5) / 127.5).float()
    colours = torch.stack([torch.stack([on[:, i] if c[i] else 1 - on[:, i] for i in range(3)]).prod(0) for c in COLOURS], 1)
    shares = F.interpolate(colours, scale_factor=1 / 8, mode="area")
    frames = torch.cat([shares[:1].repeat(4, 1, 1, 1), shares[1:]])
    return frames.view(len(frames) // 4, 28, *frames.shape[2:]).transpose(0, 1)[None]


def half(clip):
    return F.interpolate(clip[0].transpose(0, 1), scale_factor=0.5, mode="bilinear", align_corners=False).transpose(0, 1)[None]


class WanScail(WanAnimate):
    TARGETS = Wan.TARGETS

    def __init__(self):
        self.base = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        self.encoder = CLIPVisionModel.from_pretrained(family.HERE / "wan_image/image_encoder", torch_dtype=torch.float32)
        torch.manual_seed(47)
        model = Scail(num_attention_heads=2, attention_head_dim=12, in_channels=20, out_channels=16, text_dim=16, freq_dim=32, ffn_dim=16, num_layers=2, rope_max_seq_len=256, image_dim=16,
                      added_kv_proj_dim=24).add_convolutions()
        self.model = rounded(randomise(model, 0.7))

    @staticmethod
    def velocity(model, noisy, sigma, *conditions):
        return model(noisy, sigma, *conditions)

    def write_clips(self):
        folder = OUT / "clips"
        folder.mkdir()
        random = np.random.default_rng(61)

        def picture(side):
            shape = (HEIGHT // side, WIDTH // side)
            return Image.fromarray((np.kron(random.integers(0, 4, shape), np.ones((side, side))) * 80).astype(np.uint8)).convert("RGB").quantize(4)

        def mask(colours):
            palette = np.array([(0, 0, 0)] + [COLOURS[i] for i in colours], np.uint8)
            blocks = np.kron(random.integers(0, len(palette), (HEIGHT // 2, WIDTH // 2)), np.ones((2, 2), int))
            blocks = np.roll(blocks, 1, 1)  # so that half the sides mix colours
            return Image.fromarray(palette[blocks]).quantize(8)

        save = lambda name, frames: frames[0].save(folder / name, save_all=True, append_images=frames[1:], duration=100, loop=0)
        for i, colours in enumerate(((1, 2, 0), (6, 3, 5))):
            save(f"{i}.gif", [picture(4) for _ in range(FRAMES)])
            save(f"drive.{i}.gif", [picture(2) for _ in range(FRAMES)])
            save(f"drive.{i}.mask.gif", [mask(colours) for _ in range(FRAMES)])
        for i, colours in enumerate(((1, 2, 4), (6, 3, 0), (5,))):
            picture(4).save(folder / f"picture.{i}.png")
            mask(colours).convert("RGB").save(folder / f"picture.{i}.mask.png")

    @torch.no_grad()
    def conditions(self, number, replaces, text="red apple"):
        folder, numbers = OUT / "clips", ((0,), (1, 2))[number]
        pictures, masks = ([family.tensor_of(folder / f"picture.{i}{end}.png")[:, :, None] for i in (*numbers[1:], numbers[0])] for end in ("", ".mask"))
        driving, driving_masks = (half(self.clip(folder / f"drive.{number}{end}.gif")) for end in ("", ".mask"))
        return (self.text(text), self.states(pictures[-1][:, :, 0]), torch.cat([self.encoded(p) for p in pictures], 2), torch.cat([areas_of(m) for m in masks], 2), self.encoded(driving),
                areas_of(driving_masks), replaces)

    @torch.no_grad()
    def sample(self, number, replaces):
        return self.encoded(self.clip(OUT / f"clips/{number}.gif")), *self.conditions(number, replaces)

    def write_alone(self):
        torch.manual_seed(3)
        numbers = lambda *shape: torch.randn(shape).to(torch.bfloat16).float()
        captions = [numbers(5, 16), numbers(9, 16)]
        inputs = {"noisy": numbers(2, 16, 2, 4, 8), "sigma": torch.tensor([0.8125, 0.1875]), "states": numbers(2, 5, 16), "pictures": numbers(2, 16, 2, 4, 8),
                  "picture_areas": torch.rand(2, 28, 2, 4, 8).to(torch.bfloat16).float(), "driving": numbers(2, 16, 2, 2, 4), "driving_areas": torch.rand(2, 28, 2, 2, 4).to(torch.bfloat16).float()}
        filled = torch.stack([F.pad(c, (0, 0, 0, TOKENS - len(c))) for c in captions])
        out_weight = numbers(2, 16, 2, 4, 8)
        for name, p in self.model.named_parameters():
            p.requires_grad_(name.startswith(SEEN))
        tensors = {f"in.{n}": x.to(torch.bfloat16) for n, x in inputs.items()} | {f"in.caption.{i}": c.to(torch.bfloat16) for i, c in enumerate(captions)} | {"out_weight": out_weight}
        for name in ("animation", "replacement"):
            x = dict(inputs)
            out = self.model(x.pop("noisy"), x.pop("sigma"), filled, x.pop("states"), *x.values(), name == "replacement")
            (out * out_weight).sum().backward()
            tensors |= {f"{name}.out": out.detach().contiguous()} | {f"{name}.grad.{n}": digest(p.grad) for n, p in self.model.named_parameters() if p.grad is not None}
            self.model.zero_grad()
        save_file(tensors, OUT / "transformer.safetensors")

    def train(self, name, samples, replay):
        def loss_of(step):
            latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            return F.mse_loss(self.model((1 - sigma) * latents + sigma * noise, sigma.reshape(1), *conditions), noise - latents)

        losses, norms, _ = training_loop.train([(n, p) for n, p in self.model.named_parameters() if p.requires_grad], STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    @torch.no_grad()
    def drawn(self, noise, number, replaces, guidance=None):
        ways = [self.conditions(number, replaces, text) for text in ("red apple", "cat")]
        return walked(noise, lambda latents, sigma, is_negative=False: self.model(latents, sigma, *ways[is_negative]), guidance)

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        (OUT / "transformer").mkdir(parents=True)
        save_file({renamed(n, NAMES): p.detach().to(torch.bfloat16).contiguous() for n, p in self.model.named_parameters()}, OUT / "transformer/diffusion_pytorch_model.safetensors")
        config = {"_class_name": "WanSCAILModel", "dim": 24, "eps": 1e-6, "ffn_dim": 16, "freq_dim": 32, "in_dim": 20, "mask_dim": 28, "model_type": "i2v", "num_heads": 2, "num_layers": 2, "out_dim": 16,
                  "text_len": 512}
        (OUT / "transformer/config.json").write_text(json.dumps(config, indent=2) + "\n")
        self.write_alone()
        self.write_clips()
        rows = [{"video": f"clips/{i}.gif", "prompt": "red apple", "scail2_reference_image": [f"clips/picture.{k}.png" for k in numbers],
                 "scail2_reference_mask": [f"clips/picture.{k}.mask.png" for k in numbers], "scail2_driving_video": f"clips/drive.{i}.gif", "scail2_driving_mask": f"clips/drive.{i}.mask.gif",
                 "scail2_replace": i} for i, numbers in enumerate(((0,), (1, 2)))]
        (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
        replay = training_loop.write_replay(OUT / "replay.safetensors", (16, 2, HEIGHT // 8, WIDTH // 8), 2, torch.bfloat16, steps=STEPS, stride=1)
        noise = torch.randn(1, 16, 2, HEIGHT // 8, WIDTH // 8)
        areas = self.conditions(0, False)
        expected = {"noise": noise, "picture_areas": areas[3], "driving_areas": areas[5], "animation": self.drawn(noise, 0, False), "cfg": self.drawn(noise, 0, False, 3.0),
                    "replacement": self.drawn(noise, 1, True)}
        original = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        for n, p in self.model.named_parameters():
            p.requires_grad_(n.startswith(PATCHES))
        expected |= self.train("patches", [self.sample(i, False) for i in range(2)], replay)
        self.model.load_state_dict(original, strict=False)
        training_loop.add_adapter(self.model, self.TARGETS)
        save_file(training_loop.adapter_state("transformer", self.model), OUT / "lora.safetensors", metadata={"format": "pt"})
        expected |= self.train("lora", [self.sample(i, bool(i)) for i in range(2)], replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: expected[n].std() for n in ("animation", "cfg", "replacement")}, sum(f.stat().st_size for f in OUT.rglob("*")))


if __name__ == "__main__":
    WanScail().write()
