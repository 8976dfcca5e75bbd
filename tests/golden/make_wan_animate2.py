#!/usr/bin/env python3
"""A small random transformer of Wan-Animate-2, and what diffusers + peft do with it, in wan_animate2/; noise and its levels are those of wan_animate/, clips and the image encoder those of wan_image/,
other components those of wan_pipeline/:

transformer/          the transformer in bf16, a diffusers folder
transformer.safetensors  the transformer alone: in.<input>, out, skipped (what it makes without a prompt to follow), out_weight, and grad.<parameter>: the digest of the gradient of
                      sum(out * out_weight), of some layers
metadata.json         samples: clip, picture, the clip whose motion it has, and its text
lora.safetensors      an adapter of some layers as peft names it, rank 2, alpha 2
expected.safetensors  {lora,layers}.{loss,grad_norm} of training the adapter, and queries of two blocks; and the latents after 4 sampling steps for the text "red apple" from the first picture and
                      the second clip: latents; with guidance of 3 away from "cat": cfg

Of its image embedder only the width is small, which diffusers does not let one choose. Attention to the clip is computed densely, under the mask that diffusers gives its own kernel.
"""
import copy, json, shutil
import torch
import torch.nn.functional as F
from diffusers import WanAnimate2Transformer3DModel, WanPipeline
from diffusers.models.transformers import transformer_wan_animate_2 as module
from safetensors.torch import load_file, save_file
from torch.nn.attention import flex_attention
from transformers import CLIPVisionModel

import family, training_loop
from make_encoders import randomise, rounded
from make_wan import Wan, walked
from make_wan_animate import WanAnimate
from make_wan_image import CLIPS

OUT, NOISE = family.HERE / "wan_animate2", family.HERE / "wan_animate"
DATA = family.HERE / "wan_image/clips"
SEEN = ("patch_embedding", "blocks.0.self_attn.to_k.", "blocks.4.self_attn.to_v.", "blocks.7.cross_attn.add_k_proj", "blocks.9.modulation", "time_projection", "img_emb.proj.1.", "head.modulation")
LORA = r"blocks\.[0-3]\.self_attn\.(to_q|to_k|to_v)"
LAYERS = ("blocks.0.self_attn.to_q.", "blocks.1.self_attn.to_q.")
TEXTS = ["cat", "a cat on the tree"]


def dense(query, key, value, attn_mask=None, backend=None, **others):
    """Attention of [B, L, heads, E]; of a block mask every row that it leaves empty, which is of no token, sees all."""
    if attn_mask is not None:
        attn_mask = flex_attention.create_mask(attn_mask.mask_mod, 1, 1, query.shape[1], key.shape[1], device="cpu")
        attn_mask = attn_mask | ~attn_mask.any(-1, keepdim=True)
    return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (query, key, value)), attn_mask=attn_mask).transpose(1, 2)


module.dispatch_attention_fn = dense
compiled = module.create_block_mask
module.create_block_mask = lambda *args, _compile, **options: compiled(*args, **options)


class WanAnimate2(WanAnimate):
    def __init__(self):
        self.base = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        self.encoder = CLIPVisionModel.from_pretrained(family.HERE / "wan_image/image_encoder", torch_dtype=torch.float32)
        torch.manual_seed(43)
        model = WanAnimate2Transformer3DModel(in_dim=36, dim=12, ffn_dim=8, freq_dim=8, text_dim=16, out_dim=16, num_heads=2, num_layers=10)
        model.img_emb = module.MLPProj(16, 12)
        self.model = rounded(randomise(model, 0.7))
        self.pictures = [family.tensor_of(path) for path in sorted(self.PICTURES.glob("*.png"))]

    @staticmethod
    def velocity(model, noisy, sigma, beside, text, states, clip, clip_text, clip_states, is_negative=False):
        """Of lists of texts [n, 16]; the clip's latents [B, 16, f, h, w] are known whole."""
        frames, h, w = clip.shape[2:]
        grid = torch.tensor([[frames, h // 2, w // 2]] * len(clip))
        tokens, cache = h * w // 4, module.WanAnimate2KVCache(model.config.num_layers)
        known = torch.cat([torch.ones_like(clip[:, :4]), clip], 1)
        common = {"timestep": sigma * 1000, "kv_cache": cache, "return_dict": False}
        model(list(clip), encoder_hidden_states=clip_text, encoder_hidden_states_image=clip_states, condition_latents=list(known), kv_cache_mode="extract", seq_len=frames * tokens,
              offset_grid_sizes=grid, **common)
        out = model(list(noisy), encoder_hidden_states=text, encoder_hidden_states_image=states, condition_latents=list(beside), kv_cache_mode="cached", seq_len=(frames + 1) * tokens,
                    reference_grid_sizes=grid, origin_len=frames * 4 - 3, origin_area=[h * 8, w * 8], is_uncondtion=is_negative, **common)[0]
        return torch.stack(out)

    def write_alone(self):
        torch.manual_seed(3)
        numbers = lambda *shape: torch.randn(shape).to(torch.bfloat16).float()
        texts, clip_texts = [numbers(5, 16), numbers(9, 16)], [numbers(7, 16), numbers(3, 16)]
        inputs = {"noisy": numbers(2, 36, 3, 4, 6), "sigma": torch.tensor([0.8125, 0.1875]), "states": numbers(2, 5, 16), "clip": numbers(2, 16, 2, 4, 6), "clip_states": numbers(2, 5, 16)}
        run = lambda **more: self.velocity(self.model, inputs["noisy"][:, :16], inputs["sigma"], inputs["noisy"][:, 16:], texts, inputs["states"], inputs["clip"], clip_texts,
                                           inputs["clip_states"], **more)
        for name, p in self.model.named_parameters():
            p.requires_grad_(name.startswith(SEEN))
        inputs |= {f"caption.{i}": x for i, x in enumerate(texts)} | {f"clip_caption.{i}": x for i, x in enumerate(clip_texts)}
        with torch.no_grad():
            skipped = run(is_negative=True)
        family.save_alone(self.model, {n: x.to(torch.bfloat16) for n, x in inputs.items()}, run(), OUT / "transformer.safetensors")
        saved = load_file(OUT / "transformer.safetensors")
        save_file(saved | {"skipped": skipped}, OUT / "transformer.safetensors")

    @torch.no_grad()
    def conditions(self, picture, clip, clip_text, text="red apple"):
        front, unknown = self.encoded(picture[:, :, None]), self.encoded(torch.zeros_like(clip))
        mask = torch.zeros(1, 4, 1 + unknown.shape[2], *unknown.shape[3:])
        mask[:, :, 0] = 1
        return (torch.cat([mask, torch.cat([front, unknown], 2)], 1), [self.text(text)[0]], self.states(picture), self.encoded(clip), [self.text(clip_text)[0]],
                self.states(clip[:, :, 0]))

    @torch.no_grad()
    def sample(self, number):
        clip, followed = (self.clip(DATA / list(CLIPS)[i]) for i in (number, 1 - number))
        picture = self.pictures[number]
        return torch.cat([self.encoded(picture[:, :, None]), self.encoded(clip)], 2), *self.conditions(picture, followed, TEXTS[number])

    @torch.no_grad()
    def drawn(self, noise, guidance=None):
        ways = [self.conditions(self.pictures[0], self.clip(DATA / list(CLIPS)[1]), TEXTS[0], text) for text in ("red apple", "cat")]
        return walked(noise, lambda latents, sigma, is_negative=False: self.velocity(self.model, latents, sigma, *ways[is_negative], is_negative=is_negative), guidance)

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        copy.deepcopy(self.model).to(torch.bfloat16).save_pretrained(OUT / "transformer")
        self.write_alone()
        rows = [{"video": f"../wan_image/clips/{a}", "animate2_reference_image": [f"../pipeline/pictures/{i}.png"], "animate2_reference_video": f"../wan_image/clips/{b}",
                 "animate2_prompt_ref": TEXTS[i], "prompt": "red apple"} for i, (a, b) in enumerate(zip(CLIPS, reversed(CLIPS)))]
        (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
        replay = {n: x.float() for n, x in load_file(NOISE / "replay.safetensors").items()}
        noise = load_file(NOISE / "expected.safetensors")["noise"]
        expected = {"latents": self.drawn(noise), "cfg": self.drawn(noise, 3.0)}
        original = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        samples = [self.sample(i) for i in range(len(CLIPS))]
        for n, p in self.model.named_parameters():
            p.requires_grad_(n.startswith(LAYERS))
        expected |= self.train("layers", self.model, samples, replay)
        self.model.load_state_dict(original)
        self.model.requires_grad_(False)
        torch.manual_seed(5)
        training_loop.add_adapter(self.model, LORA)
        save_file(training_loop.adapter_state("transformer", self.model), OUT / "lora.safetensors", metadata={"format": "pt"})
        expected |= self.train("lora", self.model, samples, replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: expected[n].std() for n in ("latents", "cfg")}, sum(f.stat().st_size for f in OUT.rglob("*")))


if __name__ == "__main__":
    WanAnimate2().write()
