"""What the golden scripts of families share. Each script says in a class how diffusers encodes, predicts and draws with its family; here that becomes files."""
import csv, pathlib, shutil
import numpy as np
import torch
from diffusers import AutoencoderKL
from PIL import Image
from safetensors.torch import save_file

import training_loop
from digest import digest
from make_encoders import randomise

HERE = pathlib.Path(__file__).parent


def tensor_of(path):
    """A picture [1, 3, H, W] from -1 to 1."""
    return torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1)[None].float() / 127.5 - 1


def small_vae():
    """An autoencoder of FLUX.1's shape with random weights."""
    return randomise(AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                   block_out_channels=(8, 8, 16, 16), layers_per_block=1, latent_channels=16, norm_num_groups=4, use_quant_conv=False,
                                   use_post_quant_conv=False, shift_factor=0.1, scaling_factor=0.6, force_upcast=False))


def save_alone(model, inputs, out, file):
    """What a model makes of inputs: in.<input>, out, out_weight, and grad.<parameter>, the digest of the gradient of sum(out * out_weight)."""
    out_weight = torch.randn_like(out)
    (out * out_weight).sum().backward()
    tensors = {f"in.{n}": x for n, x in inputs.items()} | {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters() if p.grad is not None}
    save_file(tensors | {"out": out.detach().contiguous(), "out_weight": out_weight}, file)
    model.zero_grad()


class Family:
    """A small pipeline with random weights, and what diffusers + peft do with it, in the folder OUT."""
    HERE, PICTURES, STEPS = HERE, HERE / "pipeline/pictures", training_loop.STEPS
    PROMPTS = ["red apple", "tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it"]
    OUT = None  # a folder
    TARGETS = None  # the modules that carry an adapter, as peft takes them
    LATENTS = (16, 6, 8)  # the shape of the pictures' latents
    SIZE = (48, 64)  # height and width of the pictures
    REPLAYED = torch.float32  # what holds the noise of training steps

    def parts(self):
        """The pipeline, whose parameters are numbers that bf16 holds."""
        raise NotImplementedError

    def latents(self, pipe, image):
        """The latents [1, C, h, w] of a picture as tensor_of gives it."""
        return (pipe.vae.encode(image).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor

    def conditions(self, pipe, prompt):
        """What `predict` takes beside noise and its level."""
        raise NotImplementedError

    def predict(self, model, noisy, sigma, *conditions):
        """Velocities of a batch [B, C, h, w]."""
        raise NotImplementedError

    def sampled(self, pipe, noise, **options):
        """The latents after four steps from `noise`, for PROMPTS, without guidance unless an option asks for it."""
        raise NotImplementedError

    def drawn(self, pipe, noise):
        """Latents by a name, drawn in every way that a test compares, before anything trains."""
        raise NotImplementedError

    def further_noise(self):
        """What the walks of `drawn` begin with beside `noise`: the noise of further streams by their names."""
        return {}

    def write_alone(self, pipe):
        """Files of single components."""
        raise NotImplementedError

    def write_replay(self, num_samples):
        """Draws what is replayed; seeds torch."""
        return training_loop.write_replay(self.OUT / "replay.safetensors", self.LATENTS, num_samples, self.REPLAYED)

    def trained_more(self, pipe, adapter, replay):
        """Losses and norms by a name of further runs of the adapter."""
        return {}

    def open(self):
        """Writes the model; returns the pipeline in fp32."""
        self.parts().to(torch.bfloat16).save_pretrained(self.OUT / "model")
        return self.parts()  # of which nothing was rounded but the parameters

    @torch.no_grad()
    def encode(self, pipe):
        rows = csv.DictReader(open(self.PICTURES / "metadata.csv"))
        return [(self.latents(pipe, tensor_of(self.PICTURES / row["image"])), *self.conditions(pipe, row["prompt"])) for row in rows]

    def train(self, pipe, samples, replay, parameters, name):
        losses, norms, _ = training_loop.train_velocity(lambda *given: self.predict(pipe.transformer, *given), samples, replay, parameters)
        return {f"{name}.loss": losses, f"{name}.grad_norm": norms}

    def write(self):
        shutil.rmtree(self.OUT, ignore_errors=True)
        self.OUT.mkdir()
        pipe = self.open()
        pipe.set_progress_bar_config(disable=True)
        self.write_alone(pipe)
        samples = self.encode(pipe)
        replay = self.write_replay(len(samples))
        noise = torch.randn(2, *self.LATENTS)
        expected = {"noise": noise} | self.further_noise() | {f"latents.{name}": latents for name, latents in self.drawn(pipe, noise).items()}
        original = {n: x.detach().clone() for n, x in pipe.transformer.state_dict().items()}
        expected |= self.train(pipe, samples, replay, list(pipe.transformer.named_parameters()), "full")
        pipe.transformer.load_state_dict(original)

        adapter = training_loop.add_adapter(pipe.transformer, self.TARGETS)
        start = {n: p.detach().clone() for n, p in adapter}
        save_file(training_loop.adapter_state("transformer", pipe.transformer), self.OUT / "lora.safetensors", metadata={"format": "pt"})
        expected["latents.lora"] = self.sampled(pipe, noise)
        expected |= self.train(pipe, samples, replay, adapter, "lora")
        pipe.transformer.load_state_dict(start, strict=False)
        expected |= self.trained_more(pipe, adapter, replay)
        save_file({n: x.contiguous() for n, x in expected.items()}, self.OUT / "expected.safetensors")
        for file in self.OUT.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        print({n: x for n, x in expected.items() if n.endswith("loss")}, {n: x.std().item() for n, x in expected.items() if n.startswith("latents")})
