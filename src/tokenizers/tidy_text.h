#pragma once
#include <string>
#include <string_view>

#include "tokenizers/qwen.h"

namespace burnish::tokenizers {

/// Tidies a prompt as some models had it done before it was cut into tokens (diffusers: prompt_clean of their pipelines): it is mended
/// (mended_text.h), HTML's names of characters become these, and every run of white space is one blank, with none at the ends.
std::string tidy_text(std::string_view text);

/// Returns a tokenizer that tidies texts before it encodes them.
std::unique_ptr<Tokenizer> tidying(std::unique_ptr<Tokenizer> tokenizer);
/// Loads Qwen's tokenizer, which tidies what it encodes within the template.
std::unique_ptr<ChatTokenizer> load_qwen_tidying(const std::filesystem::path& folder, const ChatTemplate& chat);

}  // namespace burnish::tokenizers
