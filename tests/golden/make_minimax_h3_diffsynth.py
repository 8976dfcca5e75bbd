#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of the small MiniMax-H3, the stills of make_minimax_h3.py and the clips of make_minimax_h3_clips.py -> minimax_h3_diffsynth.json:

{still,sounding,half,silent,guided,given,references,own,whole}  loss and grad_norm of ten steps of the recorded noise, times and samples: stills, clips with sound, with a weight of 0.5 on
          sound, without a sound to learn, with training_cfg_scale 4, of which first and last frame are given, beside references, with its own times and weights, and of all weights, for
          which another clip stands in place of the one without a sound

Prompts, given frames, references, places, the transformer and the loss are its own; texts' states and latents are made by the pipeline's encoders. Times of frames and sound are one base behind
the shifts of drawing; `own` has its grid, where the sound is as noisy as the frames.
"""
import csv, json, re, sys, types
from unittest import mock

import torch
from peft import LoraConfig, inject_adapter_in_model
from PIL import Image
from safetensors.torch import load_file

sys.modules.setdefault("torchaudio", types.ModuleType("torchaudio"))  # which it reads files with, and none is read here
from diffsynth.diffusion.loss import FlowMatchSFTMiniMaxH3AudioVideoLoss
from diffsynth.models.minimax_h3_dit import MiniMaxH3DiT, unpack_audio, unpatchify_video
from diffsynth.pipelines import minimax_h3_audio_video as theirs
from transformers import Qwen2VLImageProcessor, Qwen3VLVideoProcessor

import family, training_loop
from make_families_diffsynth import Calling
from make_minimax_h3 import FAMILY, MEAN, STD, sound_sigma
from make_minimax_h3_clips import CAPTIONS, FRAMES, RATE, SIZE, WITHOUT, ends_of, sound_of
from make_minimax_h3_clips import OUT as CLIPS
from make_minimax_h3_references import OUT as REFERENCED
from make_minimax_h3_references import ROWS, frames_of, heard_in, shown

CHANNELS, TARGETS = {96: 24, 32: 5, 24: 6}, r"blocks\..*\.(to_q|to_k|to_v|out_proj|fc1|fc2)"
STILL = (2,)
NAMES = {"proj_in": "video_patch_proj", "audio_proj_in": "audio_patch_proj", "context_embedder": "condition_proj", "time_embedder.linear_1": "time_embedder.proj_in",
         "time_embedder.linear_2": "time_embedder.proj_out", "token_refiner.refiner_blocks": "token_refiner.blocks", "transformer_blocks": "blocks", "to_out.0": "out_proj", "norm_q": "q_norm",
         "norm_k": "k_norm", "ff.net.0.proj": "mlp.fc1", "ff.net.2": "mlp.fc2", "norm_out.norm": "final_layer.norm", "norm_out.linear": "final_layer.adaln_proj.linear",
         "proj_out": "final_layer.video_out", "audio_proj_out": "final_layer.audio_out"}


class OfFewChannels:
    """torch for code that has the published numbers of channels written into it."""

    def __getattr__(self, name):
        return getattr(torch, name)

    def zeros(self, *size, **options):
        return torch.zeros(*size[:-1], CHANNELS.get(size[-1], size[-1]) if size[0] == 1 else size[-1], **options)


class Pipeline(theirs.MiniMaxH3Pipeline):
    """Noise of few channels, and for what is given no longer than that."""

    def generate_noise(self, shape, *args, **kwargs):
        shape = [CHANNELS.get(size, size) for size in shape]
        if len(shape) == 5 and self.lengths:
            shape[2] = self.lengths.pop(0)
        return super().generate_noise(shape, *args, **kwargs)


class References(theirs.MiniMaxH3Unit_ReferenceEncoder):
    """Of an area instead of the released sizes."""

    def _resolve_reference_image_shape(self, pipe, width, height, *_):
        return shown(Image.new("RGB", (width, height))).size

    def _resolve_reference_video_shape(self, pipe, width, height, *_):
        return width, height

    def _build_block(self, pipe, *args):
        block = super()._build_block(pipe, *args)
        if "visual_clean" in block:
            pipe.lengths.append(block["latent_t"])
        return block


class ByPart(torch.nn.Module):
    """The fused layer as three, which adapters know, with its rows head by head."""

    def __init__(self, fused, heads):
        super().__init__()
        self.heads = heads
        for name, weight in zip(("to_q", "to_k", "to_v"), fused.weight.detach().unflatten(0, (heads, 3, -1)).unbind(1)):
            layer = torch.nn.Linear(fused.in_features, fused.out_features // 3, bias=False)
            layer.weight.data.copy_(weight.flatten(0, 1))
            setattr(self, name, layer)

    def forward(self, x):
        return torch.stack([layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.to_q, self.to_k, self.to_v)], -2).flatten(-3)


def renamed(name):
    return re.sub(r"(?<!\w)(%s)(?=\.)" % "|".join(map(re.escape, NAMES)), lambda found: NAMES[found[0]], name)


def transformer():
    c = FAMILY.TRANSFORMER
    dit = MiniMaxH3DiT(num_layers=c["num_layers"], token_refiner_num_layers=c["num_refiner_layers"], hidden_size=c["hidden_size"], num_attention_heads=c["num_attention_heads"],
                       attention_head_dim=c["attention_head_dim"], ffn_hidden_size=c["ffn_dim"], latents_dim=c["in_channels"], audio_latents_dim=c["audio_in_channels"], text_dim=c["text_dim"],
                       timestep_input_dim=c["freq_dim"], time_embed_hidden_size=c["time_embed_hidden_dim"], time_embed_dim=c["time_embed_dim"], adaln_out_features=18 * c["hidden_size"],
                       final_adaln_out_features=2 * c["hidden_size"], rope_inv_freq_len=c["rope_freq_dim"])
    state, parts = {}, {}
    for file in (FAMILY.OUT / "model/transformer").glob("*.safetensors"):
        for name, value in load_file(file).items():
            layer, _, part = name.removesuffix(".weight").rpartition(".")
            if part in ("to_q", "to_k", "to_v"):
                parts.setdefault(renamed(layer + "."), {})[part] = value.float()
            else:
                state[renamed(name)] = torch.cat(value.float().chunk(2)[::-1]) if ".net.0.proj." in name else value.float()
    for layer, of in parts.items():
        by_head = torch.stack([of[part].unflatten(0, (c["num_attention_heads"], -1)) for part in ("to_q", "to_k", "to_v")], 1)
        state[layer + "qkv_proj.weight"] = by_head.flatten(0, 2)
    state["rope.inv_freq"] = dit.rope.inv_freq.data
    dit.load_state_dict(state)
    dit.rope.inv_freq.requires_grad_(False)
    return dit


def adapted():
    """The frozen transformer with the adapter of lora.safetensors, and its (name, parameter) that train."""
    dit = transformer().requires_grad_(False)
    for block in dit.blocks:
        block.attn.qkv_proj = ByPart(block.attn.qkv_proj, FAMILY.TRANSFORMER["num_attention_heads"])
    dit = inject_adapter_in_model(LoraConfig(r=4, lora_alpha=2, target_modules=TARGETS), dit)
    values = {}
    for name, value in load_file(FAMILY.OUT / "lora.safetensors").items():
        if name.endswith("net.0.proj.lora_B.weight"):
            value = torch.cat(value.chunk(2)[::-1])
        values[renamed(name.removeprefix("transformer."))] = value
    trained = [(name, p) for name, p in dit.named_parameters() if p.requires_grad]
    for name, p in trained:
        p.data.copy_(values[name.replace(".default", "").replace("qkv_proj.", "")])
    return dit, trained


def open_pipeline():
    parts, pipe = FAMILY.parts(), Pipeline(device="cpu", torch_dtype=torch.float32)
    pipe.lengths, pipe.tokenizer = [], parts.tokens
    pipe.processor = types.SimpleNamespace(image_processor=Qwen2VLImageProcessor(**FAMILY.SHOWN), video_processor=Qwen3VLVideoProcessor(**FAMILY.SHOWN_CLIPS))
    one = parts.tokens.convert_tokens_to_ids

    def states(input_ids, **shown):
        kinds = (input_ids == one("<|image_pad|>")).int() + 2 * (input_ids == one("<|video_pad|>")).int()
        return parts.text_encoder.model(input_ids=input_ids, mm_token_type_ids=kinds, use_cache=False, output_hidden_states=True, **shown).hidden_states[50][0]

    def latents(frames, process_image=False, **_):
        frames = frames[:, :, None] if process_image else frames
        return FAMILY.normalised(parts, parts.vae.encode((frames - MEAN) / STD).latent_dist.mode())

    def sound(waveform, **_):
        mean, std = (torch.tensor(x).view(1, -1, 1) for x in (parts.audio_vae.config.latents_mean, parts.audio_vae.config.latents_std))
        waveform = torch.nn.functional.pad(waveform, (0, -waveform.shape[1] % 20))
        return (parts.audio_vae.encode(waveform[:, None]).latent_dist.mode() - mean) / std

    pipe.text_encoder, pipe.video_vae, pipe.audio_vae = Calling(forward=states), Calling(encode_video=latents), Calling(encode_audio=sound, sample_rate=RATE)
    pipe.scheduler.training = True
    return pipe


def reference(entry):
    of = {"type": entry["type"]}
    if "image" in entry:
        of["image"] = Image.open(REFERENCED / entry["image"]).convert("RGB")
    if "video" in entry:
        of["video"] = [Image.fromarray(frame) for frame in frames_of(entry["video"])]
    if "audio" in entry:
        of |= {"audio": heard_in(entry["audio"]), "sample_rate": RATE}
    return of


def inputs_of(i, kind):
    """What its training script hands to its units of a row."""
    if kind == "still":
        picture = Image.open(FAMILY.PICTURES / f"{i}.png").convert("RGB")
        top = (picture.height - SIZE[0]) // 2
        return {"input_video": [picture.crop((0, top, SIZE[1], top + SIZE[0]))], "video_latents": torch.zeros(1, 6, 1, 2, 4), "audio_latents": torch.zeros(2, 5, *STILL)}
    shared = {"input_video": [Image.fromarray(frame) for frame in frames_of(f"{i}.webp")]}
    if kind not in ("silent", "given") and i != WITHOUT:
        shared["input_audio"] = (sound_of(i), RATE)
    if kind == "given":
        shared |= {"keyframes": [Image.fromarray(picture) for picture in ends_of(i, True)], "keyframe_indices": [0, -1]}
    if kind == "references":
        shared["references"] = [reference(entry) for entry in ROWS[i]]
    return shared


@torch.no_grad()
def encode(pipe, kind):
    """All that its units make of every row, and of the empty prompt."""
    samples = []
    captions = [row["prompt"] for row in csv.DictReader(open(FAMILY.PICTURES / "metadata.csv"))] if kind == "still" else CAPTIONS
    names = {name for unit in pipe.units for name in unit.input_params or ()}
    for i, caption in enumerate(captions):
        if kind == "whole" and i == WITHOUT:  # whose steps would not move the head of sound
            i, caption = 0, captions[0]
        pipe.lengths = [1, 1, 1] if kind == "given" else []
        shared = dict.fromkeys(names) | {"height": SIZE[0], "width": SIZE[1], "num_frames": FRAMES, "rand_device": "cpu", "seed": 42, "cfg_scale": 4 if kind == "guided" else 1}
        shared |= inputs_of(i, kind)
        posi, nega = {"prompt": caption}, {"negative_prompt": " "}
        for unit in pipe.units:
            if kind == "still" and isinstance(unit, (theirs.MiniMaxH3Unit_ShapeChecker, theirs.MiniMaxH3Unit_NoiseInitializer)):
                continue  # it rounds one frame up to five
            if kind == "references" and isinstance(unit, theirs.MiniMaxH3Unit_ReferenceEncoder):
                unit = References()
            shared, posi, nega = pipe.unit_runner(unit, pipe, shared, posi, nega)
        samples.append(({name: value for name, value in (shared | posi).items() if value is not None}, nega))
    return samples


def set_times(pipe, replay, kind):
    """The recorded times; `own`: the nearest of its grid."""
    sigmas = torch.stack([replay[f"step.{step}.sigma"] for step in range(training_loop.STEPS)])
    if kind == "own":
        for scheduler in (pipe.scheduler, pipe.scheduler_audio):
            scheduler.set_timesteps(1000, training=True)
        return [(pipe.scheduler.sigmas - sigma).abs().argmin().item() for sigma in sigmas]
    for scheduler, of in ((pipe.scheduler, sigmas), (pipe.scheduler_audio, sound_sigma(sigmas))):
        scheduler.sigmas, scheduler.timesteps = of, 1000 * of
        scheduler.training_weight = lambda timestep: 1
    return list(range(training_loop.STEPS))


def steps(kind, replay):
    pipe = open_pipeline()
    samples = encode(pipe, kind)
    if kind == "whole":
        pipe.dit = transformer()
        trained = [(name, p) for name, p in pipe.dit.named_parameters() if p.requires_grad]
    else:
        pipe.dit, trained = adapted()
    indices = set_times(pipe, replay, kind)

    def loss_of(step):
        values, nega = samples[int(replay[f"step.{step}.sample"])]
        noise, audio_noise = replay[f"step.{step}.noise"].reshape(values["input_latents"].shape), replay[f"step.{step}.audio_latents_noise"].unflatten(1, (2, -1)).transpose(0, 1)
        if "audio_input_latents" not in values:  # which it leaves noise of a strength of its own
            values = values | {"audio_latents": pipe.scheduler_audio.sigmas[indices[step]] * audio_noise}
        more = {"training_cfg_scale": 4, "inputs_nega": nega} if kind == "guided" else {"audio_loss_weight": 0.5} if kind == "half" else {}
        with mock.patch("torch.randint", return_value=torch.tensor([indices[step]])), mock.patch("torch.randn_like", side_effect=[noise, audio_noise]):
            return FlowMatchSFTMiniMaxH3AudioVideoLoss(pipe, **values, **more)

    losses, norms, _ = training_loop.train(trained, training_loop.STEPS, loss_of)
    return {"sigma": [pipe.scheduler.sigmas[index].item() for index in indices], "loss": losses.tolist(), "grad_norm": norms.tolist()}


def main():
    expected = {}
    with mock.patch.multiple(theirs, torch=OfFewChannels(), unpatchify_video=lambda *args: unpatchify_video(*args, channel=6), unpack_audio=lambda *args: unpack_audio(*args, latent_dim=5)):
        for kind in ("still", "sounding", "half", "silent", "guided", "given", "references", "own", "whole"):
            expected[kind] = steps(kind, load_file((FAMILY.OUT if kind == "still" else CLIPS) / "replay.safetensors"))
            print(kind, expected[kind])
    for kind, file, name in (("still", FAMILY.OUT, "lora"), ("sounding", CLIPS, "sounding"), ("half", CLIPS, "half"), ("silent", CLIPS, "silent"), ("given", CLIPS, "given_last"),
                             ("references", REFERENCED, "references")):
        diffusers = load_file(file / "expected.safetensors")[name + ".loss"]
        print(kind, "differs from diffusers by", ((torch.tensor(expected[kind]["loss"]) - diffusers).abs() / diffusers).max().item())
    (family.HERE / "minimax_h3_diffsynth.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
