"""Ids of the package tokenizers for texts that the vocabulary of tokenizers/t5_json/ lacks, once it has the 256 bytes behind its pieces and byte_fallback ->
byte_fallback.json."""
import json, pathlib
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
TEXTS = ["red apple", "犬", "a 犬 and 🐈‍⬛ there", "é ž ǆ", "\u0000x", "ไทย 猫", "", "犬犬 犬"]

whole = json.loads((HERE / "tokenizers/t5_json/tokenizer.json").read_text())
whole["model"]["vocab"] += [[f"<0x{i:02X}>", 0.0] for i in range(256)]
whole["model"]["byte_fallback"] = True
tokenizer = Tokenizer.from_str(json.dumps(whole))
tokenizer.no_padding(), tokenizer.no_truncation()
cases = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS]
(HERE / "byte_fallback.json").write_text(json.dumps(cases, ensure_ascii=True, indent=0) + "\n")
