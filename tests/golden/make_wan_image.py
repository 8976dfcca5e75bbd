#!/usr/bin/env python3
"""A small random transformer of Wan 2.1 that sees pictures through CLIP, and CLIP's tower of pictures, with what diffusers, transformers and peft do with them, in wan_image/;
text encoder, autoencoder and tokenizer are those of wan_pipeline/ (make_wan.py):

transformer/          as I2V-14B, in bf16; with the table `places` of expected.safetensors it is as FLF2V-14B
image_encoder/        a CLIPVisionModel, in bf16
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of four steps
expected.safetensors  places; clip.pixels and clip.states of the first picture; i2v.{loss,grad_norm} and flf2v.{loss,grad_norm} of training the adapter; noise, and the latents
                      after 4 sampling steps for the text "red apple" from the first picture: i2v; with the second as the last frame: inp, flf2v
transformer.safetensors  the transformer alone: in.<input>, {i2v,flf2v}.out, out_weight, and {i2v,flf2v}.grad.<parameter>: the digest of the gradient of
                      sum(out * out_weight), of what reads the picture

clips/                clips of five frames, ten a second, of eight colours each, with metadata.csv

Texts have 512 rows, zeros behind their end: diffusers tells the states of pictures from those of texts
by this number.
"""
import shutil
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageSequence
from diffusers import WanImageToVideoPipeline, WanPipeline, WanTransformer3DModel
from safetensors.torch import save_file
from transformers import CLIPVisionConfig, CLIPVisionModel

import family, training_loop
from digest import digest
from make_encoders import randomise, rounded
from make_wan import Spaced, TOKENS, Wan

OUT = family.HERE / "wan_image"
FRAMES, STEPS = 5, 4
CLIPS = {"0.gif": (0, 1, 2, 3, 0), "1.gif": (2, 3, 0, 1, 2)}  # numbers of pictures
MEAN, DEVIATION = (torch.tensor(x)[None, :, None, None] for x in ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)))
OF_IMAGE = ("image_embedder", "add_k_proj", "add_v_proj", "norm_added_k")


class WanImage(Wan):
    TARGETS = Wan.TARGETS + ["add_k_proj", "add_v_proj"]

    def __init__(self):
        self.base = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        torch.manual_seed(31)
        side = 28
        self.encoder = rounded(randomise(CLIPVisionModel(CLIPVisionConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=side,
                                                                          patch_size=14, hidden_act="gelu"))))
        self.num_states = self.encoder.config.image_size ** 2 // 14 ** 2 + 1
        self.i2v = rounded(randomise(self.transformer(), 0.7))
        self.places = torch.randn(1, 2 * self.num_states, 16).to(torch.bfloat16).float()
        self.flf2v = self.transformer(pos_embed_seq_len=2 * self.num_states)
        self.flf2v.load_state_dict(self.i2v.state_dict() | {"condition_embedder.image_embedder.pos_embed": self.places})
        self.pictures = [family.tensor_of(path) for path in sorted(self.PICTURES.glob("*.png"))]

    @staticmethod
    def transformer(**more):
        return WanTransformer3DModel(num_attention_heads=2, attention_head_dim=6, in_channels=36, out_channels=16, text_dim=16, freq_dim=32, ffn_dim=16, num_layers=2,
                                     rope_max_seq_len=32, image_dim=16, added_kv_proj_dim=12, **more)

    def pixels(self, picture):
        """As Wan's own code scales what CLIP sees."""
        return (F.interpolate(picture, size=(self.encoder.config.image_size,) * 2, mode="bicubic", align_corners=False) * 0.5 + 0.5 - MEAN) / DEVIATION

    def states(self, *pictures):
        """As diffusers takes those of several: one behind the other along the batch."""
        return torch.cat([self.encoder(self.pixels(p), output_hidden_states=True).hidden_states[-2] for p in pictures])

    def text(self, prompt):
        return self.base.encode_prompt(prompt, do_classifier_free_guidance=False, max_sequence_length=TOKENS)[0]

    @torch.no_grad()
    def drawn(self, model, noise, last, states):
        pipe = WanImageToVideoPipeline(tokenizer=None, text_encoder=None, vae=self.base.vae, transformer=model, scheduler=Spaced(shift=5.0))
        pipe.set_progress_bar_config(disable=True)
        pipe.encode_image = lambda image, device: states  # which would scale pictures by CLIPImageProcessor
        return pipe(image=self.pictures[0], last_image=last, prompt_embeds=self.text("red apple"), latents=noise, num_frames=9, height=48, width=64,
                    num_inference_steps=4, guidance_scale=1.0, output_type="latent").frames

    @torch.no_grad()
    def beside(self, clip, both):
        """Mask and latents of a clip of which the first frame is known, and for `both` the last."""
        known = torch.zeros_like(clip)
        mask = torch.zeros(1, 4, (FRAMES + 3) // 4, 6, 8)
        known[:, :, 0], mask[:, :, 0] = clip[:, :, 0], 1
        if both:
            known[:, :, -1], mask[:, 3, -1] = clip[:, :, -1], 1
        return torch.cat([mask, self.encoded(known)], 1)

    def encoded(self, clip):
        mean, std = self.scale(self.base.vae)
        return (self.base.vae.encode(clip).latent_dist.mode() - mean) / std

    def write_clips(self):
        (OUT / "clips").mkdir()
        for name, numbers in CLIPS.items():
            frames = [Image.open(self.PICTURES / f"{n}.png").convert("RGB").quantize(8) for n in numbers]
            frames[0].save(OUT / "clips" / name, save_all=True, append_images=frames[1:], duration=100, loop=0)
            back = [np.array(f.convert("RGB")) for f in ImageSequence.Iterator(Image.open(OUT / "clips" / name))]
            assert all((a == np.array(b.convert("RGB"))).all() for a, b in zip(back, frames, strict=True))
        (OUT / "clips/metadata.csv").write_text("video,prompt\n" + "".join(f"{name},red apple\n" for name in CLIPS))

    @torch.no_grad()
    def sample(self, number, both):
        clip = Image.open(OUT / "clips" / list(CLIPS)[number])
        frames = [torch.from_numpy(np.array(f.convert("RGB"))).permute(2, 0, 1)[None].float() / 127.5 - 1 for f in ImageSequence.Iterator(clip)]
        clip = torch.stack(frames, 2)
        return self.encoded(clip), self.beside(clip, both), self.text("red apple"), self.states(frames[0], frames[-1]) if both else self.states(frames[0])

    def velocity(self, model, noisy, sigma, beside, text, states):
        return model(hidden_states=torch.cat([noisy, beside], 1), encoder_hidden_states=text, timestep=sigma * 1000, encoder_hidden_states_image=states, return_dict=False)[0]

    def train(self, name, model, samples, replay):
        def loss_of(step):
            latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            return F.mse_loss(self.velocity(model, (1 - sigma) * latents + sigma * noise, sigma.reshape(1), *conditions), noise - latents)

        losses, norms, _ = training_loop.train([(n, p) for n, p in model.named_parameters() if p.requires_grad], STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    def write_alone(self):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma, states, out_weight = torch.randn(2, 36, 2, 4, 4), torch.tensor([0.8125, 0.1875]), torch.randn(4, self.num_states, 16), torch.randn(2, 16, 2, 4, 4)
        filled = torch.stack([F.pad(c, (0, 0, 0, TOKENS - len(c))) for c in captions])
        tensors = {"in.noisy": noisy, "in.sigma": sigma, "in.caption.0": captions[0], "in.caption.1": captions[1], "in.states": states, "out_weight": out_weight}
        for name, model, seen in (("i2v", self.i2v, states[::2].contiguous()), ("flf2v", self.flf2v, states)):
            out = model(hidden_states=noisy, encoder_hidden_states=filled, timestep=sigma * 1000, encoder_hidden_states_image=seen, return_dict=False)[0]
            (out * out_weight).sum().backward()
            tensors[f"{name}.out"] = out.detach().contiguous()
            tensors |= {f"{name}.grad.{n}": digest(p.grad) for n, p in model.named_parameters() if any(part in n for part in OF_IMAGE)}
            model.zero_grad()
        save_file(tensors, OUT / "transformer.safetensors")

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        self.base.set_progress_bar_config(disable=True)
        self.write_alone()
        self.write_clips()
        replay = training_loop.write_replay(OUT / "replay.safetensors", (16, 2, 6, 8), len(CLIPS), self.REPLAYED, steps=STEPS, stride=1)
        noise = torch.randn(1, 16, 3, 6, 8)
        first, last = self.pictures[:2]
        with torch.no_grad():
            alone, both = self.states(first), self.states(first, last)
        expected = {"places": self.places, "noise": noise, "clip.pixels": self.pixels(first), "clip.states": alone,
                    "latents.i2v": self.drawn(self.i2v, noise, None, alone), "latents.inp": self.drawn(self.i2v, noise, last, alone),
                    "latents.flf2v": self.drawn(self.flf2v, noise, last, both)}
        adapter = training_loop.add_adapter(self.i2v, self.TARGETS)
        save_file(training_loop.adapter_state("transformer", self.i2v), OUT / "lora.safetensors", metadata={"format": "pt"})
        names = {n: p for n, p in training_loop.add_adapter(self.flf2v, self.TARGETS)}
        for n, p in adapter:
            names[n].data.copy_(p.data)
        for name, model in (("i2v", self.i2v), ("flf2v", self.flf2v)):
            samples = [self.sample(i, both=name == "flf2v") for i in range(len(CLIPS))]
            expected |= self.train(name, model, samples, replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        fresh = WanImage()
        fresh.i2v.to(torch.bfloat16).save_pretrained(OUT / "transformer")
        fresh.encoder.to(torch.bfloat16).save_pretrained(OUT / "image_encoder")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: x.std().item() for n, x in expected.items() if n.startswith("latents")})


if __name__ == "__main__":
    WanImage().write()
