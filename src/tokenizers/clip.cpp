// CLIP's tokenizer: NFC, white space folded, lower case, split into words, digits and runs of other characters, then byte-level
// BPE with "</w>" on a word's last symbol (Radford et al. 2021; the steps of the published tokenizer.json).
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/white_space.h"

namespace burnish::tokenizers {

namespace {

std::string to_utf8(int32_t code) {
  utf8proc_uint8_t bytes[4];
  auto n = utf8proc_encode_char(code, bytes);
  return {reinterpret_cast<char*>(bytes), static_cast<size_t>(n)};
}

/// Code points of `text`; bytes that are not UTF-8 become U+FFFD.
std::vector<int32_t> code_points(std::string_view text) {
  std::vector<int32_t> codes;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    auto n = utf8proc_iterate(at, left, &code);
    if (n <= 0) {
      n = 1;
      code = 0xFFFD;
    }
    codes.push_back(code);
    at += n;
    left -= n;
  }
  return codes;
}

/// Canonical composition.
std::vector<int32_t> compose(std::vector<int32_t> codes) {
  std::vector<int32_t> split;
  for (auto code : codes) {
    std::array<utf8proc_int32_t, 32> buffer{};
    int boundary = 0;
    auto n = utf8proc_decompose_char(code, buffer.data(), buffer.size(), UTF8PROC_DECOMPOSE, &boundary);
    if (n > 0) split.insert(split.end(), buffer.begin(), buffer.begin() + n);
  }
  // Marks are brought into canonical order before they are composed.
  for (size_t i = 0; i < split.size();) {
    size_t j = i;
    while (j < split.size() && utf8proc_get_property(split[j])->combining_class != 0) ++j;
    std::stable_sort(
        split.begin() + static_cast<std::ptrdiff_t>(i), split.begin() + static_cast<std::ptrdiff_t>(j),
        [](int32_t a, int32_t b) { return utf8proc_get_property(a)->combining_class < utf8proc_get_property(b)->combining_class; });
    i = std::max(j, i + 1);
  }
  auto n = utf8proc_normalize_utf32(split.data(), static_cast<utf8proc_ssize_t>(split.size()),
                                    static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  split.resize(static_cast<size_t>(std::max<utf8proc_ssize_t>(n, 0)));
  return split;
}

bool is_letter(int32_t c) {
  auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_number(int32_t c) {
  auto category = utf8proc_category(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

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

/// GPT-2's printable stand-in for every byte.
std::array<std::string, 256> byte_symbols() {
  std::array<std::string, 256> symbols;
  int32_t next = 256;
  for (int b = 0; b < 256; ++b) {
    bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    symbols[static_cast<size_t>(b)] = to_utf8(printable ? b : next++);
  }
  return symbols;
}

struct PairHash {
  size_t operator()(const std::pair<std::string, std::string>& p) const {
    return std::hash<std::string>()(p.first) * 31 + std::hash<std::string>()(p.second);
  }
};
using Ranks = std::unordered_map<std::pair<std::string, std::string>, int, PairHash>;

constexpr const char* kWordEnd = "</w>";

class ClipTokenizer : public Tokenizer {
 public:
  ClipTokenizer(const std::filesystem::path& folder, const std::string& pad_token) {
    try {
      read_files(folder);
    } catch (const nlohmann::json::exception&) {
      data_error("tokenizers", "the CLIP tokenizer in {} is damaged: a value is missing or of another kind; save it anew", folder.string());
    }
    for (const auto& [token, id] : ids_) num_ids_ = std::max(num_ids_, id + 1);
    auto settings = read_settings(folder);
    start_text_ = special_token(settings, "bos_token", "<|startoftext|>");
    end_text_ = special_token(settings, "eos_token", "<|endoftext|>");
    start_id_ = id_of(start_text_, folder);
    end_id_ = id_of(end_text_, folder);
    pad_id_ = id_of(pad_token.empty() ? special_token(settings, "pad_token", end_text_) : pad_token, folder);
    unknown_id_ = id_of(special_token(settings, "unk_token", end_text_), folder);
    model_max_length_ = max_length(settings);
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids{start_id_};
    // Special tokens inside the text are taken as such, before anything is normalised.
    while (true) {
      auto at = std::min(text.find(start_text_), text.find(end_text_));
      encode_plain(text.substr(0, at), ids);
      if (at == std::string_view::npos) break;
      bool start = text.compare(at, start_text_.size(), start_text_) == 0;
      ids.push_back(start ? start_id_ : end_id_);
      text.remove_prefix(at + (start ? start_text_ : end_text_).size());
    }
    ids.push_back(end_id_);
    return ids;
  }

 private:
  void read_files(const std::filesystem::path& folder) {
    if (io::is_there(folder / "vocab.json") && io::is_there(folder / "merges.txt")) {
      read_vocab(io::read_json(folder / "vocab.json"), folder);
      read_merges_text(io::read_text(folder / "merges.txt"), folder / "merges.txt");
    } else if (io::is_there(folder / "tokenizer.json")) {
      read_tokenizer_json(io::read_json(folder / "tokenizer.json"), folder);
    } else {
      data_error("tokenizers", "no CLIP tokenizer in {}: expected vocab.json and merges.txt, or tokenizer.json", folder.string());
    }
    if (ranks_.empty()) data_error("tokenizers", "the CLIP tokenizer in {} has no merges; its file is empty or damaged", folder.string());
  }

  int64_t id_of(const std::string& token, const std::filesystem::path& folder) const {
    auto it = ids_.find(token);
    if (it == ids_.end()) data_error("tokenizers", "the vocabulary in {} lacks the special token '{}'", folder.string(), token);
    return it->second;
  }

  void read_vocab(const nlohmann::json& vocab, const std::filesystem::path& folder) {
    if (!vocab.is_object()) data_error("tokenizers", "the vocabulary in {} is not a table of token to id", folder.string());
    for (const auto& [token, id] : vocab.items()) ids_[token] = token_id(id);
  }

  void read_merges_text(const std::string& text, const std::filesystem::path& path) {
    size_t at = 0;
    while (at < text.size()) {
      auto end = std::min(text.find('\n', at), text.size());
      auto line = trim(std::string_view(text).substr(at, end - at));
      at = end + 1;
      if (!line.empty() && !line.starts_with("#version")) add_merge(line, path);
    }
  }

  void read_tokenizer_json(const nlohmann::json& json, const std::filesystem::path& folder) {
    const auto& model = json.at("model");
    if (model.value("type", "BPE") != "BPE" || model.at("end_of_word_suffix") != kWordEnd)
      data_error("tokenizers", "the tokenizer.json in {} is that of another model: CLIP's is a BPE whose words end in {}", folder.string(),
                 kWordEnd);
    read_vocab(model.at("vocab"), folder);
    for (const auto& added : json.value("added_tokens", nlohmann::json::array())) ids_[added.at("content")] = token_id(added.at("id"));
    for (const auto& merge : model.at("merges")) {
      if (merge.is_array()) add_merge(merge.at(0).get<std::string>(), merge.at(1).get<std::string>(), folder / "tokenizer.json");
      else add_merge(merge.get<std::string>(), folder / "tokenizer.json");
    }
  }

  void add_merge(std::string_view line, const std::filesystem::path& path) {
    auto blank = line.find(' ');
    if (blank == std::string_view::npos) refuse_merge(line, path);
    add_merge(std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)), path);
  }

  void add_merge(std::string left, std::string right, const std::filesystem::path& path) {
    if (!ids_.contains(left + right)) refuse_merge(left + " " + right, path);
    ranks_.emplace(std::pair(std::move(left), std::move(right)), static_cast<int>(ranks_.size()));
  }

  [[noreturn]] static void refuse_merge(std::string_view line, const std::filesystem::path& path) {
    auto printable = nlohmann::json(line.substr(0, 40)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    data_error("tokenizers", "{} merges {}, which gives no token of the vocabulary beside it; it is damaged, or another model's",
               path.string(), printable);
  }

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
      encode_word(word, ids);
    }
  }

  /// 's|'t|'re|'ve|'m|'ll|'d | letters | one number | a run of anything else.
  static size_t word_end(const std::vector<int32_t>& codes, size_t i) {
    auto next = [&](size_t k) { return i + k < codes.size() ? codes[i + k] : 0; };
    if (codes[i] == '\'') {
      auto a = next(1), b = next(2);
      if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
      if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
    }
    if (is_number(codes[i])) return i + 1;
    bool letters = is_letter(codes[i]);
    size_t end = i + 1;
    while (end < codes.size() && !is_white_space(codes[end]) && !is_number(codes[end]) && is_letter(codes[end]) == letters) ++end;
    return end;
  }

  void encode_word(const std::string& word, std::vector<int64_t>& ids) const {
    static const auto symbols = byte_symbols();
    std::vector<std::string> parts;
    for (unsigned char byte : word) parts.push_back(symbols[byte]);
    parts.back() += kWordEnd;
    while (parts.size() > 1) {
      int best = std::numeric_limits<int>::max();
      size_t where = 0;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        auto it = ranks_.find({parts[i], parts[i + 1]});
        if (it != ranks_.end() && it->second < best) {
          best = it->second;
          where = i;
        }
      }
      if (best == std::numeric_limits<int>::max()) break;
      parts[where] += parts[where + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(where) + 1);
    }
    for (const auto& part : parts) {
      auto it = ids_.find(part);
      ids.push_back(it == ids_.end() ? unknown_id_ : it->second);
    }
  }

  std::unordered_map<std::string, int64_t> ids_;
  Ranks ranks_;
  std::string start_text_, end_text_;
  int64_t start_id_ = 0, unknown_id_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> load_clip(const std::filesystem::path& folder, const std::string& pad_token) {
  return std::make_unique<ClipTokenizer>(folder, pad_token);
}

}  // namespace burnish::tokenizers
