#!/usr/bin/env python3
"""A whole small FLUX.3 klein with random weights, and what diffusers + peft do with it, in flux3_pipeline/:

model/                a folder as diffusers' modular pipelines have it, its components in bf16; the tokenizer lies beside the text encoder
flow_map.safetensors  the layers that a distilled model has beside those of model/transformer, in bf16
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full,references,distilled}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain,
                      with the LoRA, with guidance, with the reference pictures a.png and b.png of references/, as the distilled model draws
batch.safetensors     the transformer alone on samples whose texts have one window and two, with reference latents: in.<input>, out, out_weight,
                      and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
distilled.safetensors the distilled transformer on the first of these samples, without references: in.target, out
text.safetensors      the text encoder alone: the states of two captions
"""
import json, types
import torch
from diffusers import AutoencoderKLFlux2, ClassifierFreeGuidance, Flux3Transformer2DModel
from diffusers.modular_pipelines.flux3.before_denoise import _prepare_image_ids
from diffusers.modular_pipelines.flux3.encoders import Flux3TextEncoderStep, Flux3VaeEncoderStep
from diffusers.modular_pipelines.flux3.modular_blocks_flux3 import Flux3CoreDenoiseStep, Flux3ImageConditionedCoreDenoiseStep
from diffusers.modular_pipelines.flux3.modular_blocks_flux3_distilled import Flux3DistilledCoreDenoiseStep
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

import family
import training_loop
from make_encoders import randomise, rounded

CHAT = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


class Flux3(family.Family):
    OUT = family.HERE / "flux3_pipeline"
    TARGETS = r".*(to_q|to_k|to_v|to_out\.0|linear_in|linear_out)"
    REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]  # by row
    PROMPTS = ["red apple", "tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it, and a tree behind it, and a red cat face, and a smiling apple"]
    LATENTS = (32, 3, 4)
    TRANSFORMER = dict(in_channels=32, cond_in_channels=32, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=128, mlp_ratio=2.0,
                       axes_dims_rope=(4, 4, 4, 4))
    TEXT = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=33, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=2048,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=4,
                  deepstack_visual_indexes=[0])

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right", chat_template=CHAT)
        text = randomise(Qwen3VLForConditionalGeneration(Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, tie_word_embeddings=True)),
                         0.7)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(4, 4, 8, 8), layers_per_block=1, latent_channels=8, norm_num_groups=4), 1.2)
        vae.bn.running_mean.normal_(0, 0.3)
        vae.bn.running_var.uniform_(0.3, 2)
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        transformer = randomise(Flux3Transformer2DModel(**self.TRANSFORMER), 0.7)
        distilled = randomise(Flux3Transformer2DModel(**self.TRANSFORMER, flow_map=True), 0.7)
        distilled.load_state_dict(transformer.state_dict(), strict=False)
        return types.SimpleNamespace(vae=rounded(vae), text_encoder=rounded(text), tokens=tokens, transformer=rounded(transformer), distilled=rounded(distilled))

    def open(self):
        pipe, model = self.parts(), self.OUT / "model"
        index = {"_blocks_class_name": "Flux3AutoBlocks", "_class_name": "Flux3ModularPipeline", "_diffusers_version": "0.42.1"}
        for name, library, kind in (("text_encoder", "transformers", "Qwen3VLForConditionalGeneration"), ("tokenizer", "transformers", "AutoProcessor"),
                                    ("transformer", "diffusers", "Flux3Transformer2DModel"), ("vae", "diffusers", "AutoencoderKLFlux2")):
            place = "text_encoder" if name == "tokenizer" else name
            index[name] = [library, kind, {"pretrained_model_name_or_path": "black-forest-labs/flux-3-image-klein-base", "subfolder": place, "type_hint": [library, kind]}]
            (pipe.tokens if name == "tokenizer" else getattr(pipe, name).to(torch.bfloat16)).save_pretrained(model / place)
        (model / "text_encoder/chat_template.jinja").unlink(missing_ok=True)
        (model / "modular_model_index.json").write_text(json.dumps(index, indent=2) + "\n")
        target = {n: p.detach() for n, p in pipe.distilled.to(torch.bfloat16).named_parameters() if n.startswith("target_")}
        save_file(target, self.OUT / "flow_map.safetensors")
        pipe = self.parts()  # of which nothing was rounded but the parameters
        pipe.set_progress_bar_config = lambda **_: None
        return pipe

    def latents(self, pipe, image):
        mean, std = (x[None, :, None, None] for x in (pipe.vae.bn.running_mean, (pipe.vae.bn.running_var + pipe.vae.config.batch_norm_eps).sqrt()))
        return (Flux3VaeEncoderStep._patchify_latents(pipe.vae.encode(image).latent_dist.mode()) - mean) / std

    def states(self, pipe, prompt):
        processor = types.SimpleNamespace(tokenizer=pipe.tokens, apply_chat_template=pipe.tokens.apply_chat_template)
        return Flux3TextEncoderStep._get_qwen3_vl_prompt_embeds(pipe.text_encoder, processor, prompt)

    def conditions(self, pipe, prompt):
        return ([self.states(pipe, prompt)[0]],)

    def predict(self, model, noisy, sigma, captions, references=(), target=None):
        """Each sample by itself: the windows of its text are attended as a whole."""
        h, w = noisy.shape[2:]
        tokens = lambda x: x.flatten(2).transpose(1, 2)
        outs = []
        for b, text in enumerate(captions):
            places = torch.zeros(len(text), 4)
            places[:, 3] = torch.arange(len(text))
            beside = {}
            if references:
                beside = {"image_cond_hidden_states": torch.cat([tokens(x[b:b + 1]) for x in references], 1),
                          "image_cond_ids": torch.cat([_prepare_image_ids(*x.shape[2:], 0.5, -1 - k) for k, x in enumerate(references)])}
            if model.config.flow_map:
                beside["target_timestep"] = (sigma if target is None else target)[b:b + 1]
            outs.append(model(hidden_states=tokens(noisy[b:b + 1]), encoder_hidden_states=text[None], timestep=sigma[b:b + 1], img_ids=_prepare_image_ids(h, w, 0.5), txt_ids=places,
                              return_dict=False, **beside)[0])
        return torch.cat(outs).transpose(1, 2).unflatten(2, (h, w)).contiguous()

    @torch.no_grad()
    def sampled(self, pipe, noise, step=Flux3CoreDenoiseStep, negative=None, guidance=1.0, **beside):
        h, w = noise.shape[2:]
        blocks = step().init_pipeline()
        blocks.set_progress_bar_config(disable=True)
        blocks.update_components(transformer=pipe.distilled if step is Flux3DistilledCoreDenoiseStep else pipe.transformer)
        if step is not Flux3DistilledCoreDenoiseStep:
            blocks.update_components(guider=ClassifierFreeGuidance(guidance_scale=guidance))
        if negative is not None:
            beside["negative_prompt_embeds"] = self.states(pipe, negative)
        return torch.cat([blocks(prompt_embeds=self.states(pipe, prompt), latents=noise[i:i + 1], height=h * 16, width=w * 16, num_inference_steps=4, output="latents", **beside)
                          for i, prompt in enumerate(self.PROMPTS)])

    def drawn(self, pipe, noise):
        pictures = [self.latents(pipe, family.tensor_of(self.HERE / "references" / name)).detach() for name in ("a.png", "b.png")]
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, negative="cat", guidance=2.5), "cfg_empty": self.sampled(pipe, noise, negative="", guidance=2.5),
                "references": self.sampled(pipe, noise, Flux3ImageConditionedCoreDenoiseStep, image_cond_latents=pictures),
                "distilled": self.sampled(pipe, noise, Flux3DistilledCoreDenoiseStep)}

    def trained_more(self, pipe, adapter, replay):
        samples = self.encode(pipe)
        with torch.no_grad():
            references = [[self.latents(pipe, family.tensor_of(self.HERE / "references" / name)) for name in names] for names in self.REFERENCES]
        more = self.train(pipe, [(*sample, of_row) for sample, of_row in zip(samples, references)], replay, adapter, "references")
        distilled = types.SimpleNamespace(transformer=pipe.distilled)
        adapter = training_loop.add_adapter(pipe.distilled, self.TARGETS)
        training_loop.load_adapter(adapter, self.OUT / "lora.safetensors")
        return more | self.train(distilled, samples, replay, adapter, "distilled")

    def write_alone(self, pipe):
        torch.manual_seed(3)
        noisy, sigma, target = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21]), torch.tensor([0.4, 0.1])
        captions = [torch.randn(80, 128), torch.randn(160, 128)]
        references = [torch.randn(2, 32, 2, 3), torch.randn(2, 32, 3, 2)]
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0].to(torch.bfloat16), "caption.1": captions[1].to(torch.bfloat16),
                                             "reference.0": references[0], "reference.1": references[1]},
                          self.predict(pipe.transformer, noisy, sigma, [c.to(torch.bfloat16).float() for c in captions], references), self.OUT / "batch.safetensors")
        family.save_alone(pipe.distilled, {"target": target[:1]},
                          self.predict(pipe.distilled, noisy[:1], sigma[:1], [captions[0].to(torch.bfloat16).float()], target=target), self.OUT / "distilled.safetensors")
        with torch.no_grad():
            save_file({f"states.{i}": self.states(pipe, prompt)[0].contiguous() for i, prompt in enumerate(self.PROMPTS)}, self.OUT / "text.safetensors")


FAMILY = Flux3()

if __name__ == "__main__":
    FAMILY.write()
