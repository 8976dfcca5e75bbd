#!/usr/bin/env python3
"""A whole small MOSS-Image with random weights, and what DiffSynth-Studio + peft do with it, in moss_image_pipeline/:

model/                a folder as diffusers' pipelines have it, its components in bf16; the tokenizer is that of tokenizers/qwen35_json
lora.safetensors      an adapter under the names of the makers' transformer, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full,references}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance from a text and from none, all blocks run or block 1 left out there, and with reference pictures
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
edit.safetensors      the transformer alone beside two reference pictures, likewise
text.safetensors      the text encoder alone: the states of two captions, and of one with two pictures

DiffSynth-Studio's transformer has no reference pictures; `with_references` computes them in plain torch: their modulation is that of the time 0, and they see each other alone.
"""
import json, types
import torch
from diffsynth.diffusion import FlowMatchScheduler
from diffsynth.models.moss_image_dit import MOSSImageDiT, rotate, situ
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler
from diffusers.loaders.peft import PeftAdapterMixin
from safetensors.torch import save_file
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessor, Qwen3_5Config, Qwen3_5Model

import family
from make_encoders import randomise, rounded
from make_qwen import randomise_gated

BEFORE, AFTER = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n"


class Transformer(MOSSImageDiT, PeftAdapterMixin):
    def __init__(self, **config):
        super().__init__(**config)
        self.rope._non_persistent_buffers_set.add("bands")  # which files have, and which no training moves


def run_block(layer, runs, ropes, modulations):
    """A block on runs of tokens [references, others], each with a modulation of its own; references see references."""
    heads = lambda x: x.unflatten(-1, (layer.heads, -1))
    moved = lambda x, norm, shift, scale: norm(x) * (1 + scale[:, None]) + shift[:, None]
    projected = []
    for x, rope, m in zip(runs, ropes, modulations):
        y = moved(x, layer.norm1, m[:, 0], m[:, 1])
        projected.append((rotate(layer.q_norm(heads(layer.proj["q"](y))), rope), rotate(layer.k_norm(heads(layer.proj["k"](y))), rope), heads(layer.proj["v"](y))))
    out = []
    for i, (x, m) in enumerate(zip(runs, modulations)):
        seen = projected[:1] if i == 0 else projected
        k, v = (torch.cat([p[j] for p in seen], 1).transpose(1, 2) for j in (1, 2))
        y = scaled_dot_product_attention(projected[i][0].transpose(1, 2), k, v).transpose(1, 2).flatten(2)
        x = x + layer.proj["o"](y) * m[:, 2, None]
        hidden, gate = layer.proj["ffn_up_gate"](moved(x, layer.norm2, m[:, 3], m[:, 4])).chunk(2, -1)
        out.append(x + layer.proj["ffn_down"](situ(hidden, gate)) * m[:, 5, None])
    return out


def with_references(model, noisy, sigma, text, references):
    """The velocity of one sample; text [1, T, E] without padding, references a list of latents [1, C, h, w]."""
    height, width = noisy.shape[2:]

    def modulation(sigma):
        half = model.freq_dim // 2
        phase = (sigma * 1000).double()[:, None] * 10000 ** (-torch.arange(half, dtype=torch.float64) / half)
        time = model.time_embedding(torch.cat((phase.cos(), phase.sin()), -1).float())
        return model.shared_block_modulation(time).view(1, 6, -1), model.video_head_modulation(time).view(1, 2, -1)

    tokens = lambda x: model.video_embedder(x.flatten(2).transpose(1, 2).contiguous())
    rope = model.rope(height, width, text.shape[1], "cpu")
    of_references = []
    for number, latents in enumerate(references, 1):
        own = model.rope(*latents.shape[2:], text.shape[1], "cpu")[:, :latents.shape[2] * latents.shape[3]]
        bands = model.rope.bands * number  # the first of the four axes, of sines and of cosines
        half = own.shape[-1] // 2
        own[..., :len(bands)], own[..., half:half + len(bands)] = bands.sin(), bands.cos()
        of_references.append(own)
    ropes = [torch.cat(of_references, 1), rope]
    modulations, head = zip(modulation(torch.zeros_like(sigma)), modulation(sigma))
    runs = [torch.cat([tokens(x) for x in references], 1), torch.cat([tokens(noisy), model.text_embedder(text, rope[:, height * width:])], 1)]
    for layer in model.layers:
        runs = run_block(layer, runs, ropes, modulations)
    x = model.final_norm_video(runs[1][:, :height * width]) * (1 + head[1][:, 1, None]) + head[1][:, 0, None]
    return model.final_linear_video(x).transpose(1, 2).unflatten(2, (height, width))


class MossImage(family.Family):
    OUT = family.HERE / "moss_image_pipeline"
    TARGETS = r"layers\..*(q|k|v|o|ffn_up_gate|ffn_down)"
    LATENTS = (32, 3, 4)
    REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]  # by row
    TRANSFORMER = dict(dim=32, ffn_dim=48, num_heads=2, num_layers=3, text_dim=24, freq_dim=32, latent_channels=32)
    # What no tensor tells is as in Qwen3.5-9B.
    TEXT = dict(hidden_size=24, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
                linear_key_head_dim=8, linear_value_head_dim=8, max_position_embeddings=4096,
                rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0], "mrope_interleaved": True})
    VISION = dict(depth=2, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=4, spatial_merge_size=2, out_hidden_size=24, num_position_embeddings=16)
    SHOWN = dict(size={"shortest_edge": 64, "longest_edge": 16384}, patch_size=4, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen35_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        ids = {f"{name}_token_id": tokens.convert_tokens_to_ids(f"<|{token}|>") for name, token in
               (("image", "image_pad"), ("video", "video_pad"), ("vision_start", "vision_start"), ("vision_end", "vision_end"))}
        text = randomise_gated(Qwen3_5Model(Qwen3_5Config(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, **ids)), 1.2)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(8, 8, 16, 16), decoder_block_out_channels=(4, 8, 8, 12), layers_per_block=1, latent_channels=8, norm_num_groups=4), 1.2)
        vae.bn.running_mean.normal_(0, 0.3)
        vae.bn.running_var.uniform_(0.3, 2)
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        transformer = randomise(Transformer(**self.TRANSFORMER), 0.7)
        return types.SimpleNamespace(vae=rounded(vae), text_encoder=text, tokens=tokens, transformer=rounded(transformer), processor=Qwen2VLImageProcessor(**self.SHOWN))

    def open(self):
        pipe, model = self.parts(), self.OUT / "model"
        index = {"_class_name": "MOSSImagePipeline", "_diffusers_version": "0.42.1", "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
                 "text_encoder": ["transformers", "Qwen3_5Model"], "tokenizer": ["transformers", "Qwen3_5Tokenizer"], "transformer": ["diffusers", "MOSSImageTransformer"],
                 "vae": ["diffusers", "AutoencoderKLFlux2"]}
        FlowMatchEulerDiscreteScheduler(shift=5.0).save_pretrained(model / "scheduler")
        pipe.tokens.save_pretrained(model / "tokenizer")
        pipe.processor.save_pretrained(model / "processor")
        for name in ("text_encoder", "vae"):
            getattr(pipe, name).to(torch.bfloat16).save_pretrained(model / name)
        (model / "transformer").mkdir()
        config = {"_class_name": "MOSSImageTransformer", "_diffusers_version": "0.42.1", "rope_base": 10000.0} | self.TRANSFORMER
        (model / "transformer/config.json").write_text(json.dumps(config, indent=2) + "\n")
        state = {n: x.to(torch.bfloat16).contiguous() for n, x in pipe.transformer.state_dict().items()}
        save_file(state | {"rope.bands": pipe.transformer.rope.bands}, model / "transformer/diffusion_pytorch_model.safetensors", metadata={"format": "pt"})
        (model / "model_index.json").write_text(json.dumps(index, indent=2) + "\n")
        pipe = self.parts()  # of which nothing was rounded but the parameters
        pipe.set_progress_bar_config = lambda **_: None
        return pipe

    def latents(self, pipe, image):
        raw = pipe.vae.encode(image).latent_dist.mode()
        B, C, H, W = raw.shape
        patches = raw.view(B, C, H // 2, 2, W // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(B, 4 * C, H // 2, W // 2)
        return (patches - pipe.vae.bn.running_mean.view(1, -1, 1, 1)) / (pipe.vae.bn.running_var.view(1, -1, 1, 1) + pipe.vae.config.batch_norm_eps).sqrt()

    @torch.no_grad()
    def states(self, pipe, prompt, pictures=()):
        """The states [T, E] of a caption, before which pictures [1, 3, H, W] stand."""
        shown = pipe.processor([(p[0] * 127.5 + 127.5).round().to(torch.uint8) for p in pictures], return_tensors="pt") if pictures else {}
        told = ""
        for i, grid in enumerate(shown.get("image_grid_thw", []), 1):
            told += f"Picture {i}: <|vision_start|>" + "<|image_pad|>" * (int(grid.prod()) // 4) + "<|vision_end|>"
        ids = pipe.tokens(BEFORE + told + prompt + AFTER, return_tensors="pt").input_ids
        types = (ids == pipe.text_encoder.config.image_token_id).int()
        return pipe.text_encoder(input_ids=ids, **({"mm_token_type_ids": types} if pictures else {}), **shown).last_hidden_state[0]

    def conditions(self, pipe, prompt):
        return ([self.states(pipe, prompt)],)

    def predict(self, model, noisy, sigma, captions, references=(), skip=None):
        if references:
            return torch.cat([with_references(model, noisy[b:b + 1], sigma[b:b + 1], text[None], [x[b:b + 1] for x in references]) for b, text in enumerate(captions)])
        text = torch.nn.utils.rnn.pad_sequence(captions, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(c)) for c in captions], batch_first=True).bool()
        return model(noisy, sigma * 1000, text, mask, skip_layers=skip)

    @torch.no_grad()
    def sampled(self, pipe, noise, negative=None, guidance=2.5, skip=None, pictures=()):
        scheduler = FlowMatchScheduler("MOSS-Image")
        scheduler.set_timesteps(4, shift=5.0)
        references = [self.latents(pipe, p).expand(len(noise), -1, -1, -1) for p in pictures]
        captions = [self.states(pipe, prompt, pictures) for prompt in self.PROMPTS]
        sigmas = [*scheduler.sigmas.tolist(), 0.0]
        x = noise
        for now, after in zip(sigmas, sigmas[1:]):
            sigma = torch.full((len(x),), now)
            v = self.predict(pipe.transformer, x, sigma, captions, references)
            if negative is not None:
                away = self.predict(pipe.transformer, x, sigma, [self.states(pipe, negative, pictures)] * len(x), references, skip)
                v = away + guidance * (v - away)
            x = x + v * (after - now)
        return x

    def drawn(self, pipe, noise):
        pictures = [family.tensor_of(self.HERE / "references" / name) for name in ("a.png", "b.png")]
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, "cat"), "cfg_empty": self.sampled(pipe, noise, ""), "skipped": self.sampled(pipe, noise, "cat", skip=(1,)),
                "references": self.sampled(pipe, noise, pictures=pictures)}

    def trained_more(self, pipe, adapter, replay):
        samples = self.encode(pipe)
        with torch.no_grad():
            pictures = [[family.tensor_of(self.HERE / "references" / name) for name in names] for names in self.REFERENCES]
            captions = [row for row in self.captions()]
            samples = [(latents, [self.states(pipe, caption, of_row)], [self.latents(pipe, p) for p in of_row])
                       for (latents, _), caption, of_row in zip(samples, captions, pictures)]
        return self.train(pipe, samples, replay, adapter, "references")

    def captions(self):
        import csv
        return [row["prompt"] for row in csv.DictReader(open(self.PICTURES / "metadata.csv"))]

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 24), torch.randn(11, 24)]
        noisy, sigma = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21])
        references = [torch.randn(2, 32, 2, 3), torch.randn(2, 32, 3, 2)]
        inputs = {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]}
        family.save_alone(pipe.transformer, inputs, self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")
        family.save_alone(pipe.transformer, inputs | {f"reference.{i}": x for i, x in enumerate(references)},
                          self.predict(pipe.transformer, noisy, sigma, captions, references), self.OUT / "edit.safetensors")
        pictures = [family.tensor_of(self.HERE / "references" / name) for name in ("a.png", "b.png")]
        save_file({f"states.{i}": self.states(pipe, prompt).contiguous() for i, prompt in enumerate(self.PROMPTS)} |
                  {"states.pictures": self.states(pipe, self.PROMPTS[0], pictures).contiguous()}, self.OUT / "text.safetensors")


FAMILY = MossImage()

if __name__ == "__main__":
    FAMILY.write()
