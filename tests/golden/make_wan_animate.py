#!/usr/bin/env python3
"""A small random transformer of Wan-Animate, and what diffusers + peft do with it, in wan_animate/; the image encoder is that of wan_image/, other components are those of wan_pipeline/:

transformer/          the transformer in bf16, a diffusers folder
transformer.safetensors  the transformer alone: in.<input>, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
                      of what the module has, and of two layers before it
faces/                clips of five frames of faces, of four colours each, and metadata.csv, whose clips and poses are the clips of wan_image/
lora.safetensors      an adapter of the transformer as diffusers' save_lora_weights writes it, rank 2, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of four steps, of latents with the picture's in front
expected.safetensors  {lora,module}.{loss,grad_norm} of training the transformer's adapter, and the whole module; noise, and the latents after 4 sampling steps for the text
                      "red apple" from the first picture, with poses and face of the first row; digests of such latents: kept, where the first clip is kept outside of mask.gif, on, where the
                      clip goes on from the third picture, and both; guided, with guidance 2.5 away from the text "cat" and a black face
mask.gif              a clip of five frames, white where a clip is not kept

Texts have 512 rows, zeros behind their end: diffusers tells the states of pictures from those of texts by this number.
"""
import copy, shutil
from types import MethodType, SimpleNamespace
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageSequence
from diffusers import WanAnimatePipeline, WanAnimateTransformer3DModel, WanPipeline
from safetensors.torch import save_file
from transformers import CLIPVisionModel

import family, training_loop
from digest import digest
from make_encoders import randomise, rounded
from make_wan import TOKENS, Wan, walked
from make_wan_image import CLIPS, STEPS, WanImage

OUT, SIDE = family.HERE / "wan_animate", 16
SEEN = ("pose_patch_embedding", "motion_encoder", "face_encoder", "face_adapter")


class WanAnimate(WanImage):
    TARGETS = Wan.TARGETS

    def __init__(self):
        self.base = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        self.encoder = CLIPVisionModel.from_pretrained(family.HERE / "wan_image/image_encoder", torch_dtype=torch.float32)
        torch.manual_seed(41)
        model = WanAnimateTransformer3DModel(num_attention_heads=2, attention_head_dim=6, in_channels=36, latent_channels=16, out_channels=16, text_dim=16, freq_dim=8, ffn_dim=16,
                                             num_layers=4, rope_max_seq_len=32, image_dim=16, added_kv_proj_dim=12, motion_encoder_size=SIDE,
                                             motion_encoder_channel_sizes={"4": 6, "8": 5, "16": 4}, motion_style_dim=8, motion_dim=3, motion_encoder_dim=10,
                                             face_encoder_hidden_dim=8, face_encoder_num_heads=2, inject_face_latents_blocks=2, motion_encoder_batch_size=2)
        self.model = rounded(randomise(model, 0.7))
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                if name.startswith("motion_encoder") and p.dim() > 1:
                    p.copy_(torch.randn_like(p).to(torch.bfloat16).float())  # they are scaled as they run
        self.pictures = [family.tensor_of(path) for path in sorted(self.PICTURES.glob("*.png"))]

    def velocity(self, model, noisy, sigma, beside, text, states, poses, faces):
        return model(hidden_states=torch.cat([noisy, beside], 1), encoder_hidden_states=text, timestep=sigma * 1000, encoder_hidden_states_image=states,
                     pose_hidden_states=poses, face_pixel_values=faces, return_dict=False)[0]

    def write_alone(self):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma, states = torch.randn(2, 36, 3, 4, 4), torch.tensor([0.8125, 0.1875]), torch.randn(2, 5, 16)
        poses, faces = torch.randn(2, 16, 2, 4, 4), torch.rand(2, 3, 5, SIDE, SIDE) * 2 - 1
        faces = faces.to(torch.bfloat16).float()
        filled = torch.stack([F.pad(c, (0, 0, 0, TOKENS - len(c))) for c in captions])
        out = self.velocity(self.model, noisy[:, :16], sigma, noisy[:, 16:], filled, states, poses, faces)
        for name, p in self.model.named_parameters():
            p.requires_grad_(name.startswith(SEEN + ("blocks.1.attn1", "patch_embedding")))
        family.save_alone(self.model, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1], "states": states, "poses": poses, "faces": faces.to(torch.bfloat16)}, out,
                          OUT / "transformer.safetensors")

    def write_faces(self):
        (OUT / "faces").mkdir()
        for number, name in enumerate(CLIPS):
            frames = [Image.fromarray(np.kron(np.random.default_rng(10 * number + i).integers(0, 4, (4, 4)), np.ones((4, 4))).astype(np.uint8) * 80).convert("RGB").quantize(4) for i in range(5)]
            frames[0].save(OUT / "faces" / name, save_all=True, append_images=frames[1:], duration=100, loop=0)
        masks = [Image.fromarray((np.kron(np.random.default_rng(50 + i).integers(0, 2, (12, 16)), np.ones((4, 4))) * 255).astype(np.uint8)) for i in range(5)]
        masks[0].save(OUT / "mask.gif", save_all=True, append_images=masks[1:], duration=100, loop=0)
        rows = "".join(f"../../wan_image/clips/{a},../../wan_image/clips/{b},{a},red apple\n" for a, b in zip(CLIPS, reversed(CLIPS)))
        (OUT / "faces/metadata.csv").write_text("video,animate_pose_video,animate_face_video,prompt\n" + rows)

    @staticmethod
    def clip(path):
        frames = [torch.from_numpy(np.array(f.convert("RGB"))).permute(2, 0, 1)[None].float() / 127.5 - 1 for f in ImageSequence.Iterator(Image.open(path))]
        return torch.stack(frames, 2)

    @torch.no_grad()
    def known(self, kept, previous):
        """What stands behind the noise where a clip is kept outside of a mask, or goes on from a picture, as diffusers' pipeline makes it."""
        pipe = SimpleNamespace(vae=self.base.vae, vae_scale_factor_temporal=4, vae_scale_factor_spatial=8)
        pipe.get_i2v_mask = MethodType(WanAnimatePipeline.get_i2v_mask, pipe)
        mask = (self.clip(OUT / "mask.gif")[:, :1] + 1) / 2
        return WanAnimatePipeline.prepare_prev_segment_cond_latents(
            pipe, prev_segment_cond_video=None if previous is None else previous[:, :, None], background_video=self.clip(family.HERE / "wan_image/clips/0.gif"), mask_video=mask,
            segment_frame_length=5, start_frame=0 if previous is None else 4, height=48, width=64, task="replace" if kept else "animate")

    @torch.no_grad()
    def conditions(self, first, frames, poses, faces):
        """What the transformer reads beside the noise, with the first picture as a frame in front."""
        front, unknown = self.encoded(first[:, :, None]), self.encoded(torch.zeros(1, 3, frames, *first.shape[2:]))
        mask = torch.zeros(1, 4, 1 + unknown.shape[2], *unknown.shape[3:])
        mask[:, :, 0] = 1
        return torch.cat([mask, torch.cat([front, unknown], 2)], 1), self.text("red apple"), self.states(first), self.encoded(poses), faces

    @torch.no_grad()
    def sample(self, number):
        clips, names = family.HERE / "wan_image/clips", list(CLIPS)
        clip = self.clip(clips / names[number])
        first = clip[:, :, 0]
        latents = torch.cat([self.encoded(first[:, :, None]), self.encoded(clip)], 2)
        return latents, *self.conditions(first, clip.shape[2], self.clip(clips / names[1 - number]), self.clip(OUT / "faces" / names[number]))

    @torch.no_grad()
    def drawn(self, noise, known=None, scale=None):
        names = list(CLIPS)
        beside, *conditions = self.conditions(self.pictures[0], 5, self.clip(family.HERE / "wan_image/clips" / names[1]), self.clip(OUT / "faces" / names[0]))
        conditions = [beside if known is None else torch.cat([beside[:, :, :1], known], 2), *conditions]
        away = [conditions[0], self.text("cat"), *conditions[2:4], conditions[4] * 0 - 1]  # as diffusers' pipeline leads away
        return walked(noise, lambda latents, sigma, is_negative=False: self.velocity(self.model, latents, sigma, *(away if is_negative else conditions)), scale)

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        copy.deepcopy(self.model).to(torch.bfloat16).save_pretrained(OUT / "transformer")
        self.write_alone()
        self.write_faces()
        replay = training_loop.write_replay(OUT / "replay.safetensors", (16, 3, 6, 8), len(CLIPS), self.REPLAYED, steps=STEPS, stride=1)
        noise = torch.randn(1, 16, 3, 6, 8)
        expected = {"noise": noise, "latents": self.drawn(noise)}
        for name, kept, previous in (("kept", True, None), ("on", False, self.pictures[2]), ("both", True, self.pictures[2])):
            expected[name] = digest(self.drawn(noise, self.known(kept, previous)))
        expected["guided"] = digest(self.drawn(noise, scale=2.5))
        original = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        samples = [self.sample(i) for i in range(len(CLIPS))]
        for n, p in self.model.named_parameters():
            p.requires_grad_(n.startswith(SEEN))
        expected |= self.train("module", self.model, samples, replay)
        self.model.load_state_dict(original)
        self.model.requires_grad_(False)
        training_loop.add_adapter(self.model, r"blocks\..*attn1\.(to_q|to_k|to_v|to_out\.0)")
        save_file(training_loop.adapter_state("transformer", self.model), OUT / "lora.safetensors", metadata={"format": "pt"})
        expected |= self.train("lora", self.model, samples, replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, expected["latents"].std())


if __name__ == "__main__":
    WanAnimate().write()
