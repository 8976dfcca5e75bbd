#pragma once
#include "tokenizers/qwen.h"

namespace burnish::tokenizers {

/// The byte-level BPE of Mistral Nemo, Mistral Small 3 and Ministral 3 from a folder with a tokenizer.json, or else with Mistral's own
/// tekken.json. Texts are encoded within the template; where that is empty, between the tokens that the folder's settings put around every
/// text, and one that makes no token is the one that begins texts.
std::unique_ptr<ChatTokenizer> load_tekken(const std::filesystem::path& folder, const ChatTemplate& chat = {});

}  // namespace burnish::tokenizers
