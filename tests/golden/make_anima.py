#!/usr/bin/env python3
"""A whole small Anima pipeline with random weights, and what diffusers + peft do with it, in anima_pipeline/:

model/                a modular diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json and the one of T5 in
                      assets/tiny-flux
lora.safetensors      an adapter of the transformer as diffusers' save_lora_weights writes it, rank 4, alpha 2; both.safetensors has one of
                      the conditioner beside it
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,both,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with both, with guidance, with texts cut to 8 tokens; the captions differ in length
batch.safetensors     transformer and conditioner alone on a batch whose captions differ in length: in.<input>, text.<caption> of the
                      conditioner, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
"""
import os, shutil, types
import torch
import torch.nn.functional as F
from diffusers import AnimaAutoBlocks, AnimaTextConditioner, AutoencoderKLQwenImage, CosmosTransformer3DModel, FlowMatchEulerDiscreteScheduler
from diffusers.models.transformers import transformer_cosmos
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3Model, T5TokenizerFast

import family, training_loop
from digest import digest
from make_encoders import randomise, rounded
from make_pipeline import ASSETS

# torchvision resizes the padding mask, which is zeros.
transformer_cosmos.transforms = types.SimpleNamespace(InterpolationMode=types.SimpleNamespace(NEAREST="nearest"),
                                                      functional=types.SimpleNamespace(resize=lambda x, size, interpolation: F.interpolate(x, size, mode=interpolation)))
ROWS = 32  # of a text that the body reads


def filled(rows):
    """Tensors of unequal length one above the other, zeros behind the shorter ones, and where they are."""
    longest = max(len(r) for r in rows)
    return (torch.stack([F.pad(r, (0, 0) * (r.dim() - 1) + (0, longest - len(r))) for r in rows]),
            torch.stack([torch.arange(longest) < len(r) for r in rows]).long())


class Anima(family.Family):
    OUT = family.HERE / "anima_pipeline"
    REPLAYED = torch.bfloat16
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "net.0.proj", "net.2", "linear_2", "patch_embed.proj", "t_embedder.linear_1", "proj_out"]
    OF_CONDITIONER = ["q_proj", "k_proj", "v_proj", "o_proj", "mlp.0", "mlp.2", "out_proj"]

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        t5 = T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2", model_max_length=512)
        text = randomise(Qwen3Model(Qwen3Config(vocab_size=len(tokens) + 1, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                                head_dim=8, max_position_embeddings=2048)), 1.5)
        vae = randomise(AutoencoderKLQwenImage(base_dim=4, z_dim=16, num_res_blocks=1), 1.5)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        conditioner = randomise(AnimaTextConditioner(source_dim=24, target_dim=16, model_dim=16, num_layers=2, num_attention_heads=2, target_vocab_size=len(t5) + 3,
                                                     min_sequence_length=ROWS))
        transformer = randomise(CosmosTransformer3DModel(in_channels=16, out_channels=16, num_attention_heads=2, attention_head_dim=12, num_layers=3, mlp_ratio=2.0, text_embed_dim=16,
                                                         adaln_lora_dim=8, rope_scale=(1.0, 4.0, 4.0), extra_pos_embed_type=None))
        for block in transformer.transformer_blocks:  # diffusers' class of attention has 1e-5 where the weights were made with 1e-6
            for norm in (block.attn1.norm_q, block.attn1.norm_k, block.attn2.norm_q, block.attn2.norm_k):
                norm.eps = 1e-6
        pipe = AnimaAutoBlocks().init_pipeline()
        pipe.update_components(scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, t5_tokenizer=t5,
                               text_conditioner=rounded(conditioner), transformer=rounded(transformer))
        return pipe

    def open(self):
        pipe = self.parts()
        for part in (pipe.vae, pipe.text_encoder, pipe.text_conditioner, pipe.transformer):
            part.to(torch.bfloat16)
        pipe.save_pretrained(str(self.OUT / "model"), overwrite_modular_index=True)
        index = self.OUT / "model/modular_model_index.json"
        index.write_text(index.read_text().replace(str(self.OUT / "model"), "author/small-anima"))
        folder = self.OUT / "model/t5_tokenizer"
        shutil.rmtree(folder)
        shutil.copytree(ASSETS / "tokenizer_2", folder)
        (folder / "spiece.model").unlink()
        (folder / "spiece.model").symlink_to(os.path.relpath(ASSETS / "tokenizer_2/spiece.model", folder))
        return self.parts()  # of which nothing was rounded but the parameters

    def latents(self, pipe, image):
        mean, std = [torch.tensor(v)[None, :, None, None, None] for v in (pipe.vae.config.latents_mean, pipe.vae.config.latents_std)]
        return ((pipe.vae.encode(image[:, :, None]).latent_dist.mode() - mean) / std)[:, :, 0]

    def conditions(self, pipe, prompt):
        ids = pipe.tokenizer(prompt, return_tensors="pt").input_ids
        self.pipe = pipe
        return [pipe.text_encoder(ids).last_hidden_state[0]], [pipe.t5_tokenizer(prompt, return_tensors="pt").input_ids[0]]

    def conditioned(self, states, ids):
        (states, states_mask), (ids, ids_mask) = filled(states), filled(ids)
        return self.pipe.text_conditioner(states, ids, target_attention_mask=ids_mask, source_attention_mask=states_mask)

    def predict(self, model, noisy, sigma, states, ids):
        padding = torch.zeros(1, 1, noisy.shape[2] * 8, noisy.shape[3] * 8)
        return model(noisy[:, :, None], timestep=sigma, encoder_hidden_states=self.conditioned(states, ids), padding_mask=padding, return_dict=False)[0][:, :, 0]

    @torch.no_grad()
    def sampled(self, pipe, noise, guidance_scale=1.0, **options):
        pipe.guider = type(pipe.guider)(guidance_scale=guidance_scale, enabled=guidance_scale != 1.0)
        h, w = noise.shape[2:]
        state = pipe(prompt=list(self.PROMPTS), latents=noise[:, :, None].clone(), height=h * 8, width=w * 8, num_inference_steps=4, **options)
        return state.get("latents")[:, :, 0]

    def drawn(self, pipe, noise):
        self.noise = noise
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, 2.5, negative_prompt=["cat", "cat"]),
                "cfg_empty": self.sampled(pipe, noise, 2.5), "cut": self.sampled(pipe, noise, max_sequence_length=8)}

    def write_alone(self, pipe):
        self.pipe = pipe
        torch.manual_seed(3)
        states, ids = [torch.randn(5, 24), torch.randn(9, 24)], [torch.randint(1, 60, (7,)), torch.randint(1, 60, (4,))]
        noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        out = self.predict(pipe.transformer, noisy, sigma, states, ids)
        text, out_weight = self.conditioned(states, ids).detach(), torch.randn_like(out)
        (out * out_weight).sum().backward()
        gradients = {}
        for name in ("transformer", "text_conditioner"):
            gradients |= {f"grad.{name}.{n}": digest(p.grad) for n, p in getattr(pipe, name).named_parameters()}
            getattr(pipe, name).zero_grad()
        save_file({"in.noisy": noisy, "in.sigma": sigma, "out": out.detach(), "out_weight": out_weight} | gradients
                  | {f"in.caption.{i}": x for i, x in enumerate(states)} | {f"in.ids.{i}": x for i, x in enumerate(ids)}
                  | {f"text.{i}": text[i, :len(x)].contiguous() for i, x in enumerate(ids)}, self.OUT / "batch.safetensors")

    def trained_more(self, pipe, adapter, replay):
        both = adapter + training_loop.add_adapter(pipe.text_conditioner, self.OF_CONDITIONER)
        save_file(training_loop.adapter_state("transformer", pipe.transformer) | training_loop.adapter_state("text_conditioner", pipe.text_conditioner),
                  self.OUT / "both.safetensors", metadata={"format": "pt"})
        expected = {"latents.both": self.sampled(pipe, self.noise)}
        return expected | self.train(pipe, self.encode(pipe), replay, both, "both")


FAMILY = Anima()

if __name__ == "__main__":
    FAMILY.write()
