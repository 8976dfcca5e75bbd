// CLIP's tokenizer: NFC, white space folded, lower case, split into words, digits and runs of other characters, then byte-level
// BPE with "</w>" on a word's last symbol (Radford et al. 2021; the steps of the published tokenizer.json).
#include <utf8proc.h>

#include <nlohmann/json.hpp>

#include "tokenizers/byte_pairs.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/unicode.h"
#include "tokenizers/white_space.h"
#include "tokenizers/word_ends.h"

namespace burnish::tokenizers {

namespace {

/// Lower case as Unicode's full mapping has it: İ becomes two characters; a capital sigma is always σ, as character-wise mapping has it.
void append_lower(std::vector<int32_t>& out, int32_t c) {
  if (c == 0x130) {
    out.push_back('i');
    out.push_back(0x307);
  } else {
    out.push_back(utf8proc_tolower(c));
  }
}

std::vector<int32_t> normalise(std::string_view text) {
  std::vector<int32_t> folded;
  for (auto c : compose(code_points(text))) {
    bool space = is_white_space(c);
    if (space && !folded.empty() && folded.back() == ' ') continue;
    folded.push_back(space ? ' ' : c);
  }
  std::vector<int32_t> lower;
  for (auto c : folded) append_lower(lower, c);
  return lower;
}

constexpr const char* kWordEnd = "</w>";

class ClipTokenizer : public Tokenizer {
 public:
  ClipTokenizer(const std::filesystem::path& folder, const std::string& pad_token)
      : pairs_(folder, "CLIP", kWordEnd, [](const nlohmann::json&, const std::filesystem::path&) {}) {
    auto settings = read_settings(folder);
    auto start_text = special_token(settings, "bos_token", "<|startoftext|>");
    auto end_text = special_token(settings, "eos_token", "<|endoftext|>");
    start_id_ = pairs_.id_of(start_text);
    end_id_ = pairs_.id_of(end_text);
    special_ = {{start_text, start_id_}, {end_text, end_id_}};
    pad_id_ = pairs_.id_of(pad_token.empty() ? special_token(settings, "pad_token", end_text) : pad_token);
    unknown_id_ = pairs_.id_of(special_token(settings, "unk_token", end_text));
    num_ids_ = pairs_.num_ids();
    model_max_length_ = max_length(settings);
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids{start_id_};
    append_with_special(text, special_, ids, [&](std::string_view plain) { encode_plain(plain, ids); });
    ids.push_back(end_id_);
    return ids;
  }

 private:
  void encode_plain(std::string_view text, std::vector<int64_t>& ids) const {
    auto codes = normalise(text);
    for (size_t i = 0; i < codes.size();) {
      if (is_white_space(codes[i])) {
        ++i;
        continue;
      }
      auto end = word_end(codes, i);
      std::string word;
      for (; i < end; ++i) word += to_utf8(codes[i]);
      pairs_.append(word, unknown_id_, ids);
    }
  }

  /// 's|'t|'re|'ve|'m|'ll|'d | letters | one number | a run of anything else.
  static size_t word_end(const std::vector<int32_t>& codes, size_t i) {
    auto next = [&](size_t k) { return i + k < codes.size() ? codes[i + k] : 0; };
    if (auto length = contraction_length(codes[i], next(1), next(2))) return i + length;
    if (is_number(codes[i])) return i + 1;
    bool letters = is_letter(codes[i]);
    size_t end = i + 1;
    while (end < codes.size() && !is_white_space(codes[end]) && !is_number(codes[end]) && is_letter(codes[end]) == letters) ++end;
    return end;
  }

  BytePairs pairs_;
  std::vector<SpecialToken> special_;
  int64_t start_id_ = 0, unknown_id_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> load_clip(const std::filesystem::path& folder, const std::string& pad_token) {
  return std::make_unique<ClipTokenizer>(folder, pad_token);
}

}  // namespace burnish::tokenizers
