#!/usr/bin/env python3
"""A whole small FLUX.2 klein pipeline with random weights, and what diffusers + peft do with it, in flux2_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full,references}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance, with the reference pictures a.png and b.png of references/
batch.safetensors     the transformer alone on a batch, with reference latents: in.<input>, out, out_weight, and grad.<parameter>: the digest
                      of the gradient of sum(out * out_weight)
vae.safetensors       the autoencoder alone: image, and the mean and log-variance of its latents, normalised; latents, and what is decoded
text.safetensors      the text encoder alone: padded ids, how many are a text's, and the states of three layers side by side
"""
import torch
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline, Flux2Transformer2DModel
from PIL import Image
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

import family
from make_encoders import randomise, rounded

# As Qwen3's own for one turn that is answered without thinking.
CHAT = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}")


class Flux2(family.Family):
    OUT = family.HERE / "flux2_pipeline"
    TARGETS = r".*(to_q|to_k|to_v|add_q_proj|add_k_proj|add_v_proj|to_out\.0|to_add_out|linear_in|linear_out|to_qkv_mlp_proj|single_transformer_blocks\.\d\.attn\.to_out)"
    REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]  # by row
    LATENTS = (32, 3, 4)
    GUIDANCE = None  # what the transformer is told while it trains

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right", chat_template=CHAT)
        text = randomise(Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokens) + 1, hidden_size=16, intermediate_size=24, num_hidden_layers=28, num_attention_heads=2,
                                                      num_key_value_heads=1, head_dim=8, rope_theta=1e6, tie_word_embeddings=True)), 0.7)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(8, 8, 16, 16), layers_per_block=1, latent_channels=8, norm_num_groups=4), 1.2)
        vae.bn.running_mean.normal_(0, 0.3)
        vae.bn.running_var.uniform_(0.3, 2)
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        transformer = randomise(Flux2Transformer2DModel(in_channels=32, num_layers=2, num_single_layers=3, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=48,
                                                        axes_dims_rope=(4, 4, 4, 4), guidance_embeds=False), 0.7)
        scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=4096, max_shift=1.15, shift=3.0, use_dynamic_shifting=True)
        return Flux2KleinPipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer))

    def open(self):
        pipe = super().open()
        pipe.image_processor.check_image_input = lambda image: image  # which refuses pictures below 64 pixels
        return pipe

    def latents(self, pipe, image):
        return pipe._encode_vae_image(image, None)

    def conditions(self, pipe, prompt):
        return (pipe.encode_prompt(prompt)[0],)

    def predict(self, model, noisy, sigma, captions, references=(), guidance=None):
        pack, ids = Flux2KleinPipeline._pack_latents, Flux2KleinPipeline._prepare_latent_ids(noisy)[:1]
        tokens = torch.cat([pack(x) for x in (noisy, *references)], 1)
        if references:
            ids = torch.cat([ids, Flux2KleinPipeline._prepare_image_ids([x[:1] for x in references])], 1)
        if guidance is None and self.GUIDANCE is not None:
            guidance = torch.full_like(sigma, self.GUIDANCE)
        out = model(hidden_states=tokens, encoder_hidden_states=captions, timestep=sigma, img_ids=ids, txt_ids=Flux2KleinPipeline._prepare_text_ids(captions)[:1],
                    guidance=guidance, return_dict=False)[0]
        h, w = noisy.shape[2:]
        return out[:, :h * w].transpose(1, 2).unflatten(2, (h, w)).contiguous()

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        last = {}
        def keep(_pipe, _step, _time, values):
            last.update(values)
            return values
        pipe(prompt=list(self.PROMPTS), latents=noise, height=h * 16, width=w * 16, num_inference_steps=4, output_type="latent", callback_on_step_end=keep,
             **{"guidance_scale": 1.0, **options})
        return last["latents"].transpose(1, 2).unflatten(2, (h, w)).contiguous()

    def drawn(self, pipe, noise):
        cat = pipe.encode_prompt(["cat", "cat"])[0]
        pictures = [Image.open(self.HERE / "references" / name).convert("RGB") for name in ("a.png", "b.png")]
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt_embeds=cat),
                "cfg_empty": self.sampled(pipe, noise, guidance_scale=2.5), "references": self.sampled(pipe, noise, image=pictures)}

    def trained_more(self, pipe, adapter, replay):
        samples = self.encode(pipe)
        with torch.no_grad():
            references = [[self.latents(pipe, family.tensor_of(self.HERE / "references" / name)) for name in names] for names in self.REFERENCES]
        return self.train(pipe, [(*sample, of_row) for sample, of_row in zip(samples, references)], replay, adapter, "references")

    def write_alone(self, pipe):
        torch.manual_seed(3)
        noisy, sigma, captions = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21]), torch.randn(2, 7, 48)
        references = [torch.randn(2, 32, 2, 3), torch.randn(2, 32, 3, 2)]
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "captions": captions, "reference.0": references[0], "reference.1": references[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions, references), self.OUT / "batch.safetensors")
        self.write_encoders(pipe)

    @torch.no_grad()
    def write_encoders(self, pipe):
        torch.manual_seed(5)
        image, latents = torch.rand(2, 3, 32, 48) * 2 - 1, torch.randn(1, 32, 2, 3)
        mean, std = (x[None, :, None, None] for x in (pipe.vae.bn.running_mean, (pipe.vae.bn.running_var + pipe.vae.config.batch_norm_eps).sqrt()))
        moments = pipe.vae.encode(image).latent_dist
        save_file({"image": image, "mean": ((pipe._patchify_latents(moments.mean) - mean) / std).contiguous(),
                   "logvar": (pipe._patchify_latents(moments.logvar) - 2 * std.log()).contiguous(), "latents": latents,
                   "decoded": pipe.vae.decode(pipe._unpatchify_latents(latents * std + mean)).sample}, self.OUT / "vae.safetensors")
        ids = torch.randint(0, 200, (1, 11))
        states = pipe.text_encoder(input_ids=ids, attention_mask=(torch.arange(11) < 7)[None].long(), output_hidden_states=True).hidden_states
        save_file({"ids": ids, "num_tokens": torch.tensor(7), "states": torch.cat([states[i] for i in (9, 18, 27)], -1)}, self.OUT / "text.safetensors")


FAMILY = Flux2()

if __name__ == "__main__":
    FAMILY.write()
