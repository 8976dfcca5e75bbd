// T5's tokenizer: a SentencePiece unigram model; ids of the text, then </s>.
#include "tokenizers/t5.h"

#include <sentencepiece_processor.h>
#include <utf8proc.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "tokenizers/charsmap.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/unigram_json.h"
#include "tokenizers/white_space.h"

namespace burnish::tokenizers {

namespace {

/// The text without white space at its end, and where words end at any, a blank for every other.
std::string tidied(std::string_view text, bool words_end_at_any) {
  std::string out;
  size_t end = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    auto n = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    bool white = n > 0 && is_white_space(code);
    auto length = static_cast<size_t>(std::max<utf8proc_ssize_t>(n, 1));
    out += white && words_end_at_any ? " " : text.substr(at, length);
    if (!white) end = out.size();
    at += length;
  }
  out.resize(end);
  return out;
}

/// Tells whether a tokenizer.json makes bytes of text that its vocabulary does not know. One that is not there does not.
bool says_byte_fallback(const std::filesystem::path& path) {
  if (!io::is_there(path)) return false;
  const auto file = io::read_json(path);
  const auto model = file.is_object() ? file.find("model") : file.end();
  return model != file.end() && model->is_object() && model->value("byte_fallback", nlohmann::json(false)) == true;
}

class T5Tokenizer : public Tokenizer {
 public:
  explicit T5Tokenizer(const std::filesystem::path& folder) {
    auto settings = read_settings(folder);
    if (io::is_there(folder / "spiece.model")) {
      load(io::read_text(folder / "spiece.model"), folder / "spiece.model");
      add_specials(settings);
      knows_bytes_ = has_bytes() && says_byte_fallback(folder / "tokenizer.json");
    } else if (io::is_there(folder / "tokenizer.json")) {
      auto json = read_unigram_json(folder / "tokenizer.json");
      load(std::move(json.model), folder / "tokenizer.json");
      special_ = std::move(json.added);
      any_white_space_ = json.any_white_space;
      knows_bytes_ = has_bytes();
    } else {
      data_error("tokenizers", "no T5 tokenizer in {}: expected spiece.model or tokenizer.json", folder.string());
    }
    finish(settings, folder);
  }

  T5Tokenizer(std::string model, const std::filesystem::path& from) {
    const nlohmann::json settings{{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"extra_ids", 0}};
    load(std::move(model), from);
    add_specials(settings);
    knows_bytes_ = has_bytes();
    finish(settings, from);
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids;
    append_with_special(text, special_, ids, [&](std::string_view plain) { encode_plain(plain, ids); });
    ids.push_back(end_id_);
    return ids;
  }

 private:
  void finish(const nlohmann::json& settings, const std::filesystem::path& place) {
    num_ids_ = pieces_.GetPieceSize();  // tokens <extra_id_N> behind them occur in no caption
    end_id_ = id_of(special_token(settings, "eos_token", "</s>"), place);
    pad_id_ = id_of(special_token(settings, "pad_token", "<pad>"), place);
    model_max_length_ = max_length(settings);
  }

  bool has_bytes() const { return pieces_.IsByte(pieces_.PieceToId("<0x00>")); }

  void load(std::string bytes, const std::filesystem::path& path) {
    charsmap_.emplace(bytes);
    if (auto status = pieces_.LoadFromSerializedProto(bytes); !status.ok())
      data_error("tokenizers", "{} is not a SentencePiece model: {}", path.string(), status.ToString());
  }

  /// Special tokens of a model whose file does not list them.
  void add_specials(const nlohmann::json& settings) {
    for (const char* name : {"eos_token", "unk_token", "pad_token"}) {
      auto text = special_token(settings, name, "");
      if (!text.empty()) special_.emplace_back(text, pieces_.PieceToId(text));
    }
    auto extra = num_extra_ids(settings);
    for (int64_t i = 0; i < extra; ++i) special_.emplace_back(fmt::format("<extra_id_{}>", i), pieces_.GetPieceSize() + extra - 1 - i);
  }

  int64_t id_of(const std::string& token, const std::filesystem::path& folder) const {
    for (const auto& [text, id] : special_) {
      if (text == token) return id;
    }
    auto id = pieces_.PieceToId(token);
    if (pieces_.IsUnknown(id)) data_error("tokenizers", "the vocabulary in {} lacks the special token '{}'", folder.string(), token);
    return id;
  }

  void encode_plain(std::string_view text, std::vector<int64_t>& ids) const {
    auto normal = tidied(charsmap_->apply(text), any_white_space_);
    std::vector<int> found;
    if (auto status = pieces_.Encode(normal, &found); !status.ok()) data_error("tokenizers", "cannot tokenize: {}", status.ToString());
    // Without byte_fallback in tokenizer.json transformers knows no byte pieces: a run of them is one unknown token, as any unknown text
    // is.
    for (size_t i = 0; i < found.size(); ++i) {
      if (knows_bytes_ || !pieces_.IsByte(found[i])) ids.push_back(found[i]);
      else if (i == 0 || !pieces_.IsByte(found[i - 1])) ids.push_back(pieces_.unk_id());
    }
  }

  std::optional<Charsmap> charsmap_;
  sentencepiece::SentencePieceProcessor pieces_;
  std::vector<SpecialToken> special_;
  bool any_white_space_ = true;
  bool knows_bytes_ = false;  ///< whether text that no piece knows becomes its bytes
};

}  // namespace

std::unique_ptr<Tokenizer> load_t5(const std::filesystem::path& folder) { return std::make_unique<T5Tokenizer>(folder); }

std::unique_ptr<Tokenizer> t5_of_bytes(std::string model, const std::filesystem::path& from) {
  return std::make_unique<T5Tokenizer>(std::move(model), from);
}

}  // namespace burnish::tokenizers
