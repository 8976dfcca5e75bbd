#pragma once
#include "tokenizers/qwen.h"

namespace burnish::tokenizers {

/// Qwen's tokenizer for models that were taught to write: what stands between quotation marks, and the marks, are tokens character by
/// character. Marks are ' ', " ", ‘ ’ and “ ”, as they open and close; an apostrophe between Latin letters is none. What stands around a
/// text is cut into tokens by itself.
std::unique_ptr<ChatTokenizer> load_qwen_spelling_quotes(const std::filesystem::path& folder, const ChatTemplate& chat);

}  // namespace burnish::tokenizers
