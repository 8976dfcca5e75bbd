#include "tokenizers/unigram_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/input_error.h"
#include "io/json.h"
#include "tokenizers/sentencepiece_model.h"
#include "tokenizers/special_tokens.h"

namespace burnish::tokenizers {

namespace {

using nlohmann::json;

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (char c : text) {
    auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;  // padding
    bits = bits << 6 | static_cast<uint32_t>(digit);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(bits >> num_bits & 0xFF);
  }
  return bytes;
}

/// The steps of a normalizer or pre-tokenizer, which may be none, one or a sequence.
std::vector<json> steps_of(const json& step, const char* list) {
  if (step.is_null()) return {};
  if (step.at("type") != "Sequence") return {step};
  std::vector<json> steps;
  for (const auto& inner : step.at(list)) {
    for (auto& each : steps_of(inner, list)) steps.push_back(std::move(each));
  }
  return steps;
}

/// Steps that SentencePiece takes itself: blanks at the end are dropped, several are one.
bool is_tidying(const json& step) {
  if (step.at("type") == "Strip") return !step.at("strip_left").get<bool>() && step.at("strip_right").get<bool>();
  return step.at("type") == "Replace" && step.at("pattern").value("Regex", "") == " {2,}";
}

/// Every word begins with "▁", the first one too.
bool marks_words(const json& step) {
  if (step.at("type") != "Metaspace" || step.value("replacement", "") != "▁" || !step.value("split", true)) return false;
  return step.contains("prepend_scheme") ? step["prepend_scheme"] == "always" : step.value("add_prefix_space", false);
}

[[noreturn]] void refuse_step(const std::filesystem::path& path, const json& step) {
  data_error("tokenizers", "{} has a step of type {}, with settings that a T5 tokenizer has not; use the folder's spiece.model instead",
             path.string(), step.at("type").dump());
}

std::string charsmap_of(const json& file, const std::filesystem::path& path) {
  std::string charsmap;
  for (const auto& step : steps_of(file.value("normalizer", json()), "normalizers")) {
    if (step.at("type") == "Precompiled") charsmap = from_base64(step.at("precompiled_charsmap").get<std::string>());
    else if (!is_tidying(step)) refuse_step(path, step);
  }
  return charsmap;
}

bool splits_at_white_space(const json& file, const std::filesystem::path& path) {
  bool marks = false, any = false;
  for (const auto& step : steps_of(file.value("pre_tokenizer", json()), "pretokenizers")) {
    bool splits = step.at("type") == "WhitespaceSplit";
    if (!splits && !marks_words(step)) refuse_step(path, step);
    (splits ? any : marks) = true;
  }
  if (!marks) data_error("tokenizers", "{} marks no beginnings of words (Metaspace), as a T5 tokenizer does", path.string());
  return any;
}

/// SentencePiece wants all bytes where it is to fall back on them, and so does tokenizers, which otherwise takes the unknown token.
bool has_all_bytes(const json& vocab) {
  std::set<std::string> bytes;
  for (const auto& entry : vocab) {
    if (auto text = entry.at(0).get<std::string>(); piece::is_byte(text)) bytes.insert(text);
  }
  return bytes.size() == 256;
}

std::string model_of(const json& file, const std::string& charsmap, const std::set<std::string>& added) {
  const auto& vocab = file.at("model").at("vocab");
  const auto unknown = static_cast<size_t>(token_id(file.at("model").at("unk_id")));
  const bool falls_back = file.at("model").value("byte_fallback", false) && has_all_bytes(vocab);
  std::string bytes;
  for (size_t id = 0; id < vocab.size(); ++id) {
    auto text = vocab[id].at(0).get<std::string>();
    auto type = id == unknown                        ? piece::kUnknown
                : added.contains(text)               ? piece::kControl
                : falls_back && piece::is_byte(text) ? piece::kByte
                                                     : piece::kNormal;
    bytes += piece::of(text, vocab[id].at(1).get<float>(), type);
  }
  auto trainer = bytes_field(piece::kUnkPiece, vocab.at(unknown).at(0).get<std::string>());
  if (falls_back) trainer += number_field(piece::kByteFallback, 1);
  bytes += bytes_field(piece::kTrainerSpec, trainer);
  return bytes + bytes_field(piece::kNormalizer, bytes_field(piece::kCharsmap, charsmap));
}

UnigramJson unigram_of(const json& file, const std::filesystem::path& path) {
  const auto& model = file.at("model");
  if (model.at("type") != "Unigram")
    data_error("tokenizers", "{} holds no unigram model, as T5's is: its model is of type {}", path.string(), model.at("type").dump());
  UnigramJson found;
  std::set<std::string> added;
  for (const auto& token : file.value("added_tokens", json::array())) {
    found.added.emplace_back(token.at("content").get<std::string>(), token_id(token.at("id")));
    if (!added.insert(found.added.back().first).second || found.added.back().first.empty())
      data_error("tokenizers", "{} names an added token twice, or one without text", path.string());
  }
  found.any_white_space = splits_at_white_space(file, path);
  found.model = model_of(file, charsmap_of(file, path), added);
  return found;
}

}  // namespace

UnigramJson read_unigram_json(const std::filesystem::path& path) {
  try {
    return unigram_of(io::read_json(path), path);
  } catch (const json::exception&) {
    data_error("tokenizers", "{} is no tokenizer.json of a unigram model: a value is missing or of another kind; save the tokenizer anew",
               path.string());
  }
}

}  // namespace burnish::tokenizers
