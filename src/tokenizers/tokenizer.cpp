#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

Encoded Tokenizer::encode_padded(std::string_view text, int64_t max_length) const {
  Encoded out{encode(text), 0, false};
  if (std::ssize(out.ids) > max_length) {
    out.ids.resize(static_cast<size_t>(max_length));
    if (end_id_ >= 0) out.ids.back() = end_id_;
    out.truncated = true;
  }
  out.num_tokens = std::ssize(out.ids);
  out.ids.resize(static_cast<size_t>(max_length), pad_id_);
  return out;
}

}  // namespace burnish::tokenizers
