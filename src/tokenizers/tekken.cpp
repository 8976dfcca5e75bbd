// Mistral's tokenizer, tekken: special tokens, split into words, then byte-level BPE (the pattern of the tekken.json published with Mistral
// Nemo and its successors).
#include "tokenizers/tekken.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "tokenizers/byte_pairs.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/word_ends.h"

namespace burnish::tokenizers {

namespace {

/// The pattern by which texts are split; `tekken_word_end` does the same.
constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Tells whether a tokenizer.json splits by the pattern alone, and takes tokens as they stand.
bool has_steps(const nlohmann::json& file) {
  const nlohmann::json split = {{"type", "Split"}, {"pattern", {{"Regex", kTekkenPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const auto& steps = file.at("pre_tokenizer").at("pretokenizers");
  bool splits = steps.size() == 2 && steps[0] == split && steps[1].at("type") == "ByteLevel" && !steps[1].value("add_prefix_space", true) &&
                !steps[1].value("use_regex", true);
  const auto added = file.value("added_tokens", nlohmann::json::array());
  bool strips = std::ranges::any_of(added, [](const auto& token) {
    return token.value("lstrip", false) || token.value("rstrip", false) || token.value("single_word", false);
  });
  const auto normalizer = file.find("normalizer");
  return splits && !strips && (normalizer == file.end() || normalizer->is_null());
}

/// A data Error for a file that says otherwise.
void check_tekken(const nlohmann::json& file, const std::filesystem::path& path) {
  bool is_mistral = path.filename() == "tekken.json" ? file.at("config").at("pattern") == kTekkenPattern : has_steps(file);
  if (!is_mistral)
    data_error("tokenizers", "{} normalises or splits text in another way than Mistral's tokenizers since Nemo; it is another model's",
               path.string());
}

/// The ids before and behind every text.
struct Around {
  std::vector<int64_t> before, behind;
};

/// Returns what the post-processor of a tokenizer.json puts around a text.
Around around_of(const nlohmann::json& step) {
  Around around;
  if (!step.is_object()) return around;
  if (step.value("type", "") == "Sequence") {
    for (const auto& one : step.at("processors")) {
      auto more = around_of(one);
      around.before.insert(around.before.begin(), more.before.begin(), more.before.end());
      around.behind.insert(around.behind.end(), more.behind.begin(), more.behind.end());
    }
  }
  if (step.value("type", "") != "TemplateProcessing") return around;
  auto* ids = &around.before;
  for (const auto& piece : step.at("single")) {
    if (piece.contains("Sequence")) {
      ids = &around.behind;
      continue;
    }
    for (const auto& id : step.at("special_tokens").at(piece.at("SpecialToken").at("id").get<std::string>()).at("ids"))
      ids->push_back(token_id(id));
  }
  return around;
}

/// Tells whether texts are filled up at their beginning. Where the settings do not say, it follows from the class that transformers opens:
/// Llama's and mistral-common's fill up there, others at the end. Where no class is named either, a conversation is taken for Mistral's.
bool pads_before(const nlohmann::json& settings, bool is_conversation) {
  if (auto side = settings.find("padding_side"); side != settings.end()) return *side == "left";
  const auto kind = settings.find("tokenizer_class");
  if (kind == settings.end() || !kind->is_string()) return is_conversation;
  const auto name = kind->get<std::string>();
  return name.starts_with("Llama") || name.starts_with("Mistral");
}

/// Where the word that begins at i ends by the first two alternatives of kTekkenPattern, letters with what may stand before them; i where
/// neither matches.
size_t letters_end(const Codes& codes, size_t i) {
  const bool leads = !is_line_end(codes[i]) && !is_letter(codes[i]) && !is_number(codes[i]);
  std::vector<size_t> begins;
  if (leads) begins.push_back(i + 1);
  begins.push_back(i);
  // Capitals as many as there are, then small letters; where none follow, the last letter that is neither is the one that has to be there.
  for (auto begin : begins) {
    const auto end = run_end(codes, begin, is_no_small_letter);
    if (end < codes.size() && is_no_capital(codes[end])) return run_end(codes, end, is_no_capital);
    for (auto last = end; last > begin; --last) {
      if (is_no_capital(codes[last - 1])) return last;
    }
  }
  for (auto begin : begins) {
    const auto end = run_end(codes, begin, is_no_small_letter);
    if (end > begin) return run_end(codes, end, is_no_capital);
  }
  return i;
}

/// Where the word that begins at i ends, by the alternatives of kTekkenPattern in their order.
size_t tekken_word_end(const Codes& codes, size_t i) {
  if (auto end = letters_end(codes, i); end > i) return end;
  if (is_number(codes[i])) return i + 1;
  if (auto end = others_end(codes, i, [](int32_t c) { return is_line_end(c) || c == '/'; }); end > i) return end;
  return blanks_end(codes, i);
}

class TekkenTokenizer : public ChatTokenizer {
 public:
  TekkenTokenizer(const std::filesystem::path& folder, const ChatTemplate& chat)
      : pairs_(folder, "Mistral", "", check_tekken), chat_(chat) {
    const auto settings = read_settings(folder);
    for (int byte = 0; byte < 256; ++byte) {
      if (!pairs_.find_byte(static_cast<unsigned char>(byte)))
        data_error("tokenizers", "the vocabulary in {} lacks the byte {}, with which any text may be written; it is damaged",
                   folder.string(), byte);
    }
    begin_id_ = pairs_.id_of(special_token(settings, "bos_token", "<s>"));
    pad_id_ = pairs_.id_of(special_token(settings, "pad_token", "<pad>"));
    end_id_ = -1;
    num_ids_ = pairs_.num_ids();
    model_max_length_ = max_length(settings);
    pads_first_ = pads_before(settings, !chat_.before.empty());
    num_before_ = std::ssize(encode_bare(chat_.before));
    if (chat_.before.empty() && chat_.after.empty()) read_around(folder, settings);
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    auto ids = around_.before;
    append(chat_.before + std::string(text) + chat_.after, ids);
    ids.insert(ids.end(), around_.behind.begin(), around_.behind.end());
    if (ids.empty()) ids.push_back(begin_id_);
    return ids;
  }

  std::vector<int64_t> encode_bare(std::string_view text) const override {
    std::vector<int64_t> ids;
    append(text, ids);
    return ids;
  }

  std::string decode(const std::vector<int64_t>& ids) const override { return pairs_.text_of(ids, pairs_.added()); }

 private:
  /// What tokenizer_config.json says goes before what tokenizer.json does.
  void read_around(const std::filesystem::path& folder, const nlohmann::json& settings) {
    auto says = [&](const char* key) { return settings.contains(key) && settings[key] == true; };
    if (settings.contains("add_bos_token") || settings.contains("add_eos_token")) {
      if (says("add_bos_token")) around_.before = {begin_id_};
      if (says("add_eos_token")) around_.behind = {pairs_.id_of(special_token(settings, "eos_token", "</s>"))};
    } else if (io::is_there(folder / "tokenizer.json")) {
      const auto file = io::read_json(folder / "tokenizer.json");
      if (auto step = file.find("post_processor"); step != file.end()) around_ = around_of(*step);
    }
  }

  void append(std::string_view text, std::vector<int64_t>& ids) const {
    append_with_special(text, pairs_.added(), ids, [&](std::string_view plain) {
      auto codes = code_points(plain);
      for (size_t i = 0; i < codes.size();) {
        std::string word;
        for (auto end = tekken_word_end(codes, i); i < end; ++i) word += to_utf8(codes[i]);
        pairs_.append(word, pad_id_, ids);
      }
    });
  }

  BytePairs pairs_;
  ChatTemplate chat_;
  Around around_;
  int64_t begin_id_ = 0;
};

}  // namespace

std::unique_ptr<ChatTokenizer> load_tekken(const std::filesystem::path& folder, const ChatTemplate& chat) {
  return std::make_unique<TekkenTokenizer>(folder, chat);
}

}  // namespace burnish::tokenizers
