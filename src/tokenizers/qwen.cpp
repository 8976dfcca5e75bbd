// Qwen's tokenizer: special tokens, NFC, split into words, then byte-level BPE (the steps of the tokenizer.json published with Qwen2, Qwen3
// and Qwen3.5), and Llama 3's, which is of their kind.
#include "tokenizers/qwen.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "tokenizers/byte_pairs.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/word_ends.h"

namespace burnish::tokenizers {

namespace {

/// A kind of the tokenizer: the pattern by which texts are split, which `QwenTokenizer::word_end` does too, and what it takes for a letter.
struct Kind {
  const char *name, *pattern;
  bool (*is_in_word)(int32_t code);
  const char* pad = "<|endoftext|>";  ///< the token that pads, where the settings name none
  size_t most_digits = 1;             ///< digits that are one word
  bool composes = true;               ///< whether characters are composed first (NFC)
  bool may_take_words_whole = false;  ///< whether a word that is a token may be that one, whatever merges make of it
};
constexpr Kind kQwen2{"Qwen2's and Qwen3's",
                      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                      is_letter};
constexpr Kind kQwen35{
    "Qwen3.5's",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    [](int32_t code) { return is_letter(code) || is_mark(code); }};
constexpr Kind kLlama3{
    .name = "Llama 3's",
    .pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    .is_in_word = is_letter,
    .pad = "<|end_of_text|>",
    .most_digits = 3,
    .composes = false,
    .may_take_words_whole = true};

/// A data Error for a tokenizer.json that says otherwise.
void check_steps(const Kind& kind, const nlohmann::json& file, const std::filesystem::path& path) {
  const nlohmann::json expected = {
      {"normalizer", kind.composes ? nlohmann::json{{"type", "NFC"}} : nlohmann::json()},
      {"split", {{"type", "Split"}, {"pattern", {{"Regex", kind.pattern}}}, {"behavior", "Isolated"}, {"invert", false}}}};
  const auto& steps = file.at("pre_tokenizer").at("pretokenizers");
  bool splits = steps.size() == 2 && steps[0] == expected["split"] && steps[1].at("type") == "ByteLevel" &&
                !steps[1].value("add_prefix_space", true) && !steps[1].value("use_regex", true);
  const auto added = file.value("added_tokens", nlohmann::json::array());
  bool strips = std::ranges::any_of(added, [](const auto& token) {
    return token.value("lstrip", false) || token.value("rstrip", false) || token.value("single_word", false);
  });
  const bool takes_words_whole = file.at("model").value("ignore_merges", false) && !kind.may_take_words_whole;
  if (!splits || strips || file.at("normalizer") != expected["normalizer"] || takes_words_whole)
    data_error("tokenizers", "{} normalises or splits text in another way than {} tokenizers; it is another model's", path.string(),
               kind.name);
}

class QwenTokenizer : public ChatTokenizer {
 public:
  QwenTokenizer(const std::filesystem::path& folder, const ChatTemplate& chat, const Kind& kind)
      : pairs_(folder, "Qwen", "", [&](const auto& file, const auto& path) { check_steps(kind, file, path); }), chat_(chat), kind_(kind) {
    auto settings = read_settings(folder);
    special_ = pairs_.added().empty() ? read_added_tokens(folder, settings) : pairs_.added();
    auto id_of = [&](const std::string& token) {
      auto found = std::ranges::find(special_, token, &SpecialToken::first);
      return found == special_.end() ? pairs_.id_of(token) : found->second;
    };
    for (const auto* part : {&chat_.before, &chat_.after}) {
      if (auto end = part->find("|>"); end != part->npos) id_of(part->substr(0, end + 2));
    }
    for (int byte = 0; byte < 256; ++byte) {
      if (!pairs_.find_byte(static_cast<unsigned char>(byte)))
        data_error("tokenizers", "the vocabulary in {} lacks the byte {}, with which any text may be written; it is damaged",
                   folder.string(), byte);
    }
    pad_id_ = id_of(special_token(settings, "pad_token", kind.pad));
    end_id_ = -1;
    num_ids_ = pairs_.num_ids();
    for (const auto& [token, id] : special_) num_ids_ = std::max(num_ids_, id + 1);
    model_max_length_ = max_length(settings);
    num_before_ = std::ssize(ids_of(chat_.before));
  }

  std::vector<int64_t> encode(std::string_view text) const override { return ids_of(chat_.before + std::string(text) + chat_.after); }
  std::vector<int64_t> encode_bare(std::string_view text) const override { return ids_of(std::string(text)); }
  std::string decode(const std::vector<int64_t>& ids) const override { return pairs_.text_of(ids, special_); }

 private:
  std::vector<int64_t> ids_of(const std::string& text) const {
    std::vector<int64_t> ids;
    append_with_special(text, special_, ids, [&](std::string_view plain) {
      auto codes = kind_.composes ? compose(code_points(plain)) : code_points(plain);
      for (size_t i = 0; i < codes.size();) {
        std::string word;
        for (auto end = word_end(codes, i); i < end; ++i) word += to_utf8(codes[i]);
        pairs_.append(word, pad_id_, ids);
      }
    });
    return ids;
  }

  /// Where the word that begins at i ends, by the alternatives of the pattern in their order.
  size_t word_end(const Codes& codes, size_t i) const {
    auto at = [&](size_t k) { return i + k < codes.size() ? codes[i + k] : 0; };
    if (auto length = contraction_length(at(0), lower(at(1)), lower(at(2)))) return i + length;
    bool leads = !is_line_end(at(0)) && !is_letter(at(0)) && !is_number(at(0));
    const auto is_in_word = kind_.is_in_word;
    if (auto letters = i + leads; letters < codes.size() && is_in_word(codes[letters])) return run_end(codes, letters, is_in_word);
    if (is_in_word(codes[i])) return i + 1;  // a mark, with nothing of a word behind it
    if (is_number(at(0))) return std::min(run_end(codes, i, is_number), i + kind_.most_digits);
    auto is_out = [&](int32_t code) { return is_other(code) && !is_in_word(code); };
    if (auto end = others_end(codes, i, is_line_end, is_out); end > i) return end;
    return blanks_end(codes, i);
  }

  /// Makes a letter of a contraction, which may have any case, a small one. The long s is an s here.
  static int32_t lower(int32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c == 0x17F ? 's' : c; }

  BytePairs pairs_;
  ChatTemplate chat_;
  Kind kind_;
  std::vector<SpecialToken> special_;
};

}  // namespace

std::unique_ptr<ChatTokenizer> load_qwen(const std::filesystem::path& folder, const ChatTemplate& chat) {
  return std::make_unique<QwenTokenizer>(folder, chat, kQwen2);
}

std::unique_ptr<ChatTokenizer> load_llama3(const std::filesystem::path& folder, const ChatTemplate& chat) {
  return std::make_unique<QwenTokenizer>(folder, chat, kLlama3);
}

std::unique_ptr<ChatTokenizer> load_qwen35(const std::filesystem::path& folder, const ChatTemplate& chat) {
  return std::make_unique<QwenTokenizer>(folder, chat, kQwen35);
}

}  // namespace burnish::tokenizers
