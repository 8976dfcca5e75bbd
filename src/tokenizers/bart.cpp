// BART's tokenizer: special tokens, split into words by GPT-2's pattern, then byte-level BPE. Nothing is normalised.
#include "tokenizers/bart.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "tokenizers/byte_pairs.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/word_ends.h"

namespace burnish::tokenizers {

namespace {

/// A data Error for a tokenizer.json that normalises or splits otherwise.
void check_bart_steps(const nlohmann::json& file, const std::filesystem::path& path) {
  const auto& steps = file.at("pre_tokenizer");
  const bool splits = steps.is_object() && steps.value("type", "") == "ByteLevel" && !steps.value("add_prefix_space", true) &&
                      steps.value("use_regex", true);
  const bool is_plain = !file.contains("normalizer") || file["normalizer"].is_null();
  if (!splits || !is_plain || file.at("model").value("ignore_merges", false))
    data_error("tokenizers", "{} normalises or splits text in another way than BART's tokenizers; it is another model's", path.string());
}

class BartTokenizer : public MarkedTokenizer {
 public:
  BartTokenizer(const std::filesystem::path& folder, const std::vector<std::string>& marks) : pairs_(folder, "BART", "", check_bart_steps) {
    const auto settings = read_settings(folder);
    special_ = pairs_.added().empty() ? read_added_tokens(folder, settings) : pairs_.added();
    auto has = [&](const std::string& token) { return std::ranges::find(special_, token, &SpecialToken::first) != special_.end(); };
    for (const auto& [name, usual, id] : {std::tuple("bos_token", "<s>", &start_id_), std::tuple("eos_token", "</s>", &end_id_),
                                          std::tuple("pad_token", "<pad>", &pad_id_)}) {
      const auto token = special_token(settings, name, usual);
      *id = id_of(token);
      if (!has(token)) special_.emplace_back(token, *id);
    }
    around_ = {start_id_, end_id_, pad_id_};
    num_ids_ = pairs_.num_ids();
    for (const auto& [token, id] : special_) num_ids_ = std::max(num_ids_, id + 1);
    if (!marks.empty() && !has(marks.front())) {
      for (const auto& mark : marks) special_.emplace_back(mark, num_ids_++);
    }
    model_max_length_ = max_length(settings);
    num_before_ = 1;
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids{start_id_};
    append_with_special(text, special_, ids, [&](std::string_view plain) {
      const auto codes = code_points(plain);
      for (size_t i = 0; i < codes.size();) {
        std::string word;
        for (auto end = word_end(codes, i); i < end; ++i) word += to_utf8(codes[i]);
        pairs_.append(word, pad_id_, ids);
      }
    });
    ids.push_back(end_id_);
    return ids;
  }

  std::string decode(const std::vector<int64_t>& ids) const override { return pairs_.text_of(ids, special_); }

  std::string decode_marked(const std::vector<int64_t>& ids) const override {
    std::string text;
    std::vector<int64_t> plain;
    auto end_plain = [&] {
      text += pairs_.text_of(plain, special_);
      plain.clear();
    };
    for (auto id : ids) {
      const auto mark = std::ranges::find(special_, id, &SpecialToken::second);
      if (mark == special_.end()) {
        plain.push_back(id);
        continue;
      }
      end_plain();
      if (std::ranges::find(around_, id) == around_.end()) text += mark->first;
    }
    end_plain();
    return text;
  }

 private:
  int64_t id_of(const std::string& token) const {
    const auto found = std::ranges::find(special_, token, &SpecialToken::first);
    return found == special_.end() ? pairs_.id_of(token) : found->second;
  }

  /// Finds where the word that begins at i ends: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+.
  static size_t word_end(const Codes& codes, size_t i) {
    auto at = [&](size_t k) { return i + k < codes.size() ? codes[i + k] : 0; };
    if (auto length = contraction_length(at(0), at(1), at(2))) return i + length;
    const auto first = i + (at(0) == ' ');
    if (first < codes.size() && is_letter(codes[first])) return run_end(codes, first, is_letter);
    if (first < codes.size() && is_number(codes[first])) return run_end(codes, first, is_number);
    if (first < codes.size() && is_other(codes[first])) return run_end(codes, first, is_other);
    // The last of several blanks goes with the word behind them, or stands alone where it is none that a word takes.
    const auto end = run_end(codes, i, is_white_space);
    return end < codes.size() && end > i + 1 ? end - 1 : end;
  }

  BytePairs pairs_;
  std::vector<SpecialToken> special_;
  int64_t start_id_ = 0;
  std::vector<int64_t> around_;
};

}  // namespace

std::unique_ptr<MarkedTokenizer> load_bart(const std::filesystem::path& folder, const std::vector<std::string>& marks) {
  return std::make_unique<BartTokenizer>(folder, marks);
}

}  // namespace burnish::tokenizers
