#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

/// Makes T5's tokenizer of the bytes of a SentencePiece model that lie in another file, `from`, with T5's usual special tokens. Text that
/// no piece knows becomes its bytes where the model has pieces for them.
std::unique_ptr<Tokenizer> t5_of_bytes(std::string model, const std::filesystem::path& from);

}  // namespace burnish::tokenizers
