"""The peer: DiffSynth-Studio's own units, split, loss and training loop over a small FLUX with encoders of real shape; one process a run.

Its FLUX transformer has the width of FLUX.1 written into it, so a smaller one is put together here from its blocks; its T5 gets fewer
layers; everything else is as it is. `make` writes the models' weights, for both programs.
"""
import argparse
import importlib.metadata
import json
import time
from pathlib import Path

CLIP = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 49408,
        "max_position_embeddings": 77, "projection_dim": 768, "bos_token_id": 49406, "eos_token_id": 2}
T5 = {"d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "vocab_size": 32128, "feed_forward_proj": "gated-gelu"}
VAE = {"block_out_channels": [128, 256, 512, 512], "latent_channels": 16, "layers_per_block": 2, "norm_num_groups": 32,
       "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "use_quant_conv": False,
       "use_post_quant_conv": False, "scaling_factor": 0.3611, "shift_factor": 0.1159}


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("what", choices=["make", "sft", "sft:data_process", "sft:train"])
    p.add_argument("--folder", required=True, help="the models; made by make, beside a transformer that is there")
    p.add_argument("--t5_layers", type=int, default=2)
    p.add_argument("--pictures", default="", help="metadata.csv")
    p.add_argument("--side", type=int, default=256)
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--targets", default="")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--cache", default="", help="folder of sft:data_process's files")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--out", default="")
    return p.parse_args()


args = arguments()
import torch  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
FOLDER = Path(args.folder)


def make():
    from diffusers import AutoencoderKL
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel
    for name, model in {"text_encoder": CLIPTextModel(CLIPTextConfig(**CLIP)),
                        "text_encoder_2": T5EncoderModel(T5Config(num_layers=args.t5_layers, **T5)), "vae": AutoencoderKL(**VAE)}.items():
        model.to(torch.bfloat16).save_pretrained(FOLDER / name)
    peer = FOLDER / "peer"
    peer.mkdir(exist_ok=True)
    for name, build in BUILD.items():
        torch.save(build().to(torch.bfloat16).state_dict(), peer / f"{name}.pt")


def small_dit():
    from diffsynth.models import flux_dit as f
    config = json.loads((FOLDER / "transformer/config.json").read_text())
    heads = config["num_attention_heads"]
    width = heads * config["attention_head_dim"]
    dit = f.FluxDiT.__new__(f.FluxDiT)
    torch.nn.Module.__init__(dit)
    dit.pos_embedder = f.RoPEEmbedding(width, 10000, config["axes_dims_rope"])
    dit.time_embedder, dit.guidance_embedder = f.TimestepEmbeddings(256, width), f.TimestepEmbeddings(256, width)
    dit.pooled_text_embedder = torch.nn.Sequential(torch.nn.Linear(768, width), torch.nn.SiLU(), torch.nn.Linear(width, width))
    dit.context_embedder, dit.x_embedder = torch.nn.Linear(4096, width), torch.nn.Linear(64, width)
    dit.blocks = torch.nn.ModuleList([f.FluxJointTransformerBlock(width, heads) for _ in range(config["num_layers"])])
    dit.single_blocks = torch.nn.ModuleList([f.FluxSingleTransformerBlock(width, heads) for _ in range(config["num_single_layers"])])
    dit.final_norm_out, dit.final_proj_out, dit.input_dim = f.AdaLayerNormContinuous(width), torch.nn.Linear(width, 64), 64
    return dit


def t5():
    from transformers import T5Config, T5EncoderModel

    from diffsynth.models.flux_text_encoder_t5 import FluxTextEncoderT5
    model = FluxTextEncoderT5.__new__(FluxTextEncoderT5)
    T5EncoderModel.__init__(model, T5Config(num_layers=args.t5_layers, **T5))
    return model


def clip():
    from diffsynth.models.flux_text_encoder_clip import FluxTextEncoderClip
    return FluxTextEncoderClip()


def vae_encoder():
    from diffsynth.models.flux_vae import FluxVAEEncoder
    return FluxVAEEncoder()


BUILD = {"dit": small_dit, "text_encoder_1": clip, "text_encoder_2": t5, "vae_encoder": vae_encoder}


def load(pipe, name):
    with torch.device("meta"):
        model = BUILD[name]()
    model.load_state_dict(torch.load(FOLDER / f"peer/{name}.pt", mmap=True), assign=True, strict=True)
    if name == "text_encoder_1":
        model.attn_mask = model.attention_mask(77)
    if name == "text_encoder_2":
        model.tie_weights()
    setattr(pipe, name, model.to(torch.bfloat16))


def training_module():
    from diffsynth.diffusion import DiffusionTrainingModule, FlowMatchSFTLoss
    from diffsynth.pipelines.flux_image import FluxImagePipeline
    from transformers import CLIPTokenizer, T5TokenizerFast

    class Module(DiffusionTrainingModule):
        """What examples/flux/model_training/train.py of DiffSynth-Studio puts together."""

        def __init__(self):
            super().__init__()
            self.pipe = FluxImagePipeline(device="cpu", torch_dtype=torch.bfloat16)
            # Its data_process asks the transformer for image positions, so it is loaded as well.
            names = {"sft:train": ["dit"], "sft:data_process": list(BUILD)}
            for name in names.get(args.what, list(BUILD)):
                load(self.pipe, name)
            self.pipe.tokenizer_1 = CLIPTokenizer.from_pretrained(FOLDER / "tokenizer")
            self.pipe.tokenizer_2 = T5TokenizerFast.from_pretrained(FOLDER / "tokenizer_2")
            self.pipe = self.split_pipeline_units(args.what, self.pipe, None, "dit")
            self.switch_pipe_to_training_mode(self.pipe, None, "dit", args.targets, args.rank, task=args.what)

        def inputs(self, data):
            shared = {"input_image": data["image"], "height": args.side, "width": args.side, "cfg_scale": 1, "rand_device": "cpu",
                      "embedded_guidance": 1, "t5_sequence_length": 512, "tiled": False, "use_gradient_checkpointing": False,
                      "use_gradient_checkpointing_offload": False}
            return shared, {"prompt": data["prompt"]}, {"negative_prompt": ""}

        def forward(self, data, inputs=None):
            inputs = self.transfer_data_to_device(inputs or self.inputs(data), self.pipe.device, self.pipe.torch_dtype)
            for unit in self.pipe.units:
                inputs = self.pipe.unit_runner(unit, self.pipe, *inputs)
            if args.what == "sft:data_process":
                return inputs
            return FlowMatchSFTLoss(self.pipe, **inputs[0], **inputs[1])

    return Module()


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        import csv
        self.load_from_cache = args.what == "sft:train"
        self.folder = Path(args.pictures).parent if args.pictures else None
        self.rows = sorted(Path(args.cache).glob("*/*.pth")) if self.load_from_cache else list(csv.DictReader(open(args.pictures)))

    def __len__(self):
        return len(self.rows) * args.repeat

    def __getitem__(self, index):
        from PIL import Image
        row = self.rows[index % len(self.rows)]
        if self.load_from_cache:
            return torch.load(row, map_location="cpu", weights_only=False)
        return {"image": Image.open(self.folder / row["image"]).convert("RGB").resize((args.side, args.side)), "prompt": row["prompt"]}


class Clock:
    """Stands in for the logger: notes when steps end, and saves nothing."""

    def __init__(self):
        self.ends, self.losses, self.output_path = [], [], args.cache

    def on_step_end(self, accelerator, model, save_steps, loss=None):
        self.losses.append(loss.item())
        self.ends.append(time.time())

    def on_epoch_end(self, *_, **__):
        pass

    on_training_end = on_epoch_end


def run():
    from accelerate import Accelerator
    from diffsynth.diffusion.runner import launch_data_process_task, launch_training_task
    clock, accelerator = Clock(), Accelerator(cpu=True)
    module, pictures = training_module(), Pictures()
    if args.what == "sft:data_process":
        options = argparse.Namespace(dataset_num_workers=0, enable_model_cpu_offload=False, enable_optimizer_cpu_offload=False,
                                     cpu_offload_split_threshold=None)
        launch_data_process_task(accelerator, pictures, module, clock, args=options)
    else:
        launch_training_task(accelerator, pictures, module, clock, learning_rate=1e-4, num_workers=0, save_steps=10**9)
    trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
    versions = {"torch": torch.__version__, "diffsynth": importlib.metadata.version("diffsynth")}
    Path(args.out).write_text(json.dumps({"step_ends": clock.ends, "losses": clock.losses, "trained_parameters": trained,
                                          "versions": versions}))


make() if args.what == "make" else run()
