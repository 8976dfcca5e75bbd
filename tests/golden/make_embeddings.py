#!/usr/bin/env python3
"""Textual inversion by transformers and diffusers on the small pipelines of SD 1.5, SDXL and FLUX.1, in embeddings.safetensors: the word <it>, of two tokens that begin
as those of "red", stands before every caption, and its vectors alone train, by the replays that the pipelines have. Of each family sd15, sdxl, flux:

<family>.{loss,grad_norm}         of ten steps
<family>.grad.<encoder>           the first step's gradient of the vectors [2, E] of a text encoder
<family>.vectors.<encoder>        the vectors after the steps
<family>.latents                  two pictures drawn with them in five steps (FLUX.1: four), from the pipeline's noise

And of SD 1.5 in embeddings_of_two.safetensors where <it> and, behind it, <that> train, of three tokens that begin as those of "a tree": sd15.grad.<encoder>.<word> and so
on.
"""
import pathlib
import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, EulerDiscreteScheduler, FluxPipeline
from safetensors.torch import load_file, save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import make_pipeline as flux
import make_stable_diffusion_runs as sd

HERE = pathlib.Path(__file__).parent
ONE = {"<it>": (2, "red")}  # how many tokens a word has, and as what they begin
TWO = ONE | {"<that>": (3, "a tree")}
PROMPTS = ["a <it> tree", "<it>"]


def learn_words(words, tokenizer, encoder):
    """Adds words to a tokenizer, and rows that train behind the frozen rows of its encoder's table; those rows [tokens, E] by word."""
    weight = encoder.get_input_embeddings().weight.detach()
    rows = {}
    for word, (num_tokens, init) in words.items():
        ids = tokenizer.encode(init, add_special_tokens=False)
        rows[word] = torch.nn.Parameter(torch.stack([weight[ids[i % len(ids)]] for i in range(num_tokens)]))
    tokenizer.add_tokens([word + (f"_{i}" if i > 0 else "") for word in words for i in range(words[word][0])])
    assert tokenizer.convert_tokens_to_ids(next(iter(words))) == len(weight)
    for module in encoder.modules():  # T5 has its table in two places
        if isinstance(module, torch.nn.Embedding) and module.weight.data_ptr() == weight.data_ptr():
            module.forward = lambda x: F.embedding(x, torch.cat([weight, *rows.values()]))
    return rows


class Captions:
    """Latents with what the encoders now make of the captions, as the training loops read samples."""

    def __init__(self, latents, prompts, encode, words):
        self.latents, self.prompts, self.encode, self.words = latents, prompts, encode, words

    def __getitem__(self, i):
        return self.latents[i], *self.encode(" ".join([*self.words, self.prompts[i]]))


def run(family, pipe, latents, prompts, encode, train, sampled, words=ONE):
    rows, encoders = {}, [n for n in ("text_encoder", "text_encoder_2") if getattr(pipe, n, None) is not None]
    for n in encoders:
        for word, of_word in learn_words(words, getattr(pipe, n.replace("text_encoder", "tokenizer")), getattr(pipe, n)).items():
            rows[n if len(words) == 1 else f"{n}.{word}"] = of_word
    for part in (pipe.unet if hasattr(pipe, "unet") else pipe.transformer, *(getattr(pipe, n) for n in encoders)):
        part.requires_grad_(False)
    losses, norms, first = train(Captions(latents, prompts, encode, words), list(rows.items()))
    result = {"loss": losses, "grad_norm": norms, "latents": sampled()}
    result |= {f"grad.{n}": g for n, g in first.items()} | {f"vectors.{n}": r.detach() for n, r in rows.items()}
    print(family, losses, norms)
    return {f"{family}.{n}": t.contiguous() for n, t in result.items()}


def stable_diffusion(name, words=ONE, drawn=PROMPTS):
    pipe, replay, noise = sd.open_pipe(name), load_file(HERE / name / "replay.safetensors"), load_file(HERE / name / "noise.safetensors")
    latents = [sample[0] for sample in sd.encode(pipe)]
    config = dict(pipe.scheduler.config) | dict(timestep_spacing="leading", clip_sample=False, final_sigmas_type="zero")
    config.pop("skip_prk_steps", None)
    return run(name.split("_")[0], pipe, latents, [prompt for _, prompt in sd.rows()], lambda prompt: sd.encode_text(pipe, prompt),
               lambda samples, rows: sd.train(pipe, samples, replay, rows, DDPMScheduler.from_config(config)),
               lambda: sd.sampled(pipe, noise, EulerDiscreteScheduler.from_config(config), prompts=drawn), words)


def flux_1():
    pipe = FluxPipeline.from_pretrained(flux.OUT / "model", tokenizer=CLIPTokenizer.from_pretrained(flux.ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(flux.ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    rows = sd.rows()
    latents = [sample[0] for sample in flux.encode(pipe, rows)]
    replay, noise = load_file(flux.OUT / "replay.safetensors"), load_file(flux.OUT / "expected.safetensors")["noise"]
    return run("flux", pipe, latents, [prompt for _, prompt in rows],
               lambda prompt: pipe.encode_prompt(prompt, prompt_2=prompt, max_sequence_length=pipe.tokenizer_2.model_max_length),
               lambda samples, trained: flux.train(pipe, samples, replay, trained), lambda: flux.sampled(pipe, noise, PROMPTS))


if __name__ == "__main__":
    save_file(stable_diffusion("sd15_pipeline") | stable_diffusion("sdxl_pipeline") | flux_1(), HERE / "embeddings.safetensors")
    save_file(stable_diffusion("sd15_pipeline", TWO, ["a <that> by <it>", "<that>"]), HERE / "embeddings_of_two.safetensors")
