#!/usr/bin/env python3
"""What DiffSynth-Studio's own code makes of the pipeline and pictures of make_pipeline.py, in diffsynth/:

start.safetensors     its file of a LoRA before the first step: rank 4 on TARGETS, fused layers among them, all numbers drawn
trained.safetensors   its file after eight steps
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of these
kohya.safetensors     trained.safetensors under kohya's names, by its --align_to_opensource_format
distill/0/{0,1}.pth   the cache of `--task direct_distill:data_process` for two pictures
expected.safetensors  loss of the eight steps; distill.loss of four from start.safetensors and that cache

Its transformer has the width of FLUX.1 written into it, so a smaller one is put together here from its blocks; its encoders stand for the
small ones of the pipeline.
"""
import argparse
import json
import shutil

import torch
from accelerate import Accelerator
from diffsynth.diffusion import DiffusionTrainingModule, DirectDistillLoss
from diffsynth.diffusion.runner import launch_data_process_task
from diffsynth.models import flux_dit
from diffsynth.pipelines.flux_image import FluxImagePipeline
from diffsynth.utils.lora.flux import FluxLoRAConverter
from PIL import Image
from safetensors.torch import load_file, save_file

import diffsynth_replay
import make_pipeline
import training_loop
from make_wild import open_pipe

OUT = make_pipeline.OUT.parent / "diffsynth"
STEPS, RANK = 8, 4
TARGETS = "a_to_qkv,b_to_qkv,to_qkv_mlp,a_to_out,proj_out,norm1_a.linear"
# Its layers, and diffusers' that are stacked in them.
BLOCK = {"norm1_a.linear": ["norm1.linear"], "norm1_b.linear": ["norm1_context.linear"], "attn.a_to_qkv": ["attn.to_q", "attn.to_k", "attn.to_v"],
         "attn.b_to_qkv": ["attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"], "attn.a_to_out": ["attn.to_out.0"], "attn.b_to_out": ["attn.to_add_out"],
         "attn.norm_q_a": ["attn.norm_q"], "attn.norm_k_a": ["attn.norm_k"], "attn.norm_q_b": ["attn.norm_added_q"], "attn.norm_k_b": ["attn.norm_added_k"],
         "ff_a.0": ["ff.net.0.proj"], "ff_a.2": ["ff.net.2"], "ff_b.0": ["ff_context.net.0.proj"], "ff_b.2": ["ff_context.net.2"]}
SINGLE = {"norm.linear": ["norm.linear"], "to_qkv_mlp": ["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"], "proj_out": ["proj_out"],
          "norm_q_a": ["attn.norm_q"], "norm_k_a": ["attn.norm_k"]}
OUTER = {"x_embedder": "x_embedder", "context_embedder": "context_embedder", "final_proj_out": "proj_out", "pooled_text_embedder.0": "time_text_embed.text_embedder.linear_1",
         "pooled_text_embedder.2": "time_text_embed.text_embedder.linear_2", "time_embedder.timestep_embedder.0": "time_text_embed.timestep_embedder.linear_1",
         "time_embedder.timestep_embedder.2": "time_text_embed.timestep_embedder.linear_2",
         "guidance_embedder.timestep_embedder.0": "time_text_embed.guidance_embedder.linear_1",
         "guidance_embedder.timestep_embedder.2": "time_text_embed.guidance_embedder.linear_2"}


TRANSFORMER = make_pipeline.OUT / "model/transformer/diffusion_pytorch_model.safetensors"


def weights(config, file=TRANSFORMER):
    theirs = load_file(file)
    layers = {name: [layer] for name, layer in OUTER.items()}
    for i in range(config["num_layers"]):
        layers |= {f"blocks.{i}.{name}": [f"transformer_blocks.{i}.{layer}" for layer in parts] for name, parts in BLOCK.items()}
    for i in range(config["num_single_layers"]):
        layers |= {f"single_blocks.{i}.{name}": [f"single_transformer_blocks.{i}.{layer}" for layer in parts] for name, parts in SINGLE.items()}
    state = {f"{name}.{kind}": torch.cat([theirs[f"{layer}.{kind}"] for layer in parts])
             for name, parts in layers.items() for kind in ("weight", "bias") if f"{parts[0]}.{kind}" in theirs}
    for kind in ("weight", "bias"):  # shift before scale here
        state[f"final_norm_out.linear.{kind}"] = torch.cat(theirs[f"norm_out.linear.{kind}"].chunk(2)[::-1])
    return state


def small_dit():
    config = json.loads((make_pipeline.OUT / "model/transformer/config.json").read_text())
    heads = config["num_attention_heads"]
    width, pooled = heads * config["attention_head_dim"], config["pooled_projection_dim"]
    dit = flux_dit.FluxDiT.__new__(flux_dit.FluxDiT)
    torch.nn.Module.__init__(dit)
    dit.pos_embedder = flux_dit.RoPEEmbedding(width, 10000, config["axes_dims_rope"])
    dit.time_embedder, dit.guidance_embedder = flux_dit.TimestepEmbeddings(256, width), flux_dit.TimestepEmbeddings(256, width)
    dit.pooled_text_embedder = torch.nn.Sequential(torch.nn.Linear(pooled, width), torch.nn.SiLU(), torch.nn.Linear(width, width))
    dit.context_embedder, dit.x_embedder = torch.nn.Linear(config["joint_attention_dim"], width), torch.nn.Linear(64, width)
    dit.blocks = torch.nn.ModuleList([flux_dit.FluxJointTransformerBlock(width, heads) for _ in range(config["num_layers"])])
    dit.single_blocks = torch.nn.ModuleList([flux_dit.FluxSingleTransformerBlock(width, heads) for _ in range(config["num_single_layers"])])
    dit.final_norm_out, dit.final_proj_out, dit.input_dim = flux_dit.AdaLayerNormContinuous(width), torch.nn.Linear(width, 64), 64
    dit.load_state_dict(weights(config))
    return dit


class Clip(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        out = self.model(ids[:, :self.model.config.max_position_embeddings])
        return out.pooler_output, out.last_hidden_state


class T5(Clip):
    def forward(self, ids):
        return self.model(ids).last_hidden_state


class Encoder(Clip):
    def forward(self, image, **_):
        return (self.model.encode(image).latent_dist.mode() - self.model.config.shift_factor) * self.model.config.scaling_factor


class Module(DiffusionTrainingModule):
    """What its examples/flux/model_training/train.py puts together."""

    def __init__(self, task):
        super().__init__()
        self.pipe, self.task = FluxImagePipeline(device="cpu", torch_dtype=torch.float32), task
        self.pipe.dit = small_dit()
        if task.endswith(":data_process"):
            theirs = open_pipe()
            self.pipe.text_encoder_1, self.pipe.text_encoder_2, self.pipe.vae_encoder = Clip(theirs.text_encoder), T5(theirs.text_encoder_2), Encoder(theirs.vae)
            self.pipe.tokenizer_1, self.pipe.tokenizer_2 = theirs.tokenizer, theirs.tokenizer_2
        self.pipe = self.split_pipeline_units(task, self.pipe, None, "dit")
        self.switch_pipe_to_training_mode(self.pipe, None, "dit", TARGETS, RANK, task=task)

    def exported(self):
        state = self.export_trainable_state_dict(self.state_dict(), remove_prefix="pipe.dit.")
        return {name: value.detach().clone().contiguous() for name, value in state.items()}

    def forward(self, data, inputs=None):
        if inputs is None:
            shared = {"input_image": data["image"], "height": data["image"].height, "width": data["image"].width, "cfg_scale": 1, "embedded_guidance": make_pipeline.GUIDANCE,
                      "t5_sequence_length": self.pipe.tokenizer_2.model_max_length, "tiled": False, "rand_device": "cpu", "use_gradient_checkpointing": False,
                      "use_gradient_checkpointing_offload": False}
            inputs = self.parse_extra_inputs(data, ["seed", "rand_device", "num_inference_steps", "cfg_scale"], shared), {"prompt": data["prompt"]}, {"negative_prompt": ""}
        inputs = self.transfer_data_to_device(inputs, self.pipe.device, self.pipe.torch_dtype)
        for unit in self.pipe.units:
            inputs = self.pipe.unit_runner(unit, self.pipe, *inputs)
        return inputs if self.task.endswith(":data_process") else DirectDistillLoss(self.pipe, **inputs[0], **inputs[1])


def inputs_of(sample):
    """What its loss is called with for a sample of make_pipeline.encode."""
    latents, text, pooled, text_ids = sample
    return {"input_latents": latents, "prompt_emb": text, "pooled_prompt_emb": pooled, "guidance": torch.tensor([make_pipeline.GUIDANCE]), "text_ids": text_ids[None]}


def trained_of(module):
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def distill():
    """The cache, and losses of training from it."""
    data = [{"image": Image.open(make_pipeline.OUT / f"pictures/{i}.png").convert("RGB"), "prompt": prompt, "seed": seed, "rand_device": "cpu", "num_inference_steps": steps, "cfg_scale": 1}
            for i, prompt, seed, steps in ((1, "tree", 42, 3), (0, "red apple", 7, 2))]
    options = argparse.Namespace(dataset_num_workers=0, enable_model_cpu_offload=False, enable_optimizer_cpu_offload=False, cpu_offload_split_threshold=None)
    launch_data_process_task(Accelerator(cpu=True), data, Module("direct_distill:data_process"), argparse.Namespace(output_path=OUT / "distill"), args=options)
    module = Module("direct_distill:train")
    module.load_state_dict({f"pipe.dit.{name}": value for name, value in load_file(OUT / "start.safetensors").items()}, strict=False)
    return training_loop.train(trained_of(module), 4, lambda _: module({}, inputs=torch.load(OUT / "distill/0/0.pth", weights_only=False)))[0]


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    samples = make_pipeline.encode(open_pipe(), [(f"{i}.png", prompt) for i, prompt in enumerate(["red apple", "a cat face, smiling", "tree", "red apple"])])
    torch.manual_seed(12)
    module = Module("sft:train")
    trained = trained_of(module)
    with torch.no_grad():
        for name, p in trained:
            p.copy_(torch.randn_like(p) * (0.1 if "lora_B" in name else 0.3))
    save_file(module.exported(), OUT / "start.safetensors", metadata={"format": "pt"})
    replay = {}
    for step in range(STEPS):
        sample = step * 3 % len(samples)
        noise, index = torch.randn(samples[sample][0].shape[1:]), torch.randint(50, 950, (1,))
        replay |= {f"step.{step}.noise": noise, f"step.{step}.sigma": module.pipe.scheduler.sigmas[index][0].clone(), f"step.{step}.sample": torch.tensor(sample)}
    losses = diffsynth_replay.train(module.pipe, trained, replay, STEPS, lambda sample: inputs_of(samples[sample]))
    save_file(module.exported(), OUT / "trained.safetensors", metadata={"format": "pt"})
    save_file(replay, OUT / "replay.safetensors")
    save_file(FluxLoRAConverter.align_to_opensource_format(module.exported()), OUT / "kohya.safetensors", metadata={"format": "pt"})
    save_file({"loss": losses, "distill.loss": distill()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*.*"):
        file.chmod(0o644)
    print(load_file(OUT / "expected.safetensors"), sum(p.numel() for _, p in trained))


if __name__ == "__main__":
    main()
