// T5's tokenizer: a SentencePiece unigram model; ids of the text, then </s>.
#include <sentencepiece_processor.h>

#include <optional>

#include "base/error.h"
#include "io/files.h"
#include "tokenizers/charsmap.h"
#include "tokenizers/special_tokens.h"
#include "tokenizers/tokenizer.h"

namespace burnish::tokenizers {

namespace {

class T5Tokenizer : public Tokenizer {
 public:
  explicit T5Tokenizer(const std::filesystem::path& folder) {
    auto path = folder / "spiece.model";
    if (!std::filesystem::exists(path)) data_error("tokenizers", "no T5 tokenizer in {}: expected spiece.model", folder.string());
    auto bytes = io::read_text(path);
    charsmap_.emplace(bytes);
    if (auto status = pieces_.LoadFromSerializedProto(bytes); !status.ok())
      data_error("tokenizers", "{} is not a SentencePiece model: {}", path.string(), status.ToString());
    auto settings = read_settings(folder);
    end_text_ = special_token(settings, "eos_token", "</s>");
    end_id_ = pieces_.PieceToId(end_text_);
    pad_id_ = pieces_.PieceToId(special_token(settings, "pad_token", "<pad>"));
    model_max_length_ = max_length(settings);
    for (const char* name : {"eos_token", "unk_token", "pad_token"}) {
      auto text = special_token(settings, name, "");
      if (!text.empty()) special_.emplace_back(text, pieces_.PieceToId(text));
    }
    auto extra = settings.value("extra_ids", 100);
    for (int i = 0; i < extra; ++i) special_.emplace_back(fmt::format("<extra_id_{}>", i), pieces_.GetPieceSize() + extra - 1 - i);
  }

  std::vector<int64_t> encode(std::string_view text) const override {
    std::vector<int64_t> ids;
    while (true) {
      auto [at, token] = next_special(text);
      encode_plain(text.substr(0, at), ids);
      if (token == nullptr) break;
      ids.push_back(token->second);
      text.remove_prefix(at + token->first.size());
    }
    ids.push_back(end_id_);
    return ids;
  }

 private:
  using Special = std::pair<std::string, int64_t>;

  std::pair<size_t, const Special*> next_special(std::string_view text) const {
    size_t first = std::string_view::npos;
    const Special* found = nullptr;
    for (const auto& token : special_) {
      auto at = text.find(token.first);
      if (at < first) {
        first = at;
        found = &token;
      }
    }
    return {first, found};
  }

  void encode_plain(std::string_view text, std::vector<int64_t>& ids) const {
    // transformers splits at Unicode white space after normalising; NEL is the one such character the map keeps.
    auto normal = charsmap_->apply(text);
    for (size_t at; (at = normal.find("\xC2\x85")) != std::string::npos;) normal.erase(at, 1)[at] = ' ';
    std::vector<int> found;
    if (auto status = pieces_.Encode(normal, &found); !status.ok()) data_error("tokenizers", "cannot tokenize: {}", status.ToString());
    // transformers knows no byte pieces in a T5 vocabulary: a run of them is one unknown token, as any unknown text is.
    for (size_t i = 0; i < found.size(); ++i) {
      if (!pieces_.IsByte(found[i])) ids.push_back(found[i]);
      else if (i == 0 || !pieces_.IsByte(found[i - 1])) ids.push_back(pieces_.unk_id());
    }
  }

  std::optional<Charsmap> charsmap_;
  sentencepiece::SentencePieceProcessor pieces_;
  std::string end_text_;
  std::vector<Special> special_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_t5(const std::filesystem::path& folder) { return std::make_unique<T5Tokenizer>(folder); }

}  // namespace burnish::tokenizers
