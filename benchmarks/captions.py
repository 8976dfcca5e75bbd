#!/usr/bin/env python3
"""Captions beside transformers: a random Qwen2.5-VL of a tenth of 3B's size, pictures of 448x448, so many new tokens each, on the CPU, in turn.

usage: captions.py [--small] [--pictures 8] [--tokens 64] [--batches 1,4] [--formats int8] [--threads N] [--alternations 3]

Seconds are those from the first batch's captions to the last one's, so that loading counts nowhere; transformers' are measured in the same
way. Both take the likeliest token under a penalty of 1.05. Random weights never end a text. Weights in fewer bits are burnish's alone.
--small: 24 tokens, each program once; a minute and a half on two cores.
"""
import argparse
import json
import os
import shutil
import sys

import measure

FOLDER, SIDE = measure.SCRATCH / "caption-model", 448
TEXT = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=16, num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=4096,
            rope_parameters={"rope_type": "default", "type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]})
VISION = dict(depth=8, hidden_size=512, intermediate_size=1368, num_heads=8, out_hidden_size=1024, fullatt_block_indexes=[3, 7])
PROMPT = "Describe this image."


def make_model():
    import torch
    from transformers import AddedToken, PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    torch.manual_seed(0)
    tokens = PreTrainedTokenizerFast(tokenizer_file=str(measure.ROOT / "tests/golden/tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>")
    tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>", "<|video_pad|>")])
    ids = {f"{name}_token_id": tokens.convert_tokens_to_ids(f"<|{word}|>")
           for name, word in (("image", "image_pad"), ("video", "video_pad"), ("vision_start", "vision_start"), ("vision_end", "vision_end"))}
    config = Qwen2_5_VLConfig(text_config=TEXT | {"vocab_size": 32768}, vision_config=VISION, tie_word_embeddings=False, **ids)
    Qwen2_5_VLForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(FOLDER)
    tokens.save_pretrained(FOLDER)
    Qwen2VLImageProcessorPil().save_pretrained(FOLDER)


def pictures_in(count):
    """A folder of so many, made anew: captions that are there would be left."""
    import numpy as np
    from PIL import Image
    folder = measure.SCRATCH / f"caption-pictures-{count}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for i in range(count):
        Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize((SIDE, SIDE), Image.BICUBIC).save(folder / f"{i:03}.png")
    return folder


def ours(args, batch, weight_format):
    pictures = pictures_in(args.pictures)
    command = [measure.burnish(), "caption", pictures, "--model", FOLDER, "--caption_prompt", PROMPT, "--max_new_tokens", args.tokens, "--batch_size", batch,
               "--weight_format", weight_format, "--num_threads", args.threads, "--caption_mode", "replace"]
    measure.run(command, measure.SCRATCH / "captions.log", measure.environment(args.threads))
    times = sorted(path.stat().st_mtime for path in pictures.glob("*.txt"))
    return times[-1] - times[batch - 1]


def peer(args):
    """transformers' generate, a batch at a time; prints the seconds of all behind the first."""
    import time
    import torch
    from PIL import Image
    from transformers import PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    torch.set_num_threads(args.threads)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(FOLDER, dtype=torch.bfloat16).eval()
    tokens, process = PreTrainedTokenizerFast.from_pretrained(FOLDER), Qwen2VLImageProcessorPil.from_pretrained(FOLDER)
    files = sorted(pictures_in(args.pictures).glob("*.png"))

    @torch.no_grad()
    def caption(batch):
        seen = process([Image.open(f).convert("RGB") for f in batch], return_tensors="pt")
        shown = "<|image_pad|>" * (int(seen["image_grid_thw"][0].prod()) // 4)
        text = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|vision_start|>" + shown + "<|vision_end|>" + PROMPT
                + "<|im_end|>\n<|im_start|>assistant\n")
        ids = torch.tensor([tokens(text).input_ids] * len(batch))
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=(ids == model.config.image_token_id).int(),
                             max_new_tokens=args.tokens, min_new_tokens=args.tokens, do_sample=False, repetition_penalty=1.05, pad_token_id=tokens.pad_token_id,
                             pixel_values=seen["pixel_values"].to(torch.bfloat16), image_grid_thw=seen["image_grid_thw"])
        return tokens.batch_decode(out[:, ids.shape[1]:], skip_special_tokens=True)

    caption(files[:args.peer])
    start = time.time()
    for i in range(args.peer, len(files), args.peer):
        caption(files[i:i + args.peer])
    print(json.dumps(time.time() - start))


def seconds_of(args, program, batch):
    if program == "transformers":
        log = measure.SCRATCH / "caption-peer.log"
        measure.run([sys.executable, __file__, "--peer", batch, "--pictures", args.pictures, "--tokens", args.tokens, "--threads", args.threads], log,
                    measure.environment(args.threads))
        return json.loads(log.read_text().strip().splitlines()[-1])
    return ours(args, batch, program.removeprefix("burnish").removeprefix(", ") or "none")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--batches", default="1,4")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--peer", type=int, metavar="BATCH")
    parser.add_argument("--formats", default="int8")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    if args.small:
        args.tokens, args.alternations = 24, 1
    if args.peer:
        return peer(args)
    if not (FOLDER / "config.json").exists():
        make_model()
    rows, times, machine = [], {}, measure.cpu()
    for batch in map(int, args.batches.split(",")):
        programs = ["transformers", "burnish", *(f"burnish, {name}" for name in args.formats.split(",") if name)]
        of = {name: [] for name in programs}
        for turn in range(args.alternations):
            for name in programs[::-1 if turn % 2 else 1]:
                of[name].append(seconds_of(args, name, batch))
        peers = measure.median(of["transformers"])
        for name in programs:
            seconds = measure.median(of[name])
            rows.append([batch, name, f"{(args.pictures - batch) / seconds:.2f}", f"{peers / seconds:.2f}"])
        times[f"batch {batch}"] = of
    text = (f"# Captions\n\n{machine['name']}, {args.threads} threads; burnish {measure.commit()}; `./dev bench captions --pictures {args.pictures} --tokens {args.tokens} --formats {args.formats}`.\n"
            f"A random Qwen2.5-VL in bf16, pictures of {SIDE}x{SIDE}, {args.tokens} tokens each; medians of {args.alternations} runs in turn.\n\n"
            + measure.markdown(["batch", "program", "captions a second", "over transformers"], rows))
    print(text)
    print(f"recorded in {measure.record('captions', machine['name'], text, times)}")


if __name__ == "__main__":
    main()
