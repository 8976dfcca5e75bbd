#!/usr/bin/env python3
"""Trains the small vocabularies of assets/tiny-flux on the names of all Unicode pictographs.

    make_tokenizers.py --out assets/tiny-flux

CLIP layout (tokenizer/): byte-level BPE with </w>, start and end of text as the last two ids.
T5 layout (tokenizer_2/): SentencePiece unigram, pad 0, </s> 1, <unk> 2. Needs transformers, tokenizers, sentencepiece.
"""
import argparse, collections, io, json, pathlib, unicodedata
import sentencepiece
from tokenizers.pre_tokenizers import ByteLevel

CLIP_SIZE, T5_SIZE = 1600, 1000
CLIP_LENGTH, T5_LENGTH = 24, 16  # captions are a few words long


def captions():
    names = []
    for code in [*range(0x2190, 0x2BFF), *range(0x1F000, 0x1FAFF)]:
        name = unicodedata.name(chr(code), "").lower().replace("-", " ")
        if name:
            names.append(name)
    return names


def clip_vocabulary(texts):
    """Plain byte-pair encoding over words; ties go to the pair seen first, so the result is the same everywhere."""
    alphabet = sorted(ByteLevel.alphabet())
    vocab = alphabet + [a + "</w>" for a in alphabet]
    words = collections.Counter(w for t in texts for w in t.split())
    split = {w: [*w[:-1], w[-1] + "</w>"] for w in words if w.isascii()}
    merges = []
    while len(vocab) + 2 < CLIP_SIZE:
        pairs = collections.Counter()
        for w, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[w]
        pair = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(pair)
        if "".join(pair) not in vocab:
            vocab.append("".join(pair))
        for w, parts in split.items():
            out, i = [], 0
            while i < len(parts):
                if tuple(parts[i:i + 2]) == pair:
                    out.append("".join(pair))
                    i += 2
                else:
                    out.append(parts[i])
                    i += 1
            split[w] = out
    return vocab + ["<|startoftext|>", "<|endoftext|>"], merges


def write_clip(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    vocab, merges = clip_vocabulary(texts)
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(vocab)}, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2))
    (folder / "tokenizer_config.json").write_text(json.dumps({**special, "tokenizer_class": "CLIPTokenizer", "model_max_length": CLIP_LENGTH}, indent=2))


def write_t5(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=T5_SIZE, model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        byte_fallback=True, character_coverage=1.0, minloglevel=2)
    (folder / "spiece.model").write_bytes(model.getvalue())
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**special, "tokenizer_class": "T5Tokenizer", "extra_ids": 0, "model_max_length": T5_LENGTH, "legacy": True}, indent=2))


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=pathlib.Path, required=True)
    out = p.parse_args().out
    texts = captions()
    write_clip(out / "tokenizer", texts)
    write_t5(out / "tokenizer_2", texts)
