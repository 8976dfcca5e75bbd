#!/usr/bin/env python3
"""A whole small FLUX.2 dev pipeline with random weights, and what diffusers + peft do with it, in flux2_dev_pipeline/:

model/                a diffusers folder, its components in bf16: a transformer that is told a guidance, Mistral's encoder of texts, whose
                      tokenizer (that of tokenizers/tekken_json) pads on the left, and an autoencoder with a decoder of fewer channels
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full,references}.{loss,grad_norm} of ten steps at a guidance of 1, initial noise and the latents after 4 sampling
                      steps: plain (a guidance of 4), with the LoRA, at a guidance of 2.5, with the reference pictures a.png and b.png of
                      references/, in_one_line (with the system's text as DiffSynth-Studio has it)
batch.safetensors     the transformer alone on a batch, with reference latents: in.<input>, out, out_weight, and grad.<parameter>: the digest
                      of the gradient of sum(out * out_weight)
vae.safetensors       the autoencoder alone: image, and the mean of its latents, normalised; latents, and what is decoded
text.safetensors      {left,right}.{ids,states}: texts within the template, padded on either side, and the states of three layers side by
                      side; caption is one with a token for pictures in it, caption.ids its ids without padding
"""
import torch
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2Pipeline, Flux2Transformer2DModel
from diffusers.pipelines.flux2.pipeline_flux2 import SYSTEM_MESSAGE, format_input
from diffsynth.pipelines.flux2_image import Flux2Unit_PromptEmbedder
from PIL import Image
from safetensors.torch import save_file
from transformers import Mistral3Config, Mistral3ForConditionalGeneration, PreTrainedTokenizerFast

import family
import make_flux2
from make_encoders import randomise, rounded

# As Mistral-Small's own for a system's text and a user's.
CHAT = ("{{ bos_token }}{% for m in messages %}{{ '[SYSTEM_PROMPT]' + m.content[0].text + '[/SYSTEM_PROMPT]' if m.role == 'system' else "
        "'[INST]' + m.content[0].text + '[/INST]' }}{% endfor %}")
CAPTION = "a [IMG]cat on [INST] the tree"


class Flux2Dev(make_flux2.Flux2):
    OUT = family.HERE / "flux2_dev_pipeline"
    GUIDANCE = 1.0

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/tekken_json/tokenizer.json"), pad_token="<pad>", bos_token="<s>", padding_side="left", chat_template=CHAT)
        # Heads as wide as Mistral-Small's: of a file without config.json nothing else is known.
        text = dict(model_type="mistral", vocab_size=len(tokens), hidden_size=8, intermediate_size=12, num_hidden_layers=31, num_attention_heads=1, num_key_value_heads=1, head_dim=128,
                    rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 1e9}, max_position_embeddings=131072)
        sees = dict(model_type="pixtral", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, head_dim=8, image_size=16, patch_size=8)
        encoder = randomise(Mistral3ForConditionalGeneration(Mistral3Config(text_config=text, vision_config=sees, tie_word_embeddings=True)), 0.7)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(8, 8, 16, 16), decoder_block_out_channels=(4, 8, 8, 12), layers_per_block=1, latent_channels=8, norm_num_groups=4), 1.2)
        vae.bn.running_mean.normal_(0, 0.3)
        vae.bn.running_var.uniform_(0.3, 2)
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        transformer = randomise(Flux2Transformer2DModel(in_channels=32, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=24,
                                                        axes_dims_rope=(4, 4, 4, 4), guidance_embeds=True), 0.7)
        scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=4096, max_shift=1.15, shift=3.0, use_dynamic_shifting=True)
        return Flux2Pipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(encoder), tokenizer=tokens, transformer=rounded(transformer))

    def sampled(self, pipe, noise, **options):
        return super().sampled(pipe, noise, **{"guidance_scale": 4.0, **options})

    def drawn(self, pipe, noise):
        pictures = [Image.open(self.HERE / "references" / name).convert("RGB") for name in ("a.png", "b.png")]
        latents = {"plain": self.sampled(pipe, noise), "guided": self.sampled(pipe, noise, guidance_scale=2.5), "references": self.sampled(pipe, noise, image=pictures)}
        theirs, pipe.system_message = pipe.system_message, Flux2Unit_PromptEmbedder().system_message
        latents["in_one_line"] = self.sampled(pipe, noise)
        pipe.system_message = theirs
        return latents

    def write_alone(self, pipe):
        torch.manual_seed(3)
        noisy, sigma, captions, guidance = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21]), torch.randn(2, 7, 24), torch.tensor([1.0, 4.0])
        references = [torch.randn(2, 32, 2, 3), torch.randn(2, 32, 3, 2)]
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "captions": captions, "guidance": guidance, "reference.0": references[0], "reference.1": references[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions, references, guidance), self.OUT / "batch.safetensors")
        self.write_encoders(pipe)

    @torch.no_grad()
    def write_encoders(self, pipe):
        torch.manual_seed(5)
        image, latents = torch.rand(1, 3, 32, 48) * 2 - 1, torch.randn(1, 32, 2, 3)
        mean, std = (x[None, :, None, None] for x in (pipe.vae.bn.running_mean, (pipe.vae.bn.running_var + pipe.vae.config.batch_norm_eps).sqrt()))
        save_file({"image": image, "mean": self.latents(pipe, image).contiguous(), "latents": latents, "decoded": pipe.vae.decode(pipe._unpatchify_latents(latents * std + mean)).sample},
                  self.OUT / "vae.safetensors")
        messages, tensors = format_input([CAPTION], SYSTEM_MESSAGE), {}
        ids = pipe.tokenizer.apply_chat_template(messages, add_generation_prompt=False, tokenize=True, return_dict=True, return_tensors="pt")["input_ids"]
        for side in ("left", "right"):
            pipe.tokenizer.padding_side = side
            # So that more than the padding is told apart, a text of few tokens.
            padded = pipe.tokenizer(["a cat"], add_special_tokens=False, padding="max_length", max_length=11, return_tensors="pt")
            states = pipe.text_encoder(**padded, output_hidden_states=True, use_cache=False).hidden_states
            tensors |= {f"{side}.ids": padded["input_ids"], f"{side}.states": torch.cat([states[i] for i in (10, 20, 30)], -1)}
        pipe.tokenizer.padding_side = "left"
        save_file(tensors | {"caption": torch.tensor(list(CAPTION.encode())), "caption.ids": ids[0].contiguous()}, self.OUT / "text.safetensors")


FAMILY = Flux2Dev()

if __name__ == "__main__":
    FAMILY.write()
