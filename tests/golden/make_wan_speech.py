#!/usr/bin/env python3
"""A small random transformer of Wan-S2V, and what DiffSynth-Studio's own code makes with it, in wan_speech/; what hears is wav2vec2/ (make_wav2vec2.py), other components are
those of wan_pipeline/:

transformer/          the transformer in Wan's own names and bf16, with config.json; what it would pack frames before the clip with is left out
transformer.safetensors  the transformer alone: in.<input>, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
sounds/               half a second of sound for each of the clips of wan_image/, and metadata.csv, whose clips and poses are these clips
lora.safetensors      an adapter of all attention, the injector's too, as DiffSynth-Studio writes it, rank 2, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of four steps
expected.safetensors  {lora,injector}.{loss,grad_norm} of training the adapter, and what the transformer has beside others; states of the first row's sound, by frame;
                      noise, and the latents after 4 sampling steps for the text "red apple" from the first picture, with sound and poses of the first row: plain, and guided
                      by 2 away from "cat" without a sound

Frames are shown a tenth of a second in training and a sixteenth in drawing, and what sounds while a frame is shown is heard with it.
"""
import json, shutil, types, wave
import numpy as np
import torch
import torch.nn.functional as F
from diffsynth.models.wan_video_dit_s2v import WanS2VModel
from diffsynth.models.wav2vec import WanS2VAudioEncoder, linear_interpolation
from diffsynth.pipelines.wan_video import model_fn_wans2v
from diffusers import WanPipeline
from peft import LoraConfig, get_peft_model_state_dict, inject_adapter_in_model
from safetensors.torch import save_file
from transformers import Wav2Vec2ForCTC

import family, training_loop
from make_encoders import randomise, rounded
from make_wan import TOKENS, Wan, walked
from make_wan_animate import WanAnimate
from make_wan_image import CLIPS, FRAMES, STEPS, WanImage
from make_wav2vec2 import heard, states_of

OUT, RATE = family.HERE / "wan_speech", 16000
OWN = ("cond_encoder", "casual_audio_encoder", "audio_injector", "trainable_cond_mask")
SIZES = dict(dim=12, in_dim=16, ffn_dim=16, out_dim=16, text_dim=16, freq_dim=8, eps=1e-6, num_heads=2, num_layers=3, cond_dim=16, audio_dim=16, num_audio_token=4,
             audio_inject_layers=[0, 2])


class WanSpeech(WanImage):
    def __init__(self):
        self.base = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        self.hearing = Wav2Vec2ForCTC.from_pretrained(family.HERE / "wav2vec2", torch_dtype=torch.float32).eval()
        torch.manual_seed(61)
        model = randomise(WanS2VModel(patch_size=(1, 2, 2), **SIZES), 0.7)
        model.casual_audio_encoder.weights = torch.nn.Parameter(torch.rand(1, 4, 1, 1) * 0.5 + 0.1)
        model.inject_motion = lambda x, places, kinds, *rest, **named: (x, places, kinds)  # which it would make of frames before the clip, and drop
        del model.frame_packer
        self.model = rounded(model)
        self.pictures = [family.tensor_of(path) for path in sorted(self.PICTURES.glob("*.png"))]

    @torch.no_grad()
    def states(self, samples, frames):
        """What is heard in each frame [1, S, W, frames - 1] but the first, of samples [1, N] for all."""
        made = states_of(self.hearing, heard(samples))[0]
        made = linear_interpolation(made, input_fps=50, output_fps=30)
        seconds = samples.shape[1] / RATE / frames
        places = np.round(np.arange(frames) * seconds * 30).astype(int)
        by_frame = torch.stack([made[:, i] if i < made.shape[1] else torch.zeros_like(made[:, 0]) for i in places], -1)[None]
        if seconds == 1 / 16:
            theirs, _ = WanS2VAudioEncoder.get_audio_embed_bucket_fps(types.SimpleNamespace(video_rate=30), made, fps=16, batch_frames=frames)
            assert torch.equal(by_frame[0], theirs[:frames].permute(1, 2, 0))
        return by_frame[..., 1:]

    def velocity(self, model, noisy, sigma, first, text, states, poses):
        return model_fn_wans2v(model, torch.cat([first, noisy[:, :, 1:]], 2), sigma * 1000, text, states, None, poses)

    def write_alone(self):
        torch.manual_seed(3)
        noisy, sigma, caption = torch.randn(1, 16, 3, 4, 4), torch.tensor([0.8125]), torch.randn(9, 16)
        states, poses = torch.randn(1, 4, 16, 8), torch.randn(1, 16, 2, 4, 4)
        text = F.pad(caption, (0, 0, 0, TOKENS - len(caption)))[None]
        out = self.velocity(self.model, noisy, sigma, noisy[:, :, :1], text, states, poses)
        for name, p in self.model.named_parameters():
            p.requires_grad_(name.startswith(OWN + ("blocks.1.self_attn", "patch_embedding")))
        family.save_alone(self.model, {"noisy": noisy, "sigma": sigma, "caption": caption, "states": states, "poses": poses}, out, OUT / "transformer.safetensors")

    def write_sounds(self):
        (OUT / "sounds").mkdir()
        self.sounds = []
        for number, name in enumerate(CLIPS):
            time = np.arange(RATE // 2) / RATE
            loud = np.abs(np.sin(9 * (number + 1) * time))
            samples = (loud * np.sin(2 * np.pi * (200 + 900 * (number + 1) * time) * time) * 16000).astype(np.int16)
            with wave.open(str(OUT / "sounds" / f"{number}.wav"), "wb") as file:
                file.setnchannels(1), file.setsampwidth(2), file.setframerate(RATE)
                file.writeframes(samples.tobytes())
            self.sounds.append(torch.from_numpy(samples.astype(np.float32) / 32768)[None])
        rows = "".join(f"../../wan_image/clips/{a},{number}.wav,../../wan_image/clips/{b},red apple\n" for number, (a, b) in enumerate(zip(CLIPS, reversed(CLIPS))))
        (OUT / "sounds/metadata.csv").write_text("video,input_audio,s2v_pose_video,prompt\n" + rows)

    @torch.no_grad()
    def posed(self, clip):
        """Latents of the poses of each frame but the first, which the second stands for."""
        return self.encoded(torch.cat([clip[:, :, 1:2], clip[:, :, 1:]], 2))[:, :, 1:]

    @torch.no_grad()
    def sample(self, number):
        clips, names = family.HERE / "wan_image/clips", list(CLIPS)
        clip = WanAnimate.clip(clips / names[number])
        return (self.encoded(clip), self.encoded(clip[:, :, :1]), self.text("red apple"), self.states(self.sounds[number], FRAMES),
                self.posed(WanAnimate.clip(clips / names[1 - number])))

    def train(self, name, parameters, samples, replay):
        def loss_of(step):
            latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            prediction = self.velocity(self.model, (1 - sigma) * latents + sigma * noise, sigma.reshape(1), *conditions)
            return F.mse_loss(prediction[:, :, 1:], (noise - latents)[:, :, 1:])

        losses, norms, _ = training_loop.train(parameters, STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    @torch.no_grad()
    def drawn(self, noise, scale=None):
        first = self.encoded(self.pictures[0][:, :, None])
        states = self.states(self.sounds[0][:, :RATE // 16 * FRAMES], FRAMES)
        poses = self.posed(WanAnimate.clip(family.HERE / "wan_image/clips" / list(CLIPS)[1]))
        texts, heard = [self.text(text) for text in ("red apple", "cat")], [states, 0 * states]

        def velocity(latents, sigma, is_negative=False):
            return self.velocity(self.model, latents, sigma, first, texts[is_negative], heard[is_negative], poses)

        return walked(noise, velocity, scale, first)

    def trained(self):
        return [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        (OUT / "transformer").mkdir(parents=True)
        save_file({n: x.to(torch.bfloat16).contiguous() for n, x in self.model.state_dict().items()}, OUT / "transformer/diffusion_pytorch_model.safetensors")
        config = {"_class_name": "WanModel_S2V", "model_type": "s2v", "adain_mode": "attn_norm", "enable_adain": True, "enable_motioner": False, "zero_timestep": True}
        (OUT / "transformer/config.json").write_text(json.dumps(config | SIZES, indent=1) + "\n")
        self.write_alone()
        self.write_sounds()
        torch.manual_seed(7)
        replay = {}
        for i in range(STEPS):
            replay |= {f"step.{i}.noise": torch.randn(16, 2, 6, 8).to(torch.bfloat16), f"step.{i}.sigma": torch.rand(()) * 0.9 + 0.05, f"step.{i}.sample": torch.tensor(i % len(CLIPS))}
        save_file(replay, OUT / "replay.safetensors")
        replay = {n: x.float() for n, x in replay.items()}
        samples = [self.sample(i) for i in range(len(CLIPS))]
        noise = torch.randn(1, 16, 2, 6, 8)
        expected = {"noise": noise, "plain": self.drawn(noise), "guided": self.drawn(noise, 2), "states": samples[0][3]}
        original = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        for n, p in self.model.named_parameters():
            p.requires_grad_(n.startswith(OWN))
        expected |= self.train("injector", self.trained(), samples, replay)
        self.model.load_state_dict(original)
        self.model.requires_grad_(False)
        inject_adapter_in_model(LoraConfig(r=2, lora_alpha=2, target_modules=["q", "k", "v", "o"], init_lora_weights="gaussian"), self.model)
        with torch.no_grad():
            for n, p in self.trained():
                p.copy_(torch.randn_like(p) * (0.1 if "lora_B" in n else 0.3))
        save_file({n: x.detach().clone().contiguous() for n, x in get_peft_model_state_dict(self.model).items()}, OUT / "lora.safetensors")
        expected |= self.train("lora", self.trained(), samples, replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, expected["plain"].std(), expected["guided"].std(), expected["states"].shape)


if __name__ == "__main__":
    WanSpeech().write()
