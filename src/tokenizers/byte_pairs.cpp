#include "tokenizers/byte_pairs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "tokenizers/unicode.h"

namespace burnish::tokenizers {

namespace {

constexpr int64_t kNoToken = -1;

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

/// The special tokens of a tekken.json that lists none (mistral-common: Tekkenizer.DEPRECATED_SPECIAL_TOKENS).
constexpr const char* kOldSpecialTokens[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};

/// The bytes that a text of base64 stands for; a data Error for what is none.
std::string from_base64(std::string_view text) {
  std::string bytes;
  uint32_t held = 0;
  int num_bits = 0;
  for (char c : text.substr(0, text.find('='))) {
    const bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z', is_digit = c >= '0' && c <= '9';
    if (!is_upper && !is_lower && !is_digit && c != '+' && c != '/')
      data_error("tokenizers", "the tokenizer has a token whose bytes are not base64; its file is damaged");
    held = held << 6 | static_cast<uint32_t>(is_upper ? c - 'A' : is_lower ? c - 'a' + 26 : is_digit ? c - '0' + 52 : c == '+' ? 62 : 63);
    if ((num_bits += 6) < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(held >> num_bits & 0xFF);
  }
  return bytes;
}

uint64_t key_of(int64_t left, int64_t right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right); }

[[noreturn]] void refuse_merge(std::string_view line, const std::filesystem::path& path) {
  auto printable = nlohmann::json(line.substr(0, 40)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  data_error("tokenizers", "{} merges {}, which gives no token of the vocabulary beside it; it is damaged, or another model's",
             path.string(), printable);
}

}  // namespace

BytePairs::BytePairs(const std::filesystem::path& folder, const std::string& what, std::string word_end, const Check& check)
    : folder_(folder), word_end_(std::move(word_end)), symbols_(byte_symbols()) {
  try {
    read_files(what, check);
  } catch (const nlohmann::json::exception&) {
    data_error("tokenizers", "the {} tokenizer in {} is damaged: a value is missing or of another kind; save it anew", what,
               folder.string());
  }
  if (merges_.empty())
    data_error("tokenizers", "the {} tokenizer in {} has no merges; its file is empty or damaged", what, folder.string());
}

std::string BytePairs::symbols_of(std::string_view bytes) const {
  std::string symbols;
  for (char byte : bytes) symbols += symbols_[static_cast<unsigned char>(byte)];
  return symbols;
}

void BytePairs::read_files(const std::string& what, const Check& check) {
  if (io::is_there(folder_ / "vocab.json") && io::is_there(folder_ / "merges.txt")) {
    read_vocab(io::read_json(folder_ / "vocab.json"));
    read_merges_text(folder_ / "merges.txt");
  } else if (io::is_there(folder_ / "tokenizer.json")) {
    auto file = io::read_json(folder_ / "tokenizer.json");
    check(file, folder_ / "tokenizer.json");
    read_tokenizer_json(file, what);
  } else if (io::is_there(folder_ / "tekken.json")) {
    auto file = io::read_json(folder_ / "tekken.json");
    check(file, folder_ / "tekken.json");
    read_tekken(file);
  } else {
    data_error("tokenizers", "no {} tokenizer in {}: expected vocab.json and merges.txt, or tokenizer.json", what, folder_.string());
  }
}

void BytePairs::read_vocab(const nlohmann::json& vocab) {
  if (!vocab.is_object()) data_error("tokenizers", "the vocabulary in {} is not a table of token to id", folder_.string());
  for (const auto& [token, id] : vocab.items()) ids_[token] = token_id(id);
}

void BytePairs::read_merges_text(const std::filesystem::path& path) {
  const auto text = io::read_text(path);
  for (size_t at = 0; at < text.size();) {
    auto end = std::min(text.find('\n', at), text.size());
    auto line = trim(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (!line.empty() && !line.starts_with("#version")) add_merge(line, path);
  }
}

void BytePairs::read_tokenizer_json(const nlohmann::json& file, const std::string& what) {
  const auto& model = file.at("model");
  auto suffix = model.find("end_of_word_suffix");
  auto word_end = suffix == model.end() || suffix->is_null() ? "" : suffix->get<std::string>();
  if (model.value("type", "BPE") != "BPE" || word_end != word_end_)
    data_error("tokenizers", "the tokenizer.json in {} is that of another model: {}'s is a BPE whose words end in {}", folder_.string(),
               what, word_end_.empty() ? "no mark" : word_end_);
  read_vocab(model.at("vocab"));
  takes_words_whole_ = model.value("ignore_merges", false);
  for (const auto& added : file.value("added_tokens", nlohmann::json::array())) {
    added_.emplace_back(added.at("content").get<std::string>(), token_id(added.at("id")));
    ids_[added_.back().first] = added_.back().second;
  }
  for (const auto& merge : model.at("merges")) {
    if (merge.is_array()) add_merge(merge.at(0).get<std::string>(), merge.at(1).get<std::string>(), folder_ / "tokenizer.json");
    else add_merge(merge.get<std::string>(), folder_ / "tokenizer.json");
  }
}

/// Special tokens first, `default_num_special_tokens` of them with those that have no name, then tokens of bytes in the order of their
/// ranks (mistral-common: Tekkenizer).
void BytePairs::read_tekken(const nlohmann::json& file) {
  const auto& config = file.at("config");
  const auto special = file.find("special_tokens");
  if (special != file.end() && special->is_array()) {
    for (const auto& token : *special) added_.emplace_back(token.at("token_str").get<std::string>(), token_id(token.at("rank")));
  } else {
    for (const char* token : kOldSpecialTokens) added_.emplace_back(token, std::ssize(added_));
  }
  for (const auto& [token, id] : added_) ids_[token] = id;
  const auto num_special = token_id(config.at("default_num_special_tokens"));
  const auto num_tokens = token_id(config.at("default_vocab_size")) - num_special;
  std::vector<std::string> tokens;
  for (const auto& token : file.at("vocab")) {
    if (token_id(token.at("rank")) >= num_tokens) continue;
    auto bytes = from_base64(token.at("token_bytes").get<std::string>());
    ids_[symbols_of(bytes)] = num_special + token_id(token.at("rank"));
    tokens.push_back(std::move(bytes));
  }
  for (const auto& bytes : tokens) add_merges_into(bytes);
  takes_words_whole_ = true;
}

/// Adds every pair of tokens that make up this one; its rank is theirs.
void BytePairs::add_merges_into(const std::string& bytes) {
  const std::string_view whole = bytes;
  const auto id = ids_.at(symbols_of(bytes));
  for (size_t length = 1; length < bytes.size(); ++length) {
    auto left = find(symbols_of(whole.substr(0, length))), right = find(symbols_of(whole.substr(length)));
    if (left && right) merges_.emplace(key_of(*left, *right), Merge{id, id});
  }
}

void BytePairs::add_merge(std::string_view line, const std::filesystem::path& path) {
  auto blank = line.find(' ');
  if (blank == std::string_view::npos) refuse_merge(line, path);
  add_merge(std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)), path);
}

void BytePairs::add_merge(const std::string& left, const std::string& right, const std::filesystem::path& path) {
  auto first = find(left), second = find(right), both = find(left + right);
  if (!first || !second || !both) refuse_merge(left + " " + right, path);
  merges_.emplace(key_of(*first, *second), Merge{static_cast<int64_t>(merges_.size()), *both});
}

std::optional<int64_t> BytePairs::find(const std::string& token) const {
  auto it = ids_.find(token);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

int64_t BytePairs::id_of(const std::string& token) const {
  if (auto id = find(token)) return *id;
  data_error("tokenizers", "the vocabulary in {} lacks the special token '{}'", folder_.string(), token);
}

int64_t BytePairs::num_ids() const {
  int64_t num = 0;
  for (const auto& [token, id] : ids_) num = std::max(num, id + 1);
  return num;
}

const BytePairs::Merge* BytePairs::merge_of(int64_t left, int64_t right) const {
  if (left == kNoToken || right == kNoToken) return nullptr;
  auto it = merges_.find(key_of(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

/// Neighbours are merged, of all that can be the earliest merge of the list first, and of equal ones the first in the word. A heap keeps
/// this near linear: scripts without blanks make words of a whole text.
std::vector<int64_t> BytePairs::merged(std::vector<int64_t> ids) const {
  struct Place {
    size_t previous, next;
  };
  const size_t none = ids.size();
  std::vector<Place> places(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) places[i] = {i == 0 ? none : i - 1, i + 1};
  using Candidate = std::pair<int64_t, size_t>;  // rank and the left one's place
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  auto consider = [&](size_t left) {
    if (left == none || places[left].next == none) return;
    if (const auto* merge = merge_of(ids[left], ids[places[left].next])) heap.emplace(merge->rank, left);
  };
  for (size_t i = 0; i < ids.size(); ++i) consider(i);
  std::vector<bool> gone(ids.size(), false);
  while (!heap.empty()) {
    auto [rank, left] = heap.top();
    heap.pop();
    auto right = places[left].next;
    if (gone[left] || right == none) continue;
    const auto* merge = merge_of(ids[left], ids[right]);
    if (!merge || merge->rank != rank) continue;  // of neighbours that have changed since
    ids[left] = merge->id;
    gone[right] = true;
    places[left].next = places[right].next;
    if (places[left].next != none) places[places[left].next].previous = left;
    consider(places[left].previous);
    consider(left);
  }
  std::vector<int64_t> left_over;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!gone[i]) left_over.push_back(ids[i]);
  }
  return left_over;
}

void BytePairs::append(std::string_view word, int64_t unknown_id, std::vector<int64_t>& ids) const {
  if (takes_words_whole_) {
    if (auto id = find(symbols_of(word) + word_end_)) return ids.push_back(*id);
  }
  std::vector<int64_t> symbols;
  for (size_t i = 0; i < word.size(); ++i) {
    const auto& symbol = symbols_[static_cast<unsigned char>(word[i])];
    symbols.push_back(find(i + 1 < word.size() ? symbol : symbol + word_end_).value_or(kNoToken));
  }
  for (auto id : merged(std::move(symbols))) ids.push_back(id == kNoToken ? unknown_id : id);
}

std::string BytePairs::text_of(const std::vector<int64_t>& ids, const std::vector<SpecialToken>& special) const {
  std::unordered_map<int64_t, std::string_view> tokens;
  for (auto id : ids) tokens[id] = "";
  for (const auto& [token, id] : ids_) {
    if (auto wanted = tokens.find(id); wanted != tokens.end()) wanted->second = token;
  }
  for (const auto& [token, id] : special) tokens.erase(id);
  std::unordered_map<std::string_view, char> bytes;
  for (size_t byte = 0; byte < symbols_.size(); ++byte) bytes[symbols_[byte]] = static_cast<char>(byte);
  std::string text;
  for (auto id : ids) {
    const auto token = tokens.find(id);
    if (token == tokens.end()) continue;
    for (auto code : code_points(token->second)) text += bytes.at(to_utf8(code));
  }
  std::string valid;
  for (auto code : code_points(text)) valid += to_utf8(code);
  return valid;
}

}  // namespace burnish::tokenizers
