#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

std::vector<int64_t> Tokenizer::encode_inner(std::string_view text) const {
  const auto around = std::ssize(encode("")), behind = int64_t{end_id_ >= 0 ? 1 : 0};
  const auto ids = encode(text);
  return {ids.begin() + around - behind, ids.end() - behind};
}

Encoded Tokenizer::encode_padded(std::string_view text, int64_t max_length) const {
  Encoded out{.ids = encode(text)};
  if (std::ssize(out.ids) > max_length) {
    out.ids.resize(static_cast<size_t>(max_length));
    if (end_id_ >= 0) out.ids.back() = end_id_;
    out.truncated = true;
  }
  out.num_tokens = std::ssize(out.ids);
  const auto num_padding = max_length - out.num_tokens;
  if (pads_first_) out.first_token = num_padding;
  out.ids.insert(pads_first_ ? out.ids.begin() : out.ids.end(), static_cast<size_t>(num_padding), pad_id_);
  return out;
}

}  // namespace burnish::tokenizers
