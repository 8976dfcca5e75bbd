#!/usr/bin/env python3
"""A whole small Z-Image pipeline with random weights, and what diffusers + peft do with it, in zimage_pipeline/:

model/                a diffusers folder, its transformer in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
"""
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

import family
from make_encoders import randomise

# As Qwen3's own for one turn; the line end behind the last word belongs to it.
CHAT = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"


class ZImage(family.Family):
    OUT = family.HERE / "zimage_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "w1", "w2", "w3"]

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right", chat_template=CHAT)
        text = randomise(Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokens) + 1, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
                                                      num_key_value_heads=1, head_dim=8, rope_theta=1e6, tie_word_embeddings=True)), 1.5)
        vae = family.small_vae()
        transformer = randomise(ZImageTransformer2DModel(in_channels=16, dim=32, n_layers=3, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=16,
                                                         axes_dims=[4, 6, 6]), 0.7)
        for block in [*transformer.layers, *transformer.noise_refiner]:  # gates of which tanh leaves something
            block.adaLN_modulation[0].weight.data *= 0.5
        transformer = transformer.to(torch.bfloat16)
        return ZImagePipeline(scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=vae, text_encoder=text, tokenizer=tokens, transformer=transformer)

    def open(self):
        pipe = self.parts()
        pipe.save_pretrained(self.OUT / "model")
        pipe.transformer.float()
        return pipe

    def conditions(self, pipe, prompt):
        return ([pipe.encode_prompt(prompt, do_classifier_free_guidance=False)[0][0]],)

    def predict(self, model, noisy, sigma, captions):
        """The negative of what the model gives."""
        out = model([x[:, None] for x in noisy], 1 - sigma, captions, return_dict=False)[0]
        return -torch.stack(out)[:, :, 0]

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        return pipe(prompt=list(self.PROMPTS), latents=noise, height=noise.shape[2] * 8, width=noise.shape[3] * 8, num_inference_steps=4,
                    output_type="latent", **{"guidance_scale": 0.0, **options}).images

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=1.5, negative_prompt=["cat", "cat"]),
                "cfg_empty": self.sampled(pipe, noise, guidance_scale=1.5)}

    def write_alone(self, pipe):
        """Captions of less and of more than 32 tokens; 12 tokens of picture, which are filled up to 32."""
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(37, 16)]
        noisy, sigma = torch.randn(2, 16, 6, 8), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")


FAMILY = ZImage()

if __name__ == "__main__":
    FAMILY.write()
