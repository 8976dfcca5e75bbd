#!/usr/bin/env python3
"""A whole small Boogu-Image pipeline with random weights, and what DiffSynth-Studio's transformer, diffusers, transformers and peft do with it, in boogu_pipeline/:

model/                a folder as Boogu publishes it, its components in bf16: transformer, mllm, processor, vae, scheduler
lora.safetensors      an adapter as diffusers' save_lora_adapter writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with guidance
batch.safetensors     the transformer alone on a batch with two reference pictures whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight); without_references: what it makes without them
text.safetensors      the states of a text, and of the empty one, which has another template

The transformer is DiffSynth-Studio's copy of Boogu's class, and so are the steps; templates are those of Boogu's pipeline_boogu.py.
"""
import json
import types

import torch
import torch.nn.functional as F
from diffsynth.diffusion.flow_match import FlowMatchScheduler
from diffsynth.models.boogu_image_dit import BooguImageDiT, BooguImageDoubleStreamRotaryPosEmbed
from peft import inject_adapter_in_model
from safetensors.torch import save_file
from transformers import AddedToken, PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import family
from make_encoders import randomise, rounded

SYSTEM = "You are a helpful assistant that generates high-quality images based on user instructions. The instructions are as follows."
SYSTEM_OF_EDITS = ("Describe the key features of the input image (color, shape, size, texture, objects, background), then explain how the user's text instruction should alter or "
                   "modify the image. Generate a new image that meets the user's requirements while maintaining consistency with the original input where appropriate.")
PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"


class Pipeline(types.SimpleNamespace):
    def set_progress_bar_config(self, **_):
        pass


class Boogu(family.Family):
    OUT = family.HERE / "boogu_pipeline"
    TARGETS = ["to_q", "to_k", "to_out.0", "img_to_v", "instruct_to_q", "img_out", "instruct_out", "linear_2", "img_norm3.linear", "norm1.linear", "timestep_embedder.linear_2",
               "caption_embedder.1", "x_embedder"]
    SIZES = dict(patch_size=2, in_channels=16, hidden_size=48, num_layers=4, num_double_stream_layers=2, num_refiner_layers=1, num_attention_heads=4, num_kv_heads=2, multiple_of=16,
                 ffn_dim_multiplier=0.25, norm_eps=1e-5, axes_dim_rope=(4, 4, 4), axes_lens=(2048, 1664, 1664), timestep_scale=1000.0,
                 instruction_feature_configs={"instruction_feat_dim": 16, "num_instruction_feature_layers": 1, "reduce_type": "mean"},
                 prompt_tuning_configs={"use_prompt_tuning": False, "num_layers": 0})
    TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=2048,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=4,
                  deepstack_visual_indexes=[0])

    def parts(self):
        torch.manual_seed(2)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>")])
        config = Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, tie_word_embeddings=True,
                               **{f"{name}_token_id": tokens.convert_tokens_to_ids(f"<|{token}|>")
                                  for name, token in (("image", "image_pad"), ("vision_start", "vision_start"), ("vision_end", "vision_end"))})
        text = randomise(Qwen3VLForConditionalGeneration(config), 1.5)
        transformer = randomise(BooguImageDiT(**self.SIZES), 0.7)
        transformer.image_index_embedding.data = 0.5 * torch.randn_like(transformer.image_index_embedding)
        process = Qwen2VLImageProcessorPil(patch_size=2, size={"shortest_edge": 12 * 12, "longest_edge": 24 * 24}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        pipe = Pipeline(transformer=rounded(transformer), vae=rounded(family.small_vae()), mllm=rounded(text), tokens=tokens, process=process)
        transformer.add_adapter = lambda config: inject_adapter_in_model(config, transformer)
        return pipe

    def open(self):
        model, pipe = self.OUT / "model", self.parts()
        for name in ("transformer", "scheduler"):
            (model / name).mkdir(parents=True)
        write = lambda file, value: (model / file).write_text(json.dumps(value, indent=1) + "\n")
        write("model_index.json", {"_class_name": "BooguImagePipeline", "_diffusers_version": "0.35.1", "mllm": ["transformers", "Qwen3VLForConditionalGeneration"],
                                   "processor": ["transformers", "Qwen3VLProcessor"],
                                   "scheduler": ["scheduling_flow_match_euler_discrete_time_shifting", "FlowMatchEulerDiscreteScheduler"],
                                   "transformer": ["transformer_boogu", "BooguImageTransformer2DModel"], "vae": ["diffusers", "AutoencoderKL"]})
        write("scheduler/scheduler_config.json", {"_class_name": "FlowMatchEulerDiscreteScheduler", "do_shift": True, "dynamic_time_shift": False, "num_train_timesteps": 1000,
                                                  "seq_len": 4096, "time_shift_version": "v1"})
        write("transformer/config.json", {"_class_name": "BooguImageTransformer2DModel"} | self.SIZES)
        save_file({n: x.to(torch.bfloat16).contiguous() for n, x in pipe.transformer.state_dict().items()}, model / "transformer/diffusion_pytorch_model.safetensors")
        for name in ("vae", "mllm"):
            getattr(pipe, name).to(torch.bfloat16).save_pretrained(model / name)
        pipe.tokens.save_pretrained(model / "processor")
        pipe.process.save_pretrained(model / "processor")
        self.prepare()
        return self.parts()  # of which nothing was rounded but the parameters

    def prepare(self):
        self.freqs = BooguImageDoubleStreamRotaryPosEmbed.get_freqs_cis(self.SIZES["axes_dim_rope"], self.SIZES["axes_lens"], theta=10000)

    @torch.no_grad()
    def states(self, pipe, prompt, pictures=()):
        """[L, width] of a conversation; pictures as the tower's processor takes them."""
        system = SYSTEM if prompt.strip() and not pictures else SYSTEM_OF_EDITS
        text = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{PICTURE * len(pictures)}{prompt}<|im_end|>\n"
        shown = [pipe.process(picture, return_tensors="pt") for picture in pictures]
        counts, image, ids = iter(int(x["image_grid_thw"].prod()) // 4 for x in shown), pipe.mllm.config.image_token_id, []
        for i in pipe.tokens(text).input_ids:
            ids += [i] * (next(counts) if i == image else 1)
        ids = torch.tensor([ids])
        seen = dict(pixel_values=torch.cat([x["pixel_values"] for x in shown]), image_grid_thw=torch.cat([x["image_grid_thw"] for x in shown])) if shown else {}
        return pipe.mllm.model(input_ids=ids, mm_token_type_ids=(ids == image).int(), **seen).last_hidden_state[0]

    def conditions(self, pipe, prompt):
        return ([self.states(pipe, prompt)],)

    def predict(self, model, noisy, sigma, captions, references=None):
        """References are lists of latents [1, C, h, w], one for every sample."""
        longest = max(len(c) for c in captions)
        text = torch.stack([F.pad(c, (0, 0, 0, longest - len(c))) for c in captions])
        mask = torch.stack([(torch.arange(longest) < len(c)).long() for c in captions])
        given = [[x[0] for x in of_sample] or None for of_sample in references] if references and any(references) else None
        return -model(hidden_states=noisy, timestep=1 - sigma, instruction_hidden_states=text, freqs_cis=self.freqs, instruction_attention_mask=mask,
                      ref_image_hidden_states=given)

    @torch.no_grad()
    def walk(self, pipe, noise, texts, negatives=None, references=None, scale=1.0, steps=4):
        scheduler = FlowMatchScheduler("Boogu")
        scheduler.set_timesteps(steps)
        for time in scheduler.timesteps:
            sigma = (1 - time).expand(len(noise))
            velocity = self.predict(pipe.transformer, noise, sigma, texts, references)
            if negatives is not None:
                away = self.predict(pipe.transformer, noise, sigma, negatives, references)
                velocity = away + scale * (velocity - away)
            noise = scheduler.step(velocity, time, noise)
        return noise

    def sampled(self, pipe, noise, **options):
        return self.walk(pipe, noise, [self.states(pipe, prompt) for prompt in self.PROMPTS], **options)

    @torch.no_grad()
    def renoised(self, pipe, noise, further, first):
        """As BooguImageTurboPipeline draws: all the way at every step, and back with new noise."""
        texts, times = [self.states(pipe, prompt) for prompt in self.PROMPTS], torch.linspace(first, 1, len(further) + 2)[:-1]
        for i, time in enumerate(times):
            noise = noise - (1 - time) * self.predict(pipe.transformer, noise, (1 - time).expand(len(noise)), texts)
            if i < len(further):
                noise = (1 - times[i + 1]) * further[i] + times[i + 1] * noise
        return noise

    def drawn(self, pipe, noise):
        cat, empty = [self.states(pipe, "cat")] * 2, [self.states(pipe, "")] * 2
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, negatives=cat, scale=2.5), "cfg_empty": self.sampled(pipe, noise, negatives=empty, scale=2.5),
                "one_step": self.renoised(pipe, noise, [], 0.001)}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions, noisy, sigma = [torch.randn(5, 16), torch.randn(9, 16)], torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        references = [torch.randn(2, 16, 4, 6), torch.randn(2, 16, 8, 4)]
        inputs = {"noisy": noisy, "sigma": sigma} | {f"caption.{i}": x for i, x in enumerate(captions)} | {f"reference.{i}": x for i, x in enumerate(references)}
        out = self.predict(pipe.transformer, noisy, sigma, captions, [[x[i:i + 1] for x in references] for i in range(2)])
        with torch.no_grad():
            inputs["without_references"] = self.predict(pipe.transformer, noisy, sigma, captions)
        family.save_alone(pipe.transformer, inputs, out, self.OUT / "batch.safetensors")
        save_file({"states": self.states(pipe, "red apple").contiguous(), "empty": self.states(pipe, " ").contiguous()}, self.OUT / "text.safetensors")


FAMILY = Boogu()

if __name__ == "__main__":
    FAMILY.write()
