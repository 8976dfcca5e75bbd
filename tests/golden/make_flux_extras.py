#!/usr/bin/env python3
"""Small components for the extra inputs of FLUX.1 over the pipeline of make_pipeline.py, and what DiffSynth-Studio or diffusers train with them, in flux_extras/:

controlnet/, inpaint/     ControlNets as diffusers saves them: for several kinds of control; and one whose control has the mask's channels, with neither kinds nor guidance
siglip/                   an image encoder as transformers saves it
ipadapter.bin             an IP-Adapter's two dictionaries, as InstantX's file has them
value_controller.safetensors, redux.safetensors   AttriCtrl's and Redux's
lora_encoder.safetensors, lora_{0,1}.safetensors  an encoder of LoRAs, and LoRAs on all layers of the blocks in kohya's names
fill.safetensors, flex.safetensors   x_embedder.weight of transformers with further input channels, in bf16 as they are
white_*.png, metadata.json   masks, and the pictures of make_pipeline.py with a cell in every column
expected.safetensors      <case>.loss: the first steps of make_diffsynth.py's replay and LoRA, the component frozen; <case>.whole.loss: the component trains and the LoRA is
                          not there. fill and redux are trained in the plain loop, on diffusers' and transformers' modules and formulas; the others by DiffSynth-Studio's code
"""
import json
import shutil

import numpy as np
import torch
from diffsynth.diffusion.base_pipeline import ControlNetInput
from diffsynth.models import flux_controlnet, flux_dit, flux_ipadapter, flux_lora_encoder, flux_value_control
from diffsynth.pipelines import flux_image
from diffsynth.utils.lora.flux import FluxLoRAConverter
from diffsynth.utils.state_dict_converters.flux_controlnet import FluxControlNetStateDictConverter
from diffusers import FluxControlNetModel
from diffusers.pipelines.flux.modeling_flux import ReduxImageEncoder
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import SiglipVisionConfig, SiglipVisionModel

import diffsynth_replay
import make_diffsynth
import make_pipeline
from make_wild import open_pipe

OUT = make_pipeline.OUT.parent / "flux_extras"
REFERENCES = make_pipeline.OUT.parent / "references"
PROMPTS = ["red apple", "a cat face, smiling", "tree", "red apple"]
WIDTH, HEADS, TEXT, POOLED, FEATURES = 32, 2, 16, 12, 16
STEPS = 3
MODES = {"canny": 0, "tile": 1, "depth": 2, "blur": 3, "pose": 4, "gray": 5, "lq": 6}


def drawn(module, scale=0.3):
    """All numbers drawn, and such that bf16 has them."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_((torch.randn_like(p) * scale / max(1, p[0].numel()) ** 0.5 if p.dim() > 1 else torch.randn_like(p) * 0.1 + 0.5).bfloat16())
    return module.requires_grad_(False).eval()


def half(state):
    return {name: value.detach().bfloat16().contiguous() for name, value in state.items()}


def control_net(folder, channels, weights=None, **config):
    """It, and its folder; with `weights`, diffusers' of another, config.json alone."""
    model = FluxControlNetModel(in_channels=64, num_layers=1, attention_head_dim=WIDTH // HEADS, num_attention_heads=HEADS, joint_attention_dim=TEXT,
                                pooled_projection_dim=POOLED, axes_dims_rope=[4, 6, 6], **config)
    model.controlnet_x_embedder = torch.nn.Linear(channels, WIDTH)
    drawn(model, 0.7)
    model.to(torch.bfloat16).save_pretrained(folder)
    if weights is not None:
        (folder / "diffusion_pytorch_model.safetensors").unlink()
        model.load_state_dict({n: weights[n] for n in model.state_dict()})
    model.float()
    theirs = flux_controlnet.FluxControlNet.__new__(flux_controlnet.FluxControlNet)
    torch.nn.Module.__init__(theirs)
    theirs.pos_embedder = flux_dit.RoPEEmbedding(WIDTH, 10000, [4, 6, 6])
    theirs.time_embedder = flux_dit.TimestepEmbeddings(256, WIDTH)
    theirs.guidance_embedder = flux_dit.TimestepEmbeddings(256, WIDTH) if config["guidance_embeds"] else None
    theirs.pooled_text_embedder = torch.nn.Sequential(torch.nn.Linear(POOLED, WIDTH), torch.nn.SiLU(), torch.nn.Linear(WIDTH, WIDTH))
    theirs.context_embedder, theirs.x_embedder = torch.nn.Linear(TEXT, WIDTH), torch.nn.Linear(64, WIDTH)
    theirs.blocks = torch.nn.ModuleList([flux_dit.FluxJointTransformerBlock(WIDTH, HEADS)])
    theirs.single_blocks = torch.nn.ModuleList([flux_dit.FluxSingleTransformerBlock(WIDTH, HEADS) for _ in range(config["num_single_layers"])])
    theirs.controlnet_blocks = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH)])
    theirs.controlnet_single_blocks = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(config["num_single_layers"])])
    theirs.mode_dict = MODES if config.get("num_mode") else {}
    theirs.controlnet_mode_embedder = torch.nn.Embedding(config["num_mode"], WIDTH) if config.get("num_mode") else None
    theirs.controlnet_x_embedder = torch.nn.Linear(channels, WIDTH)
    theirs.load_state_dict(FluxControlNetStateDictConverter(model.state_dict()))
    return theirs.requires_grad_(False)


def ip_adapter():
    model = flux_ipadapter.FluxIpAdapter(HEADS, WIDTH // HEADS, TEXT, num_tokens=4, num_blocks=3)
    model.image_proj = flux_ipadapter.MLPProjModel(TEXT, FEATURES, 4)
    drawn(model, 1.0)
    prefix = "ipadapter_modules."
    parts = {"image_proj": {n: v for n, v in half(model.image_proj.state_dict()).items()},
             "ip_adapter": {n.removeprefix(prefix): v for n, v in half(model.state_dict()).items() if n.startswith(prefix)}}
    torch.save(parts, OUT / "ipadapter.bin")
    return model


def lora_encoder(dit):
    """It, and two LoRAs for it."""
    layers = {n: m for n, m in dit.named_modules() if "blocks." in n and isinstance(m, torch.nn.Linear)}
    patterns = [{"name": n, "dim": (m.in_features, m.out_features), "type": ".".join(n.split(".")[2:])} for n, m in layers.items()]
    model = flux_lora_encoder.FluxLoRAEncoder.__new__(flux_lora_encoder.FluxLoRAEncoder)
    torch.nn.Module.__init__(model)
    model.num_embeds_per_lora, model.num_special_embeds = 2, 3
    model.embedder = flux_lora_encoder.LoRAEmbedder(patterns, L=2, out_dim=TEXT)
    model.encoders = torch.nn.ModuleList([flux_lora_encoder.CLIPEncoderLayer(TEXT, 24, num_heads=1, head_dim=16)])
    model.special_embeds = torch.nn.Parameter(torch.zeros(1, 3, TEXT))
    model.final_layer_norm, model.final_linear = torch.nn.LayerNorm(TEXT), torch.nn.Linear(TEXT, TEXT)
    drawn(model, 1.0)
    for i in range(2):
        state = {}
        for pattern in patterns:
            state[pattern["name"] + ".lora_A.default.weight"] = torch.randn(2, pattern["dim"][0]).bfloat16() * 0.5
            state[pattern["name"] + ".lora_B.default.weight"] = torch.randn(pattern["dim"][1], 2).bfloat16() * 0.5
        save_file({n: v.contiguous() for n, v in FluxLoRAConverter.align_to_opensource_format(state, alpha=1 + 3 * i).items()}, OUT / f"lora_{i}.safetensors")
    save_file(half(model.state_dict()), OUT / "lora_encoder.safetensors")
    return model


def write_data():
    for i, box in enumerate([(8, 8, 40, 32), (24, 16, 64, 48)]):
        mask = Image.new("RGB", (64, 48))
        mask.paste((255, 255, 255), box)
        mask.save(OUT / f"white_{i}.png")
    rows = []
    for i, prompt in enumerate(PROMPTS):
        other, mask = f"../pipeline/pictures/{(i + 1) % 4}.png", f"white_{i % 2}.png"
        rows.append({"image": f"../pipeline/pictures/{i}.png", "prompt": prompt, "controlnet_image": other, "controlnet_inpaint_mask": mask,
                     "controlnet_processor_id": "canny" if i % 2 else "depth", "flux_fill_image": other, "flux_fill_mask": mask, "flex_inpaint_image": other,
                     "flex_inpaint_mask": mask, "flex_control_image": f"../pipeline/pictures/{(i + 2) % 4}.png",
                     "ipadapter_images": ["../references/a.png", "../references/b.png"][:1 + i % 2], "flux_redux_image": "../references/a.png",
                     "eligen_entity_prompts": ["a tree", "an apple"], "eligen_entity_masks": ["white_0.png", "white_1.png"], "value_controller_inputs": 0.25 + 0.1 * i, "lora_encoder_inputs": f"lora_{i % 2}.safetensors"})
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def opened(name):
    return Image.open(OUT / name).convert("RGB")


def wide_dit(channels, seed):
    """The transformer with further input channels behind those that it has."""
    dit = make_diffsynth.small_dit()
    torch.manual_seed(seed)
    weight = torch.cat([dit.x_embedder.weight.detach(), (torch.randn(WIDTH, channels - 64) * 0.1).bfloat16().float()], 1)
    bias = dit.x_embedder.bias.detach()
    dit.x_embedder = torch.nn.Linear(channels, WIDTH)
    with torch.no_grad():
        dit.x_embedder.weight.copy_(weight)
        dit.x_embedder.bias.copy_(bias)
    dit.input_dim = channels
    return dit, weight


class Case:
    """Steps of the replay, with what `inputs_of(row)` gives to the transformer."""

    def __init__(self, samples, pipe):
        self.samples, self.encoders = samples, pipe
        self.replay = load_file(make_diffsynth.OUT / "replay.safetensors")

    def module(self, dit=None, lora=True):
        module = make_diffsynth.Module("sft:train")
        if lora and dit is not None:
            module.pipe.dit = dit
            module.switch_pipe_to_training_mode(module.pipe, None, "dit", make_diffsynth.TARGETS, make_diffsynth.RANK, task="sft:train")
        if not lora:
            module.pipe.dit = make_diffsynth.small_dit().requires_grad_(False)
        if lora:
            module.load_state_dict({f"pipe.dit.{n}": v for n, v in load_file(make_diffsynth.OUT / "start.safetensors").items()}, strict=False)
        module.pipe.vae_encoder = make_diffsynth.Encoder(self.encoders.vae).requires_grad_(False)
        return module

    def run(self, module, inputs_of, trained=None):
        def values_of(sample):
            values = make_diffsynth.inputs_of(self.samples[sample])
            return values | inputs_of(sample, values)

        return diffsynth_replay.train(module.pipe, make_diffsynth.trained_of(trained or module.pipe.dit), self.replay, STEPS, values_of)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    torch.manual_seed(3)
    rows, pipe = write_data(), open_pipe()
    samples = make_pipeline.encode(pipe, [(f"{i}.png", prompt) for i, prompt in enumerate(PROMPTS)])
    case, expected = Case(samples, pipe), {}

    union = control_net(OUT / "controlnet", 64, num_single_layers=1, num_mode=10, guidance_embeds=True)
    inpaint = control_net(OUT / "inpaint", 68, num_single_layers=0, guidance_embeds=False)

    def control(module, masked):
        def inputs(which, _):
            row = rows[which]
            given = ControlNetInput(image=opened(row["controlnet_image"]), **({"inpaint_mask": opened(row["controlnet_inpaint_mask"])} if masked
                                                                              else {"processor_id": row["controlnet_processor_id"]}))
            return {"controlnet_inputs": [given]} | flux_image.FluxImageUnit_ControlNet().process(module.pipe, [given], False, None, None)
        return inputs

    for name, model, masked in (("union", union, False), ("inpaint", inpaint, True)):
        module = case.module()
        module.pipe.controlnet = flux_image.MultiControlNet([model])
        expected[f"{name}.loss"] = case.run(module, control(module, masked))
        module = case.module(lora=False)
        module.pipe.controlnet = flux_image.MultiControlNet([model.requires_grad_(True)])
        expected[f"{name}.whole.loss"] = case.run(module, control(module, masked), model)

    siglip = drawn(SiglipVisionModel(SiglipVisionConfig(hidden_size=FEATURES, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=384, patch_size=14)))
    siglip.to(torch.bfloat16).save_pretrained(OUT / "siglip")
    siglip.float()
    adapter = ip_adapter()

    def by_adapter(module):
        def inputs(which, _):
            shared = {"ipadapter_images": [opened(name) for name in rows[which]["ipadapter_images"]]}
            return {"ipadapter_kwargs_list": flux_image.FluxImageUnit_IPAdapter().process(module.pipe, shared, {}, {})[1]["ipadapter_kwargs_list"]}
        return inputs

    for whole in (False, True):
        module = case.module(lora=not whole)
        module.pipe.ipadapter, module.pipe.ipadapter_image_encoder = adapter.requires_grad_(whole), siglip
        expected["ipadapter.whole.loss" if whole else "ipadapter.loss"] = case.run(module, by_adapter(module), adapter if whole else None)

    values = drawn(flux_value_control.SingleValueEncoder(256, TEXT, prefer_len=5), 0.7)
    save_file(half(values.state_dict()), OUT / "value_controller.safetensors")

    def by_value(module):
        unit = flux_image.FluxImageUnit_ValueControl()
        return lambda which, given: unit.process(module.pipe, given["prompt_emb"], given["text_ids"], rows[which]["value_controller_inputs"])

    for whole in (False, True):
        module = case.module(lora=not whole)
        module.pipe.value_controller = flux_value_control.MultiValueEncoder([values.requires_grad_(whole)])
        expected["value.whole.loss" if whole else "value.loss"] = case.run(module, by_value(module), values if whole else None)

    module = case.module()
    module.pipe.text_encoder_1, module.pipe.text_encoder_2 = make_diffsynth.Clip(pipe.text_encoder), make_diffsynth.T5(pipe.text_encoder_2)
    module.pipe.tokenizer_1, module.pipe.tokenizer_2 = pipe.tokenizer, pipe.tokenizer_2

    def by_entity(which, _):
        unit, row = flux_image.FluxImageUnit_EntityControl(), rows[which]
        with torch.no_grad():
            text, masks = unit.prepare_entity_inputs(module.pipe, row["eligen_entity_prompts"], [opened(name) for name in row["eligen_entity_masks"]], 64, 48,
                                                     pipe.tokenizer_2.model_max_length)
        return {"entity_prompt_emb": text, "entity_masks": masks}

    expected["eligen.loss"] = case.run(module, by_entity)

    dit, weight = wide_dit(196, 21)
    save_file({"x_embedder.weight": weight.bfloat16()}, OUT / "flex.safetensors")
    module = case.module(dit)

    def by_flex(which, given):
        row = rows[which]
        pictures = [opened(row[name]) for name in ("flex_inpaint_image", "flex_inpaint_mask", "flex_control_image")]
        return flux_image.FluxImageUnit_Flex().process(module.pipe, given["input_latents"], *pictures, 0.5, None, False, None, None)

    expected["flex.loss"] = case.run(module, by_flex)
    dit, _ = wide_dit(196, 21)
    module = case.module(dit)
    expected["flex.plain.loss"] = case.run(module, lambda which, given: flux_image.FluxImageUnit_Flex().process(
        module.pipe, given["input_latents"], None, None, None, 0.5, None, False, None, None))

    # What of the package has no unit yet is put together by the formulas of diffusers' FluxFillPipeline.prepare_mask_latents.
    dit, weight = wide_dit(384, 22)
    save_file({"x_embedder.weight": weight.bfloat16()}, OUT / "fill.safetensors")
    module = case.module(dit)
    patchify = module.pipe.dit.patchify

    def by_fill(which, _):
        row = rows[which]
        image, mask = (torch.from_numpy(np.array(opened(row[name]))).permute(2, 0, 1)[None].float() for name in ("flux_fill_image", "flux_fill_mask"))
        mask = (mask[:, :1] / 255 >= 0.5).float()
        latents = module.pipe.vae_encoder((image / 127.5 - 1) * (1 - mask))
        h, w = latents.shape[-2:]
        blocks = mask[:, 0].view(1, h, 8, w, 8).permute(0, 2, 4, 1, 3).reshape(1, 64, h, w)
        module.pipe.dit.patchify = lambda x: patchify(torch.cat([x, latents, blocks], 1))
        return {}

    expected["fill.loss"] = case.run(module, by_fill)

    redux = drawn(ReduxImageEncoder(FEATURES, TEXT), 0.7)
    save_file(half(redux.state_dict()), OUT / "redux.safetensors")

    def by_redux(which, _):
        image = opened(rows[which]["flux_redux_image"]).resize((384, 384), resample=Image.BICUBIC)
        with torch.no_grad():
            states = siglip(module.pipe.preprocess_image(image)).last_hidden_state
            tokens = redux(states).image_embeds
        text = torch.cat([torch.zeros(1, 512, TEXT), tokens], 1)
        return {"prompt_emb": text, "pooled_prompt_emb": torch.zeros(1, POOLED), "text_ids": torch.zeros(1, text.shape[1], 3)}

    module = case.module()
    expected["redux.loss"] = case.run(module, by_redux)
    encoder = lora_encoder(make_diffsynth.small_dit())

    def by_lora(module):
        def inputs(which, given):
            prompt = {name: given[name] for name in ("prompt_emb", "text_ids")}
            file = str(OUT / rows[which]["lora_encoder_inputs"])
            return flux_image.FluxImageUnit_LoRAEncode().process(module.pipe, {"lora_encoder_inputs": file}, prompt, {})[1]
        return inputs

    for whole in (False, True):
        module = case.module(lora=not whole)
        module.pipe.lora_encoder = encoder.requires_grad_(whole)
        expected["lora_encoder.whole.loss" if whole else "lora_encoder.loss"] = case.run(module, by_lora(module), encoder if whole else None)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*.*"):
        file.chmod(0o644)
    print(expected, sum(f.stat().st_size for f in OUT.rglob("*.*")))


if __name__ == "__main__":
    main()
