#include "tokenizers/bpe_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/input_error.h"
#include "tokenizers/sentencepiece_model.h"
#include "tokenizers/special_tokens.h"

namespace burnish::tokenizers {

namespace {

using nlohmann::json;

/// Blanks become "▁", as SentencePiece has it.
bool marks_blanks(const json& step) {
  return step.is_object() && step.at("type") == "Replace" && step.at("pattern").value("String", "") == " " && step.at("content") == "▁";
}

/// A cut at blanks, of which there are none any more, cuts nothing.
bool cuts_nothing(const json& step) {
  return step.is_null() || (step.at("type") == "Split" && step.at("pattern").value("String", "") == " ");
}

void check_bpe_steps(const json& file, const std::filesystem::path& path) {
  const auto& model = file.at("model");
  if (model.at("type") != "BPE" || !model.at("byte_fallback").get<bool>() || !marks_blanks(file.at("normalizer")) ||
      !cuts_nothing(file.value("pre_tokenizer", json())))
    data_error("tokenizers",
               "{} prepares text as another model's tokenizer does: a BPE with byte_fallback whose blanks become '▁' was expected; use the "
               "folder of a Gemma's tokenizer",
               path.string());
}

/// All tokens by their ids, which leave none out.
std::vector<std::string> tokens_of(const json& file, const std::filesystem::path& path) {
  const auto& vocab = file.at("model").at("vocab");
  const auto& added = file.at("added_tokens");
  std::vector<std::string> tokens(vocab.size() + added.size());
  size_t count = 0;
  auto put = [&](const json& id, const std::string& token) {
    const auto place = static_cast<size_t>(token_id(id));
    if (place >= tokens.size() || token.empty() || (!tokens[place].empty() && tokens[place] != token))
      data_error("tokenizers", "{} gives the token '{}' the id {}, which is another's or behind all others; its file is damaged",
                 path.string(), token, place);
    tokens[place] = token;
    count = std::max(count, place + 1);
  };
  for (const auto& [token, id] : vocab.items()) put(id, token);
  for (const auto& token : added) put(token.at("id"), token.at("content").get<std::string>());
  tokens.resize(count);
  for (const auto& token : tokens) {
    if (token.empty()) data_error("tokenizers", "{} leaves out an id among its tokens; its file is damaged", path.string());
  }
  return tokens;
}

/// What merges make, and which of them does so first.
std::unordered_map<std::string, int64_t> ranks_of(const json& merges, const std::filesystem::path& path) {
  std::unordered_map<std::string, int64_t> ranks;
  int64_t rank = 0;
  for (const auto& merge : merges) {
    std::string made;
    if (merge.is_array()) {
      made = merge.at(0).get<std::string>() + merge.at(1).get<std::string>();
    } else {
      made = merge.get<std::string>();
      const auto between = made.find(' ');
      if (between == made.npos)
        data_error("tokenizers", "{} has a merge '{}', and two tokens were expected; its file is damaged", path.string(), made);
      made.erase(between, 1);
    }
    ranks.emplace(made, rank++);
  }
  return ranks;
}

/// Tells whether a text is one character of UTF-8.
bool is_character(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }) == 1;
}

std::string model_of(const json& file, const std::filesystem::path& path) {
  std::set<std::string> special, user_defined;
  for (const auto& token : file.at("added_tokens")) {
    auto text = token.at("content").get<std::string>();
    // A run of "▁" is cut out of no text, in which blanks stand; merges make it.
    if (text.find("▁") == text.npos) (token.value("special", false) ? special : user_defined).insert(text);
  }
  const auto ranks = ranks_of(file.at("model").at("merges"), path);
  const auto unknown = file.at("model").at("unk_token").get<std::string>();
  std::string bytes;
  std::set<std::string> seen;
  for (const auto& token : tokens_of(file, path)) {
    if (!seen.insert(token).second) data_error("tokenizers", "{} has the token '{}' twice; its file is damaged", path.string(), token);
    auto rank = ranks.find(token);
    const bool is_made = rank != ranks.end() || is_character(token);
    auto type = token == unknown               ? piece::kUnknown
                : special.contains(token)      ? piece::kControl
                : user_defined.contains(token) ? piece::kUserDefined
                : piece::is_byte(token)        ? piece::kByte
                : is_made                      ? piece::kNormal
                                               : piece::kControl;
    bytes += piece::of(token, rank != ranks.end() ? -static_cast<float>(rank->second) : 0, type);
  }
  auto trainer =
      number_field(piece::kModelType, piece::kBpe) + number_field(piece::kByteFallback, 1) + bytes_field(piece::kUnkPiece, unknown);
  auto normalizer = number_field(piece::kAddDummyPrefix, 0) + number_field(piece::kRemoveExtraBlanks, 0);
  return bytes + bytes_field(piece::kTrainerSpec, trainer) + bytes_field(piece::kNormalizer, normalizer);
}

}  // namespace

std::string model_of_bpe_json(const json& file, const std::filesystem::path& path) {
  try {
    check_bpe_steps(file, path);
    return model_of(file, path);
  } catch (const json::exception&) {
    data_error("tokenizers", "{} is no tokenizer.json of a BPE as Gemma's: a value is missing or of another kind; save the tokenizer anew",
               path.string());
  }
}

}  // namespace burnish::tokenizers
