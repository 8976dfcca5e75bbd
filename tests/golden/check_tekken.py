#!/usr/bin/env python3
"""Mistral's tokenizer with published ranks, beside mistral-common's tiktoken: part of `./dev golden check`.

The tekken.json that mistral-common's package carries is read in a folder that is gone afterwards; ids of all texts beside it are compared by
Tokenizer.TekkenEqualsMistralCommonOnTheRealRanks of build/test_tokenizers. Exits 1 where they differ.
"""
import base64, importlib.util, json, os, pathlib, shutil, subprocess, sys, tempfile
import tiktoken

HERE = pathlib.Path(__file__).parent


def main():
    path = pathlib.Path(importlib.util.find_spec("mistral_common").submodule_search_locations[0]) / "data/tekken_240911.json"
    whole = json.loads(path.read_text())
    config, num_special = whole["config"], whole["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in whole["vocab"][:config["default_vocab_size"] - num_special]}
    peer = tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
    texts = [text for name in ("strings.json", "qwen_strings.json", "tekken_strings.json") for text in json.loads((HERE / "tokenizers" / name).read_text())]
    texts = [text for text in texts if not any(special in text for special in ("<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]"))]  # taken out before, not by tiktoken
    cases = [{"text": text, "ids": [num_special + id for id in peer.encode(text)]} for text in texts]
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(path, pathlib.Path(name) / "tekken.json")
        (pathlib.Path(name) / "cases.json").write_text(json.dumps(cases))
        done = subprocess.run(["build/test_tokenizers", "--gtest_filter=Tokenizer.TekkenEqualsMistralCommonOnTheRealRanks"], env=os.environ | {"BURNISH_TEKKEN_FOLDER": name})
    num_ids = sum(len(case["ids"]) for case in cases)
    print(f"tekken's {len(ranks)} tokens, {len(cases)} texts, {num_ids} ids: {'same' if done.returncode == 0 else 'DIFFERENT'} as tiktoken's")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
