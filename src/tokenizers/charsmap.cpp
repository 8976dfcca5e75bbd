#include "tokenizers/charsmap.h"

#include <utf8proc.h>

#include <cstring>
#include <optional>

#include "base/input_error.h"
#include "tokenizers/protobuf.h"

namespace burnish::tokenizers {

namespace {

/// One field of a protocol buffer message: where its tag starts and where its payload lies.
struct Field {
  uint64_t number = 0;
  size_t start = 0, payload = 0, end = 0;
};

std::optional<uint64_t> read_varint(std::string_view bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<Field> next_field(std::string_view bytes, size_t at) {
  Field field{0, at, 0, 0};
  auto tag = read_varint(bytes, at);
  if (!tag) return std::nullopt;
  field.number = *tag >> 3;
  field.payload = at;
  switch (*tag & 7) {
    case 0:
      if (!read_varint(bytes, at)) return std::nullopt;
      break;
    case 1: at += 8; break;
    case 2: {
      auto length = read_varint(bytes, at);
      if (!length || *length > bytes.size()) return std::nullopt;
      field.payload = at;
      at += *length;
      break;
    }
    case 5: at += 4; break;
    default: return std::nullopt;
  }
  field.end = at;
  return at <= bytes.size() ? std::optional(field) : std::nullopt;
}

std::optional<Field> find_field(std::string_view bytes, uint64_t number) {
  for (size_t at = 0; at < bytes.size();) {
    auto field = next_field(bytes, at);
    if (!field) return std::nullopt;
    if (field->number == number) return field;
    at = field->end;
  }
  return std::nullopt;
}

constexpr uint64_t kNormalizerSpec = 3, kPrecompiledCharsmap = 2;  // field numbers of sentencepiece_model.proto

}  // namespace

Charsmap::Charsmap(std::string& model_bytes) {
  auto spec = find_field(model_bytes, kNormalizerSpec);
  if (!spec) data_error("tokenizers", "the SentencePiece model has no normalizer_spec; it is damaged");
  auto spec_bytes = model_bytes.substr(spec->payload, spec->end - spec->payload);
  auto map = find_field(spec_bytes, kPrecompiledCharsmap);
  if (!map || map->end - map->payload < 4) return;  // an identity normaliser

  std::string_view blob(spec_bytes.data() + map->payload, map->end - map->payload);
  uint32_t trie_bytes = 0;
  std::memcpy(&trie_bytes, blob.data(), 4);
  if (trie_bytes > blob.size() - 4) data_error("tokenizers", "the character map of the SentencePiece model is damaged");
  trie_.resize(trie_bytes / 4);
  std::memcpy(trie_.data(), blob.data() + 4, trie_.size() * 4);
  replacements_ = blob.substr(4 + trie_bytes);

  spec_bytes.erase(map->start, map->end - map->start);
  model_bytes.replace(spec->start, spec->end - spec->start, bytes_field(kNormalizerSpec, spec_bytes));
}

const char* Charsmap::find(std::string_view chunk) const {
  // Units of darts-clone: label in the low byte (and the top bit), "has leaf" in bit 8, offset in bits 10 and up.
  auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  if (trie_.empty()) return nullptr;
  size_t at = offset(trie_[0]);
  for (unsigned char byte : chunk) {
    at ^= byte;
    if (at >= trie_.size()) return nullptr;
    auto unit = trie_[at];
    if ((unit & ((1u << 31) | 0xFF)) != byte) return nullptr;
    at ^= offset(unit);
    if (at >= trie_.size()) return nullptr;
    if ((unit >> 8) & 1) {
      auto value = trie_[at] & 0x7FFFFFFF;
      return value < replacements_.size() ? replacements_.c_str() + value : nullptr;
    }
  }
  return nullptr;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  auto replace = [&](std::string_view chunk) {
    const char* found = find(chunk);
    if (found) out += found;
    return found != nullptr;
  };
  auto by_character = [&](std::string_view grapheme) {
    while (!grapheme.empty()) {
      auto n = std::min<size_t>(std::max<int>(utf8proc_utf8class[static_cast<unsigned char>(grapheme[0])], 1), grapheme.size());
      if (!replace(grapheme.substr(0, n))) out += grapheme.substr(0, n);
      grapheme.remove_prefix(n);
    }
  };
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t start = 0;
  utf8proc_int32_t previous = 0, state = 0;
  for (size_t at = 0; at <= text.size();) {
    utf8proc_int32_t code = 0;
    auto n = at < text.size() ? utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code) : 1;
    if (n < 1) {
      n = 1;
      code = 0xFFFD;
    }
    if (at == text.size() || (at > 0 && utf8proc_grapheme_break_stateful(previous, code, &state))) {
      auto grapheme = text.substr(start, at - start);
      if (grapheme.size() >= 6 || !replace(grapheme)) by_character(grapheme);
      start = at;
    }
    previous = code;
    at += static_cast<size_t>(n);
  }
  return out;
}

}  // namespace burnish::tokenizers
