#!/usr/bin/env python3
"""Qwen's tokenizer with its published vocabulary, beside tiktoken: part of `./dev golden check`.

The ranks that dashscope's package carries become vocab.json and merges.txt in a folder that is gone afterwards; ids of all texts beside it are
compared by Tokenizer.QwenEqualsTiktokenOnTheRealRanks of build/test_tokenizers. Exits 1 where they differ.
"""
import base64, importlib.util, json, os, pathlib, subprocess, sys, tempfile, unicodedata
import tiktoken

HERE = pathlib.Path(__file__).parent
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def read_ranks():
    package = pathlib.Path(importlib.util.find_spec("dashscope").submodule_search_locations[0])
    lines = (package / "resources/qwen.tiktoken").read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


def symbols():
    """GPT-2's printable character for each byte."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def last_pair(ranks, token):
    """The two pieces whose merge gives the token: what merging by lower ranks leaves of it."""
    pieces = [bytes([byte]) for byte in token]
    while len(pieces) > 2:
        found = [ranks.get(pieces[i] + pieces[i + 1], len(ranks)) for i in range(len(pieces) - 1)]
        i = min(range(len(found)), key=found.__getitem__)
        pieces[i:i + 2] = [pieces[i] + pieces[i + 1]]
    return pieces


def write_folder(folder, ranks):
    symbol = symbols()
    text = lambda token: "".join(symbol[byte] for byte in token)
    ordered = sorted(ranks, key=ranks.get)
    merges = [" ".join(map(text, last_pair(ranks, token))) for token in ordered if len(token) > 1]
    (folder / "vocab.json").write_text(json.dumps({text(token): ranks[token] for token in ordered}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    added = {str(len(ranks) + i): {"content": token, "special": True} for i, token in enumerate(SPECIAL)}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added, "pad_token": SPECIAL[0]}))
    return len(merges)


def main():
    ranks = read_ranks()
    peer = tiktoken.Encoding("qwen", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={token: len(ranks) + i for i, token in enumerate(SPECIAL)})
    texts = [text for name in ("strings.json", "qwen_strings.json") for text in json.loads((HERE / "tokenizers" / name).read_text())]
    cases = [{"text": text, "ids": peer.encode(unicodedata.normalize("NFC", text), allowed_special="all")} for text in texts]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        num_merges = write_folder(folder, ranks)
        (folder / "cases.json").write_text(json.dumps(cases))
        done = subprocess.run(["build/test_tokenizers", "--gtest_filter=Tokenizer.QwenEqualsTiktokenOnTheRealRanks"], env=os.environ | {"BURNISH_QWEN_FOLDER": name})
    num_ids = sum(len(case["ids"]) for case in cases)
    print(f"Qwen's {len(ranks)} tokens and {num_merges} merges, {len(cases)} texts, {num_ids} ids: {'same' if done.returncode == 0 else 'DIFFERENT'} as tiktoken's")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
