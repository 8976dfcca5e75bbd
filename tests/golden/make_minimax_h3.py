#!/usr/bin/env python3
"""A whole small MiniMax-H3 with random weights, and what diffusers + peft do with its stills, in minimax_h3_pipeline/:

model/                a folder as diffusers' modular pipelines have it, its components in bf16, the autoencoder of sound in fp32
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps, and step.{i}.audio_latents_noise, that of the sound, of which
                      there is none but noise; pictures and captions are those of pipeline/
expected.safetensors  {lora,full,silent}.{loss,grad_norm} of ten steps, the last without tokens of sound; initial noise and the latents after 4 sampling
                      steps without tokens of sound: plain, with the LoRA, with guidance, of a single space
batch.safetensors     the transformer alone on clips with sound under captions that differ in length: in.<input>, out and sound, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight) + sum(sound * sound_weight)
text.safetensors      the text encoder alone: ids, and the states behind its first 50 layers
clips.safetensors     the autoencoder alone: a picture and clips, their moments, and digests of what is decoded of latents, in tiles and whole
"""
import json, types
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Transformer3DModel
from diffusers.modular_pipelines.minimax_h3.before_denoise import MiniMaxH3PrepareLayoutStep, MiniMaxH3SetTimestepsStep, patchify_video_latents
from diffusers.schedulers import MiniMaxH3Scheduler
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

import family
import training_loop
from digest import digest
from make_encoders import randomise, rounded

MEAN, STD = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1, 1)
SHIFT, SOUND_SHIFT = 12.0, 3.0


def sound_sigma(sigma):
    """The noise of the sound where the frames have this: both shifts are of one base."""
    base = sigma / (SHIFT - (SHIFT - 1) * sigma)
    return SOUND_SHIFT * base / (1 + (SOUND_SHIFT - 1) * base)


class MiniMaxH3(family.Family):
    OUT = family.HERE / "minimax_h3_pipeline"
    TARGETS = r"transformer_blocks\..*(to_q|to_k|to_v|to_out\.0|net\.0\.proj|net\.2)"
    SIZE = (32, 64)
    LATENTS = (6, 1, 2, 4)
    SOUND = (5, 4)  # of a still: two latents of each of two sides
    TRANSFORMER = dict(num_attention_heads=2, attention_head_dim=16, hidden_size=24, num_layers=3, num_refiner_layers=2, ffn_dim=40, in_channels=6, audio_in_channels=5, text_dim=8,
                       freq_dim=32, time_embed_hidden_dim=20, time_embed_dim=12, rope_freq_dim=2)
    # As many layers as the published code needs to read the states behind 50.
    TEXT = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=51, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=4096,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=8, num_position_embeddings=4, deepstack_visual_indexes=[0])
    SHOWN = dict(size={"shortest_edge": 256, "longest_edge": 4096}, patch_size=2, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    SHOWN_CLIPS = SHOWN | {"size": {"shortest_edge": 256, "longest_edge": 16384}}
    VAE = dict(latent_channels=6, block_out_channels=(8, 8, 8, 16, 16, 16), layers_per_block=1, norm_num_groups=2, decoder_num_layers=2, decoder_num_attention_heads=2,
               decoder_attention_head_dim=16, decoder_num_register_tokens=2)
    SOUND_VAE = dict(encoder_dim=4, encoder_rates=(4, 5), latent_dim=20, latent_channels=5, num_attention_heads=2, decoder_dim=16, decoder_rates=(5, 2, 2), decoder_kernel_sizes=(9, 4, 4),
                     resblock_kernel_sizes=(3, 5), resblock_dilation_sizes=((1, 3), (1, 2)), sampling_rate=800)

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>")
        tokens.add_tokens(["<|vision_end|>", "<|image_pad|>", "<|video_pad|>"], special_tokens=True)
        text = randomise(Qwen3VLForConditionalGeneration(Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, tie_word_embeddings=True,
                                                                        image_token_id=tokens.convert_tokens_to_ids("<|image_pad|>"), video_token_id=tokens.convert_tokens_to_ids("<|video_pad|>"),
                                                                        vision_start_token_id=tokens.convert_tokens_to_ids("<|vision_start|>"), vision_end_token_id=tokens.convert_tokens_to_ids("<|vision_end|>"))), 0.7)
        statistics = dict(latents_mean=[round(x, 3) for x in (torch.randn(6) * 0.3).tolist()], latents_std=[round(x, 3) for x in (torch.rand(6) + 0.5).tolist()])
        vae = randomise(AutoencoderKLMiniMaxH3(**self.VAE, **statistics), 1.2)
        transformer = randomise(MiniMaxH3Transformer3DModel(**self.TRANSFORMER), 0.7)
        statistics = dict(latents_mean=[round(x, 3) for x in (torch.randn(5) * 0.3).tolist()], latents_std=[round(x, 3) for x in (torch.rand(5) + 0.5).tolist()])
        sound = AutoencoderKLMiniMaxH3Audio(**self.SOUND_VAE, **statistics)
        with torch.no_grad():
            for name, p in sound.named_parameters():
                if name.endswith(("alpha", "beta")):
                    p.add_(torch.rand_like(p) * 0.5)
                elif p.dim() == 1:
                    p.add_(torch.randn_like(p) * 0.1)
        return types.SimpleNamespace(vae=rounded(vae), text_encoder=rounded(text), tokens=tokens, transformer=rounded(transformer), audio_vae=rounded(sound), set_progress_bar_config=lambda **_: None)

    def open(self):
        pipe, model = self.parts(), self.OUT / "model"
        index = {"_blocks_class_name": "MiniMaxH3Blocks", "_class_name": "MiniMaxH3ModularPipeline", "_diffusers_version": "0.42.1"}
        for name, library, kind in (("text_encoder", "transformers", "Qwen3VLForConditionalGeneration"), ("tokenizer", "transformers", "AutoTokenizer"),
                                    ("transformer", "diffusers", "MiniMaxH3Transformer3DModel"), ("vae", "diffusers", "AutoencoderKLMiniMaxH3"), ("audio_vae", "diffusers", "AutoencoderKLMiniMaxH3Audio"),
                                    ("scheduler", "diffusers", "MiniMaxH3Scheduler"), ("audio_scheduler", "diffusers", "MiniMaxH3Scheduler")):
            index[name] = [library, kind, {"pretrained_model_name_or_path": "MiniMaxAI/MiniMax-H3", "subfolder": name, "type_hint": [library, kind]}]
        for name in ("text_encoder", "transformer", "vae"):
            getattr(pipe, name).to(torch.bfloat16).save_pretrained(model / name)
        pipe.audio_vae.save_pretrained(model / "audio_vae")
        pipe.tokens.save_pretrained(model / "tokenizer")
        MiniMaxH3Scheduler(SHIFT).save_pretrained(model / "scheduler")
        MiniMaxH3Scheduler(SOUND_SHIFT).save_pretrained(model / "audio_scheduler")
        (model / "processor").mkdir(parents=True)
        (model / "processor/preprocessor_config.json").write_text(json.dumps(self.SHOWN | {"image_processor_type": "Qwen2VLImageProcessor"}, indent=2) + "\n")
        (model / "processor/video_preprocessor_config.json").write_text(json.dumps(self.SHOWN_CLIPS | {"video_processor_type": "Qwen3VLVideoProcessor"}, indent=2) + "\n")
        (model / "modular_model_index.json").write_text(json.dumps(index, indent=2) + "\n")
        (model / "tokenizer/chat_template.jinja").unlink(missing_ok=True)
        return self.parts()  # of which nothing was rounded but the parameters

    def normalised(self, pipe, moments):
        mean, std = (torch.tensor(x).view(1, -1, 1, 1, 1) for x in (pipe.vae.config.latents_mean, pipe.vae.config.latents_std))
        return (moments - mean) / std

    def latents(self, pipe, image):
        first = (image.shape[2] - self.SIZE[0]) // 2
        pixels = (image[:, :, None, first:first + self.SIZE[0]] / 2 + 0.5 - MEAN) / STD
        return self.normalised(pipe, pipe.vae.encode(pixels).latent_dist.mode())

    def states(self, pipe, ids):
        return pipe.text_encoder.model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=torch.zeros_like(ids), use_cache=False, output_hidden_states=True).hidden_states[50]

    def conditions(self, pipe, prompt):
        return ([self.states(pipe, torch.tensor([pipe.tokens(prompt, add_special_tokens=False)["input_ids"]]))[0]],)

    def predict(self, model, noisy, sigma, captions, sound=None):
        """Velocities noise - data of frames, and of sound where there is any; each sample by itself, as a sequence of its own."""
        frames = noisy if noisy.dim() == 5 else noisy[:, :, None]
        outs, sounds = [], []
        for b, text in enumerate(captions):
            num_sound = 0 if sound is None else sound.shape[2] // 2
            layout = MiniMaxH3PrepareLayoutStep.build_packed_sequence(torch.ones(len(text), dtype=torch.long), *frames.shape[2:], num_sound, (1, 2, 2), 2, 2, 0)
            position_ids, tags, video, audio, texts = layout[:5]
            times, of_rows = MiniMaxH3SetTimestepsStep.build_row_timesteps(video, audio, 0, 0, len(text), 1 - sigma[b].item(), 1 - sound_sigma(sigma[b]).item(), 1.0, 1.0)
            rows = sound[b].T[None] if sound is not None else torch.zeros(1, 0, model.config.audio_in_channels)
            velocity, of_sound = model(hidden_states=patchify_video_latents(frames[b:b + 1], (1, 2, 2))[None], audio_hidden_states=rows, encoder_hidden_states=text[None], timestep=times,
                                       timestep_indices=of_rows, token_tags=tags, position_ids=position_ids, video_indices=video, audio_indices=audio, text_indices=texts, return_dict=False)
            f, h, w = frames.shape[2:]
            outs.append(-velocity.view(f, h // 2, w // 2, -1, 2, 2).permute(3, 0, 1, 4, 2, 5).reshape(-1, f, h, w))
            sounds.append(-of_sound[0].T)
        out = torch.stack(outs).reshape(noisy.shape)
        return out if sound is None else (out, torch.stack(sounds))

    def train(self, pipe, samples, replay, parameters, name, has_sound=True):
        """A still's sound is noise of its own level, whose velocity is not judged."""
        def loss_of(step):
            latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            noisy = (1 - sigma) * latents + sigma * noise
            sound = sound_sigma(sigma) * replay[f"step.{step}.audio_latents_noise"][None] if has_sound else None
            out = self.predict(pipe.transformer, noisy, sigma.reshape(1), *conditions, sound)
            return F.mse_loss(out[0] if has_sound else out, noise - latents)

        losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    def trained_more(self, pipe, adapter, replay):
        return self.train(pipe, self.encode(pipe), replay, adapter, "silent", has_sound=False)

    @torch.no_grad()
    def sampled(self, pipe, noise, negative=None, guidance=1.0, prompts=None):
        scheduler = MiniMaxH3Scheduler(SHIFT)
        texts = [self.conditions(pipe, prompt)[0][0] for prompt in prompts or self.PROMPTS]
        away = None if negative is None else [self.conditions(pipe, negative)[0][0]] * len(texts)
        scheduler.set_timesteps(5)  # of which the last is data
        latents = noise
        for t in scheduler.timesteps:
            sigma = (1 - t).repeat(len(texts))
            velocity = self.predict(pipe.transformer, latents, sigma, texts)
            if away is not None:
                other = self.predict(pipe.transformer, latents, sigma, away)
                velocity = other + guidance * (velocity - other)
            latents = scheduler.step(-velocity, t, latents, return_dict=False)[0]
        return latents

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, " ", 2.5), "space": self.sampled(pipe, noise, prompts=[" ", "red apple"])}

    def write_replay(self, num_samples):
        replay = super().write_replay(num_samples)
        replay |= {f"step.{i}.audio_latents_noise": torch.randn(*self.SOUND) for i in range(training_loop.STEPS)}
        save_file(replay, self.OUT / "replay.safetensors")
        return replay

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 8), torch.randn(9, 8)]
        noisy, sigma, sound = torch.randn(2, 6, 7, 4, 6), torch.tensor([0.83, 0.21]), torch.randn(2, 5, 2 * 37)
        out, of_sound = self.predict(pipe.transformer, noisy, sigma, captions, sound)
        sound_weight = torch.randn_like(of_sound)
        (of_sound * sound_weight).sum().backward(retain_graph=True)
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "sound": sound, "sound_weight": sound_weight, "sound_out": of_sound.detach().contiguous(),
                                             "caption.0": captions[0], "caption.1": captions[1]}, out, self.OUT / "batch.safetensors")
        ids = torch.randint(0, 700, (1, 12))
        with torch.no_grad():
            save_file({"ids": ids, "states": self.states(pipe, ids)}, self.OUT / "text.safetensors")
            self.write_clips(pipe)

    def write_clips(self, pipe):
        """Of tiles of 64 by 64 pixels that overlap by at least 32, and whole; clips of 17 n + 5 frames."""
        vae, tensors = pipe.vae, {}
        for name, frames, size in (("picture", 1, (96, 160)), ("clip", 5, (64, 96)), ("longer", 22, (32, 64))):
            x = torch.rand(1, 3, frames, *size)
            tensors[f"{name}.pixels"] = (x * 255).round().to(torch.uint8)
            x = (tensors[f"{name}.pixels"].float() / 255 - MEAN) / STD
            for tiling in ("whole", "tiled"):
                vae.enable_tiling(64, 64, 32, 32)
                vae.use_tiling = tiling == "tiled"
                posterior = vae.encode(x).latent_dist
                tensors |= {f"{name}.{tiling}.mean": self.normalised(pipe, posterior.mean), f"{name}.{tiling}.logvar": posterior.logvar}
        vae.enable_tiling(64, 64, 32, 32)
        for name, frames, size in (("still", 1, (6, 10)), ("clip", 7, (4, 6)), ("longer", 12, (2, 4))):
            latents = torch.randn(1, 6, frames, *size)
            tensors[f"{name}.latents"] = latents
            mean, std = (torch.tensor(x).view(1, -1, 1, 1, 1) for x in (vae.config.latents_mean, vae.config.latents_std))
            raw = latents * std + mean
            for tiling in ("whole", "tiled"):
                vae.use_tiling = tiling == "tiled"
                # A still is its latent twice: the first frame behind those that stand before a clip.
                decoded = vae.decode(raw).sample if frames > 1 else vae._decode_clip(raw.repeat(1, 1, 2, 1, 1))[:, :, vae.frame_pre_padding:][:, :, :1]
                tensors[f"{name}.{tiling}.decoded"] = digest((decoded * STD + MEAN).clamp(0, 1) * 2 - 1)
        save_file({n: x.contiguous() for n, x in tensors.items()}, self.OUT / "clips.safetensors")
        vae.enable_tiling(256, 256, 64, 64)


FAMILY = MiniMaxH3()

if __name__ == "__main__":
    FAMILY.write()
