#!/usr/bin/env python3
"""What InfiniteTalk adds to a small transformer of Wan 2.1 that goes on from pictures, with random weights, and what diffusers, transformers and peft do with both, in wan_talk/;
the transformer and CLIP are those of wan_image/, what hears is wav2vec2_base/ (make_wav2vec2_base.py), sounds are those of wan_speech/:

infinitetalk.safetensors  what is added, in bf16 and the names of its authors
transformer.safetensors  the transformer alone: in.<input>, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight), of what hears and of the
                      first block; silent: what it makes of silence
metadata.csv          the clips of wan_image/ with sounds
lora.safetensors      an adapter of all attention as SimpleTuner writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,added}.{loss,grad_norm} of training the adapter, and all that is added; states of the first row's sound, by frame; noise, and the latents after 4
                      sampling steps for the text "red apple" from the first picture with the sound of the first row: plain; away from silence by 3: heard; away from "cat" by 2
                      and from silence by 3: guided

The formulas are those of MeiGen-AI/InfiniteTalk (wan/modules/multitalk_model.py, wan/modules/attention.py, wan/multitalk.py). Where SimpleTuner 4.10 is installed, its class is
held to them. Frames are shown a tenth of a second in training and a twenty-fifth in drawing.
"""
import importlib.util, shutil
import torch
import torch.nn.functional as F
from diffusers import WanPipeline, WanTransformer3DModel
from diffusers.models.transformers.transformer_wan import WanTransformerBlock
from safetensors.torch import save_file
from torch import nn
from transformers import CLIPVisionModel, Wav2Vec2ForPreTraining

import family, training_loop
from make_encoders import randomise, rounded
from make_wan import Spaced, TOKENS, Wan
from make_wan_animate import WanAnimate
from make_wan_image import CLIPS, FRAMES, WanImage
from make_wav2vec2 import heard
from make_wav2vec2_base import states_of

OUT, RATE, STEPS = family.HERE / "wan_talk", 16000, 10
ADDED = ("audio_proj", "audio_cross_attn", "norm_x")
SIZES = dict(audio_window=5, audio_layers=3, audio_dim=16, audio_intermediate_dim=8, audio_output_dim=12, audio_context_tokens=4)


class ToSound(nn.Module):
    def __init__(self, width, of_sound, heads):
        super().__init__()
        self.heads = heads
        self.q_linear, self.kv_linear, self.proj = nn.Linear(width, width), nn.Linear(of_sound, 2 * width), nn.Linear(width, width)

    def forward(self, x, sound):
        split = lambda y: y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        query = split(self.q_linear(x.unflatten(1, (sound.shape[1], -1)).flatten(0, 1)))
        key, value = (split(y) for y in self.kv_linear(sound.flatten(0, 1)).chunk(2, -1))
        return self.proj(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)).reshape(x.shape)


class Said(nn.Module):
    """Tokens [B, f, N, W] of windows of states [B, F, window, layers, width]."""
    def __init__(self, audio_window, audio_layers, audio_dim, audio_intermediate_dim, audio_output_dim, audio_context_tokens):
        super().__init__()
        numbers, self.window = audio_layers * audio_dim, audio_window
        self.proj1, self.proj1_vf = nn.Linear(audio_window * numbers, audio_intermediate_dim), nn.Linear((audio_window + 3) * numbers, audio_intermediate_dim)
        self.proj2, self.proj3 = nn.Linear(audio_intermediate_dim, audio_intermediate_dim), nn.Linear(audio_intermediate_dim, audio_context_tokens * audio_output_dim)
        self.norm = nn.LayerNorm(audio_output_dim)

    def forward(self, windows):
        first, rest, middle = windows[:, :1].flatten(2), windows[:, 1:].unflatten(1, (-1, 4)), self.window // 2
        rest = torch.cat([rest[:, :, 0, :middle + 1], rest[:, :, 1, middle:middle + 1], rest[:, :, 2, middle:middle + 1], rest[:, :, 3, middle:]], 2).flatten(2)
        made = torch.cat([F.relu(self.proj1(first)), F.relu(self.proj1_vf(rest))], 1)
        return self.norm(self.proj3(F.relu(self.proj2(made))).unflatten(-1, (-1, self.norm.normalized_shape[0])))


class Block(WanTransformerBlock):
    """diffusers' block, which hears between its attention to texts and its MLP."""
    def forward(self, x, text, modulation, rotary):
        shift, scale, gate, of_mlp_shift, of_mlp_scale, of_mlp_gate = (self.scale_shift_table + modulation.float()).chunk(6, 1)
        x = x + self.attn1(self.norm1(x) * (1 + scale) + shift, None, None, rotary) * gate
        x = x + self.attn2(self.norm2(x), text, None, None)
        x = x + self.audio_cross_attn(self.norm_x(x), self.said[0])
        return x + self.ffn(self.norm3(x) * (1 + of_mlp_scale) + of_mlp_shift) * of_mlp_gate


class Talk(WanTransformer3DModel):
    def add(self):
        width, heads = self.inner_dim if hasattr(self, "inner_dim") else self.proj_out.in_features, self.config.num_attention_heads
        self.audio_proj = Said(**SIZES)
        self.said = [None]
        for block in self.blocks:
            block.__class__, block.said = Block, self.said
            block.audio_cross_attn, block.norm_x = ToSound(width, SIZES["audio_output_dim"], heads), nn.LayerNorm(width, 1e-6)
        return self

    def forward(self, *args, windows, **options):
        self.said[0] = self.audio_proj(windows)
        return super().forward(*args, **options)


def windows_of(states):
    """[B, F, window, layers, width] of states [B, layers, F, width], whose ends are repeated."""
    states = states.transpose(1, 2)
    places = (torch.arange(states.shape[1])[:, None] + torch.arange(SIZES["audio_window"]) - SIZES["audio_window"] // 2).clamp(0, states.shape[1] - 1)
    return states[:, places]


class WanTalk(WanImage):
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "audio_cross_attn.q_linear", "audio_cross_attn.kv_linear", "audio_cross_attn.proj"]  # SimpleTuner's

    def __init__(self):
        self.base = WanPipeline.from_pretrained(Wan.OUT / "model", torch_dtype=torch.float32)
        self.encoder = CLIPVisionModel.from_pretrained(family.HERE / "wan_image/image_encoder", torch_dtype=torch.float32)
        self.hearing = Wav2Vec2ForPreTraining.from_pretrained(family.HERE / "wav2vec2_base", torch_dtype=torch.float32).eval()
        self.num_states = self.encoder.config.image_size ** 2 // 14 ** 2 + 1
        self.model = Talk.from_pretrained(family.HERE / "wan_image/transformer", torch_dtype=torch.float32).add()
        torch.manual_seed(67)
        added = nn.ModuleList([self.model.audio_proj] + [m for b in self.model.blocks for m in (b.audio_cross_attn, b.norm_x)])
        rounded(randomise(added, 0.7))
        self.pictures = [family.tensor_of(path) for path in sorted(self.PICTURES.glob("*.png"))]
        self.sounds = [self.sound(number) for number in range(len(CLIPS))]

    def added(self):
        return {n: x for n, x in self.model.state_dict().items() if any(part in n.split(".") for part in ADDED)}

    @staticmethod
    def sound(number):
        import wave
        with wave.open(str(family.HERE / f"wan_speech/sounds/{number}.wav")) as file:
            return torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16).float()[None] / 32768

    def states_in(self, samples):
        """States [1, layers, F, width] behind each layer, of samples [1, N] for all frames."""
        return states_of(self.hearing, heard(samples), FRAMES)[:, 1:]

    def velocity(self, model, noisy, sigma, beside, text, states, said):
        return model(hidden_states=torch.cat([noisy, beside], 1), encoder_hidden_states=text, timestep=sigma * 1000, encoder_hidden_states_image=states, windows=windows_of(said),
                     return_dict=False)[0]

    @torch.no_grad()
    def check_simpletuner(self, inputs):
        """Holds this class to SimpleTuner's, which takes 513 states for a picture's whatever there are."""
        if importlib.util.find_spec("simpletuner") is None:
            return
        from simpletuner.helpers.models.infinitetalk.transformer import InfiniteTalkTransformer3DModel
        c = self.model.config
        theirs = InfiniteTalkTransformer3DModel(num_attention_heads=c.num_attention_heads, attention_head_dim=c.attention_head_dim, in_channels=36, text_dim=16, freq_dim=32, ffn_dim=16,
                                                num_layers=2, rope_max_seq_len=32, image_dim=16, added_kv_proj_dim=12, **SIZES)
        theirs.load_state_dict(self.model.state_dict())
        given = dict(hidden_states=inputs["noisy"], encoder_hidden_states=self.filled(inputs["caption"]), timestep=inputs["sigma"] * 1000,
                     encoder_hidden_states_image=torch.randn(1, 513, 16), return_dict=False)
        windows = windows_of(inputs["states"])
        made, own = theirs(**given, audio_hidden_states=windows)[0], self.model(**given, windows=windows)[0]
        print("SimpleTuner's class differs by", (made - own).abs().max().item(), "of", own.std().item())
        assert torch.allclose(made, own, rtol=1e-5, atol=1e-6)

    @staticmethod
    def filled(caption):
        return F.pad(caption, (0, 0, 0, TOKENS - len(caption)))[None]

    def write_alone(self):
        torch.manual_seed(3)
        inputs = {"noisy": torch.randn(1, 36, 3, 4, 4), "sigma": torch.tensor([0.8125]), "caption": torch.randn(9, 16), "image": torch.randn(1, self.num_states, 16),
                  "states": torch.randn(1, 3, 9, 16)}
        run = lambda states: self.model(hidden_states=inputs["noisy"], encoder_hidden_states=self.filled(inputs["caption"]), timestep=inputs["sigma"] * 1000,
                                        encoder_hidden_states_image=inputs["image"], windows=windows_of(states), return_dict=False)[0]
        with torch.random.fork_rng():
            self.check_simpletuner(inputs)
        with torch.no_grad():
            silent = run(0 * inputs["states"])
        out = run(inputs["states"])
        for name, p in self.model.named_parameters():
            p.requires_grad_(any(part in name.split(".") for part in ADDED) or name.startswith(("blocks.0.attn1", "patch_embedding")))
        family.save_alone(self.model, inputs | {"silent": silent}, out, OUT / "transformer.safetensors")

    @torch.no_grad()
    def sample(self, number):
        clip = WanAnimate.clip(family.HERE / "wan_image/clips" / list(CLIPS)[number])
        return self.encoded(clip), self.beside(clip, False), self.text("red apple"), self.states(clip[:, :, 0]), self.states_in(self.sounds[number])

    def train(self, name, parameters, samples, replay):
        def loss_of(step):
            latents, *conditions = samples[int(replay[f"step.{step}.sample"])]
            noise, sigma = replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"]
            noisy = torch.cat([latents[:, :, :1], ((1 - sigma) * latents + sigma * noise)[:, :, 1:]], 2)
            return F.mse_loss(self.velocity(self.model, noisy, sigma.reshape(1), *conditions)[:, :, 1:], (noise - latents)[:, :, 1:])

        losses, norms, _ = training_loop.train(parameters, STEPS, loss_of)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    @torch.no_grad()
    def drawn(self, noise, text_scale=1, sound_scale=1):
        """Latents after four steps, the first frame of which is the picture's at every step."""
        picture = self.pictures[0]
        clip = torch.cat([picture[:, :, None], torch.zeros(1, 3, FRAMES - 1, *picture.shape[2:])], 2)
        first, beside, states = self.encoded(picture[:, :, None]), self.beside(clip, False), self.states(picture)
        texts, said = [self.text(text) for text in ("red apple", "cat")], self.states_in(self.sounds[0][:, :RATE // 25 * FRAMES])
        scheduler = Spaced(shift=5.0)
        scheduler.set_timesteps(4)
        held = lambda latents: torch.cat([first, latents[:, :, 1:]], 2)
        latents = held(noise)
        for t in scheduler.timesteps:
            made = lambda is_negative, is_silent: self.velocity(self.model, latents, t.reshape(1) / 1000, beside, texts[is_negative], states, said * (not is_silent))
            if text_scale == 1:
                away = made(False, True)
                prediction = away + sound_scale * (made(False, False) - away)
            else:
                other, nothing = made(True, False), made(True, True)
                prediction = nothing + text_scale * (made(False, False) - other) + sound_scale * (other - nothing)
            latents = held(scheduler.step(prediction, t, latents).prev_sample)
        return latents

    def trained(self):
        return [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]

    def write(self):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir()
        save_file({n: x.to(torch.bfloat16).contiguous() for n, x in self.added().items()}, OUT / "infinitetalk.safetensors")
        self.write_alone()
        rows = "".join(f"../wan_image/clips/{name},../wan_speech/sounds/{number}.wav,red apple\n" for number, name in enumerate(CLIPS))
        (OUT / "metadata.csv").write_text("video,input_audio,prompt\n" + rows)
        torch.manual_seed(7)
        replay = training_loop.write_replay(OUT / "replay.safetensors", (16, 2, 6, 8), len(CLIPS), self.REPLAYED, steps=STEPS, stride=1)
        samples = [self.sample(i) for i in range(len(CLIPS))]
        noise = torch.randn(1, 16, 2, 6, 8)
        expected = {"noise": noise, "plain": self.drawn(noise), "heard": self.drawn(noise, 1, 3), "guided": self.drawn(noise, 2, 3), "states": samples[0][4]}
        original = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        for n, p in self.model.named_parameters():
            p.requires_grad_(any(part in n.split(".") for part in ADDED))
        expected |= self.train("added", self.trained(), samples, replay)
        self.model.load_state_dict(original)
        adapter = training_loop.add_adapter(self.model, self.TARGETS)
        save_file(training_loop.adapter_state("transformer", self.model), OUT / "lora.safetensors", metadata={"format": "pt"})
        expected |= self.train("lora", adapter, samples, replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
        for file in OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: expected[n].std().item() for n in ("plain", "heard", "guided")})


if __name__ == "__main__":
    WanTalk().write()
