#!/usr/bin/env python3
"""A whole small LTX-2.3 with random weights, and what diffusers + peft do with it, in ltx2_pipeline/:

model/                a folder as diffusers has it: transformer, vae, audio_vae, connectors, vocoder, text_encoder, tokenizer, scheduler
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps, and step.{i}.audio_latents_noise, that of the sound of a still, of
                      which there is none but noise; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps; initial noise of frames and sound, and the latents after 4 sampling steps: plain,
                      with the LoRA, with guidance
batch.safetensors     the transformer alone on clips with sound: in.<input>, out and sound, out_weight, and grad.<parameter>: the digest of the
                      gradient of sum(out * out_weight) + sum(sound * sound_weight)
given.safetensors     the same on clips whose first frame is given, out and sound alone
version_20.safetensors, version_25.safetensors  a transformer as LTX-2.0 and 2.5 have it: w.<parameter>, its config, and what batch.safetensors has
"""
import json
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLLTX2Audio, AutoencoderKLLTX2Video, FlowMatchEulerDiscreteScheduler, LTX2Pipeline, LTX2VideoTransformer3DModel
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from diffusers.pipelines.ltx2.vocoder import LTX2VocoderWithBWE
from safetensors.torch import save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, PreTrainedTokenizerFast

import family
import training_loop
from digest import digest
from make_encoders import randomise, rounded

RATE = 24.0


def transformer_sizes(**switches):
    return dict(in_channels=6, out_channels=6, audio_in_channels=8, audio_out_channels=8, num_attention_heads=2, attention_head_dim=16, cross_attention_dim=32, audio_num_attention_heads=2,
                audio_attention_head_dim=8, audio_cross_attention_dim=16, num_layers=3, rope_type="split", **switches)


V23 = dict(gated_attn=True, audio_gated_attn=True, cross_attn_mod=True, audio_cross_attn_mod=True, use_prompt_embeddings=False)
V20 = dict(caption_channels=20)
V25 = V23 | dict(ff_bias=False, use_keyframes_abs_pos_embedding=True)


def randomised(model, gain):
    """Tables and registers as the published code draws them, which are no matrices."""
    randomise(model, gain)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("scale_shift_table", "keyframes_abs_pos_embedding")):
                p.copy_(torch.randn_like(p) * 0.3)
    return rounded(model)


class LTX2(family.Family):
    OUT = family.HERE / "ltx2_pipeline"
    TARGETS = r"transformer_blocks\..*(to_q|to_k|to_v|to_out\.0)"
    SIZE = (32, 64)
    LATENTS = (6, 1, 1, 2)
    SOUND = (8, 1)  # of a still: one latent
    TEXT = dict(hidden_size=36, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=8, sliding_window=1024, query_pre_attn_scalar=8,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}})
    VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=28, patch_size=14)
    CONNECTORS = dict(caption_channels=36, text_proj_in_factor=4, video_connector_num_attention_heads=2, video_connector_attention_head_dim=16, video_connector_num_layers=2,
                      video_connector_num_learnable_registers=128, video_gated_attn=True, audio_connector_num_attention_heads=2, audio_connector_attention_head_dim=8,
                      audio_connector_num_layers=2, audio_connector_num_learnable_registers=128, audio_gated_attn=True, rope_type="split", per_modality_projections=True,
                      video_hidden_dim=32, audio_hidden_dim=16, proj_bias=True)
    VAE = dict(latent_channels=6, block_out_channels=(8, 8, 16, 16), decoder_block_out_channels=(4, 8, 8, 16), layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1, 1),
               spatio_temporal_scaling=(True,) * 4, decoder_spatio_temporal_scaling=(True,) * 4, decoder_inject_noise=(False,) * 5, downsample_type=("spatial", "temporal", "spatiotemporal", "spatiotemporal"),
               upsample_type=("spatiotemporal", "spatiotemporal", "temporal", "spatial"), upsample_residual=(False,) * 4, upsample_factor=(2, 2, 1, 2), encoder_causal=True, decoder_causal=False,
               decoder_spatial_padding_mode="zeros", spatial_compression_ratio=32, temporal_compression_ratio=8)
    # As many base channels as a latent has numbers, of which diffusers makes its statistics.
    SOUND_VAE = dict(base_channels=8, ch_mult=(1, 2, 1), num_res_blocks=1, latent_channels=2, mel_bins=16, norm_type="pixel", causality_axis="height", resolution=16)
    VOCODER = dict(in_channels=32, hidden_channels=16, upsample_kernel_sizes=[11, 4, 4, 4], upsample_factors=[5, 4, 4, 2], resnet_kernel_sizes=[3, 5], resnet_dilations=[[1, 3], [1, 3]], bwe_in_channels=32,
                   bwe_hidden_channels=16, bwe_upsample_kernel_sizes=[12, 11, 4, 4], bwe_upsample_factors=[6, 5, 4, 2], bwe_resnet_kernel_sizes=[3, 5], bwe_resnet_dilations=[[1, 3], [1, 3]],
                   num_mel_channels=16, filter_length=128, window_length=128)

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/gemma_json/tokenizer.json"), bos_token="<bos>", pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
        tokens.padding_side = "left"
        tokens.model_max_length = 1024
        text = randomise(Gemma3ForConditionalGeneration(Gemma3Config(text_config=self.TEXT | {"vocab_size": len(tokens)}, vision_config=self.VISION, mm_tokens_per_image=4)), 1.2)
        vae = randomise(AutoencoderKLLTX2Video(**self.VAE), 1.2)
        vae.latents_mean.copy_((torch.randn(6) * 0.3).to(torch.bfloat16))
        vae.latents_std.copy_((torch.rand(6) + 0.5).to(torch.bfloat16))
        sound = randomise(AutoencoderKLLTX2Audio(**self.SOUND_VAE), 1.2)
        sound.latents_mean.copy_((torch.randn(8) * 0.3).to(torch.bfloat16))
        sound.latents_std.copy_((torch.rand(8) + 0.5).to(torch.bfloat16))
        connectors = randomised(LTX2TextConnectors(**self.CONNECTORS), 0.7)
        transformer = randomised(LTX2VideoTransformer3DModel(**transformer_sizes(**V23)), 0.7)
        vocoder = LTX2VocoderWithBWE(**self.VOCODER)
        scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05, base_image_seq_len=1024, max_image_seq_len=4096, shift_terminal=0.1)
        return LTX2Pipeline(scheduler=scheduler, vae=rounded(vae), audio_vae=rounded(sound), text_encoder=rounded(text), tokenizer=tokens, connectors=connectors, transformer=transformer,
                            vocoder=rounded(vocoder))

    def latents(self, pipe, image):
        first = (image.shape[2] - self.SIZE[0]) // 2
        encoded = pipe.vae.encode(image[:, :, None, first:first + self.SIZE[0]]).latent_dist.mode()
        return (encoded - pipe.vae.latents_mean.view(1, -1, 1, 1, 1)) / pipe.vae.latents_std.view(1, -1, 1, 1, 1)

    def conditions(self, pipe, prompt):
        states, mask = pipe._get_gemma_prompt_embeds(prompt)
        frames, sound, _ = pipe.connectors(states, mask, padding_side="left")
        return frames, sound

    def predict(self, model, noisy, sigma, text, sound_text, sound=None, num_given=0, **more):
        """Velocities noise - data of frames, and of the sound."""
        f, h, w = noisy.shape[2:]
        timestep = (sigma * 1000).view(-1, 1).repeat(1, f * h * w)
        timestep[:, :num_given * h * w] = 0
        out, of_sound = model(hidden_states=noisy.flatten(2).transpose(1, 2), audio_hidden_states=sound.transpose(1, 2), encoder_hidden_states=text, audio_encoder_hidden_states=sound_text,
                              timestep=timestep if num_given else sigma * 1000, audio_timestep=sigma * 1000, sigma=sigma * 1000, audio_sigma=sigma * 1000, num_frames=f, height=h, width=w, fps=RATE,
                              audio_num_frames=sound.shape[2], use_cross_timestep=True, return_dict=False, **more)
        return out.transpose(1, 2).unflatten(2, (f, h, w)), of_sound.transpose(1, 2)

    def train(self, pipe, samples, replay, parameters, name):
        """A still's sound is noise, whose velocity is not judged."""
        def loss_of(step):
            latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            noisy = (1 - sigma) * latents + sigma * noise
            return F.mse_loss(self.predict(pipe.transformer, noisy, sigma.reshape(1), *conditions, sigma * replay[f"step.{step}.audio_latents_noise"][None])[0], noise - latents)

        losses, norms, _ = training_loop.train(parameters, training_loop.STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    @torch.no_grad()
    def sampled(self, pipe, noise, negative=None, guidance=1.0):
        frames, sound = noise, self.sound_noise
        texts = [torch.cat(x) for x in zip(*(self.conditions(pipe, prompt) for prompt in self.PROMPTS))]
        away = None if negative is None else [torch.cat([x] * len(self.PROMPTS)) for x in self.conditions(pipe, negative)]
        num_tokens = frames[0, 0].numel()
        pipe.scheduler.set_timesteps(4, sigmas=[1, 0.75, 0.5, 0.25], mu=0.95 + (num_tokens - 1024) * 1.1 / 3072)
        sigmas = pipe.scheduler.sigmas
        for sigma, after in zip(sigmas[:-1], sigmas[1:]):
            velocities = self.predict(pipe.transformer, frames, sigma.repeat(len(frames)), *texts, sound)
            if away is not None:
                others = self.predict(pipe.transformer, frames, sigma.repeat(len(frames)), *away, sound)
                velocities = [o + guidance * (v - o) for v, o in zip(velocities, others)]
            frames, sound = (x + (after - sigma) * v for x, v in zip((frames, sound), velocities))
        return frames

    def further_noise(self):
        self.sound_noise = torch.randn(2, *self.SOUND)
        return {"audio_latents_noise": self.sound_noise}

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, "", 2.5)}

    def write_replay(self, num_samples):
        replay = super().write_replay(num_samples)
        replay |= {f"step.{i}.audio_latents_noise": torch.randn(*self.SOUND) for i in range(training_loop.STEPS)}
        save_file(replay, self.OUT / "replay.safetensors")
        return replay

    def write_alone(self, pipe):
        self.write_batch(pipe.transformer, self.OUT / "batch.safetensors", 32, 16)
        with torch.no_grad():
            given = self.inputs(32, 16)
            out, of_sound = self.predict(pipe.transformer, *given.values(), num_given=1)
            save_file({f"in.{n}": x for n, x in given.items()} | {"out": out.contiguous(), "sound": of_sound.contiguous()}, self.OUT / "given.safetensors")
        for version, switches, width in (("20", V20, 20), ("25", V25, 0)):
            torch.manual_seed(5)
            sizes = transformer_sizes(**switches) | {"num_layers": 1, "attention_head_dim": 8, "cross_attention_dim": 16, "audio_attention_head_dim": 4, "audio_cross_attention_dim": 8}
            model = randomised(LTX2VideoTransformer3DModel(**sizes), 0.7)
            marks = {"video_keyframes_mask": (torch.arange(3 * 2 * 3) < 6).float().view(1, -1, 1)} if version == "25" else {}
            file = self.OUT / f"version_{version}.safetensors"
            tensors = {f"w.{n}": p.detach().to(torch.bfloat16).contiguous().clone() for n, p in model.named_parameters()}
            self.write_batch(model, file, width or 16, width or 8, tensors, json.dumps(dict(model.config)), **marks)

    @staticmethod
    def inputs(width, sound_width):
        return {"noisy": torch.randn(2, 6, 3, 2, 3), "sigma": torch.tensor([0.83, 0.21]), "text": torch.randn(2, 7, width), "sound_text": torch.randn(2, 7, sound_width), "sound": torch.randn(2, 8, 18)}

    def write_batch(self, model, file, width, sound_width, tensors={}, config="", **more):
        torch.manual_seed(3)
        inputs = self.inputs(width, sound_width)
        if width == sound_width:
            inputs["sound_text"] = inputs["text"]
        out, of_sound = self.predict(model, *inputs.values(), **more)
        weights = torch.randn_like(out), torch.randn_like(of_sound)
        ((out * weights[0]).sum() + (of_sound * weights[1]).sum()).backward()
        tensors = tensors | {f"in.{n}": x.clone() for n, x in inputs.items()} | {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters() if p.grad is not None}
        tensors |= {"out": out.detach().contiguous(), "sound": of_sound.detach().contiguous(), "out_weight": weights[0].contiguous(), "sound_weight": weights[1].contiguous()}
        save_file(tensors, file, metadata={"config": config})
        model.zero_grad()


FAMILY = LTX2()

if __name__ == "__main__":
    FAMILY.write()
