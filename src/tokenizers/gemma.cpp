#include "tokenizers/gemma.h"

#include <sentencepiece_processor.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "tokenizers/bpe_json.h"
#include "tokenizers/special_tokens.h"

namespace burnish::tokenizers {

namespace {

class GemmaTokenizer : public Tokenizer {
 public:
  GemmaTokenizer(const std::string& model, const nlohmann::json& settings, const std::filesystem::path& from) {
    if (auto status = pieces_.LoadFromSerializedProto(model); !status.ok())
      data_error("tokenizers", "{} is not a SentencePiece model: {}", from.string(), status.ToString());
    if (!pieces_.IsByte(pieces_.PieceToId("<0x00>")))
      data_error("tokenizers", "the vocabulary in {} has no bytes for texts that it does not know, as Gemma's has", from.string());
    auto id_of = [&](const char* name, const char* fallback) {
      const auto token = special_token(settings, name, fallback);
      const auto id = pieces_.PieceToId(token);
      if (pieces_.IsUnknown(id)) data_error("tokenizers", "the vocabulary in {} lacks the special token '{}'", from.string(), token);
      return id;
    };
    // Control pieces stand for themselves in a text, as transformers' special tokens do; SentencePiece takes them to pieces.
    for (int id = 0; id < pieces_.GetPieceSize(); ++id) {
      if (pieces_.IsControl(id) || pieces_.IsUnknown(id)) special_.emplace_back(pieces_.IdToPiece(id), id);
    }
    begin_ = id_of("bos_token", "<bos>");
    pad_id_ = id_of("pad_token", "<pad>");
    end_id_ = -1;
    num_ids_ = pieces_.GetPieceSize();
    model_max_length_ = max_length(settings);
    pads_first_ = true;
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids{begin_};
    append_with_special(text, special_, ids, [&](std::string_view plain) {
      std::vector<int> found;
      if (auto status = pieces_.Encode({plain.data(), plain.size()}, &found); !status.ok())
        data_error("tokenizers", "cannot tokenize: {}", status.ToString());
      ids.insert(ids.end(), found.begin(), found.end());
    });
    return ids;
  }

 private:
  sentencepiece::SentencePieceProcessor pieces_;
  std::vector<SpecialToken> special_;
  int64_t begin_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> load_gemma(const std::filesystem::path& folder) {
  const auto model = folder / "tokenizer.model", json = folder / "tokenizer.json";
  if (!io::is_there(model) && !io::is_there(json))
    data_error("tokenizers", "no Gemma tokenizer in {}: expected tokenizer.model or tokenizer.json", folder.string());
  return io::is_there(model) ? std::make_unique<GemmaTokenizer>(io::read_text(model), read_settings(folder), model)
                             : std::make_unique<GemmaTokenizer>(model_of_bpe_json(io::read_json(json), json), read_settings(folder), json);
}

std::unique_ptr<Tokenizer> gemma_of_bytes(const std::string& bytes, const std::filesystem::path& from) {
  const auto settings = nlohmann::json::object();
  if (!bytes.starts_with('{')) return std::make_unique<GemmaTokenizer>(bytes, settings, from);
  const auto json = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  return std::make_unique<GemmaTokenizer>(model_of_bpe_json(json, from), settings, from);
}

}  // namespace burnish::tokenizers
