#include "loras/embedding_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/choice.h"
#include "base/count.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"

namespace burnish::loras {

namespace fs = std::filesystem;

namespace {

const std::string kWebUi = "emb_params", kOneTrainer = "emp_params", kPickled = "string_to_param.*";

const models::TokenizerRecipe& recipe_of(const models::Model& model, const std::string& encoder) {
  return *model.components().find(encoder)->tokenizer;
}

int64_t width_of(const models::Model& model, const std::string& encoder) {
  const auto& components = model.components();
  return models::token_table(*components.skeleton(encoder), *components.find(encoder)).weight.size(1);
}

bool is_unnamed(const std::string& name) { return name == kWebUi || name == kOneTrainer || name == kPickled; }

/// Tells whether files that hold vectors of words alone call them so.
bool is_known(const std::string& name) { return is_unnamed(name) || name == "clip_l" || name == "clip_g" || name == "t5"; }

/// A tensor by its name without what says the word.
WordTensor named(const std::string& tensor, std::string name) {
  WordTensor found{.tensor = tensor, .word = "", .name = std::move(name)};
  found.are_states = found.name.ends_with(kStatesEnding);
  if (found.are_states) found.name.resize(found.name.size() - kStatesEnding.size());
  if (is_unnamed(found.name)) found.name.clear();
  return found;
}

/// A tensor that is bundled in a LoRA file: what a word is called may have dots in it.
WordTensor bundled(const std::string& tensor) {
  const auto rest = tensor.substr(kBundled.size());
  const auto dot = rest.ends_with("." + kPickled) ? rest.size() - kPickled.size() - 1 : rest.rfind('.');
  if (dot == rest.npos) return named(tensor, rest);
  auto found = named(tensor, rest.substr(dot + 1));
  found.word = rest.substr(0, dot);
  return found;
}

/// Reads the words of one file.
class Reading {
 public:
  Reading(const models::Model& model, const EmbeddingFile& file)
      : model_(model), file_(file), source_(io::TensorSource::open({file.path})), encoders_(word_encoders(model)) {
    if (encoders_.empty())
      config_error("loras", "{} holds vectors of a word for CLIP or T5, and this model has no such text encoder", file.path);
  }

  WordsByEncoder words() {
    auto tensors = word_tensors(source_, file_.path);
    if (tensors.empty())
      data_error("loras", "{} holds no vectors of words: it is no embedding, and no LoRA file with one in it", file_.path);
    if (!file_.word.empty()) take_word(tensors, file_);
    for (const auto& tensor : tensors) add(tensor);
    complete();
    return std::move(words_);
  }

 private:
  void add(const WordTensor& found) {
    auto vectors = source_.tensor(found.tensor).to(at::kFloat);
    if (vectors.dim() == 1) vectors = vectors.unsqueeze(0);
    if (vectors.dim() != 2 || vectors.numel() == 0)
      data_error("loras", "{}: '{}' has the shape [{}], and vectors of a word are [tokens, width]; the file is damaged", file_.path,
                 found.tensor, fmt::join(vectors.sizes(), ", "));
    auto& known = words_[encoder_of(found, vectors.size(1))];
    auto it = std::ranges::find(known, found.word, &models::Word::text);
    auto& entry = it == known.end() ? known.emplace_back(models::Word{.text = found.word, .vectors_NE = {}}) : *it;
    (found.are_states ? entry.states_NE : entry.vectors_NE) = vectors.clone();
  }

  /// Finds the encoder by its name, or else by the width of the vectors.
  std::string encoder_of(const WordTensor& found, int64_t width) const {
    std::vector<std::string> fitting, expected;
    for (const auto& encoder : encoders_) {
      const auto& name = recipe_of(model_, encoder).vectors;
      expected.push_back(fmt::format("{} of {} numbers a vector", name, width_of(model_, encoder)));
      if (width_of(model_, encoder) == width && (found.name.empty() || found.name == name)) fitting.push_back(encoder);
    }
    if (fitting.size() == 1) return fitting.front();
    data_error("loras",
               "{}: '{}' has {} numbers a vector and is for {} text encoders of this model, which reads {}; it is for another model",
               file_.path, found.tensor, width, fitting.size(), join(expected));
  }

  /// A word that has states alone takes part in what an encoder makes of the others by vectors of zeros, as OneTrainer has it.
  void complete() {
    for (auto& [encoder, words] : words_) {
      for (auto& word : words) {
        if (!word.vectors_NE.defined()) word.vectors_NE = word.states_NE.new_zeros({word.states_NE.size(0), width_of(model_, encoder)});
        if (word.states_NE.defined() && word.states_NE.size(0) != word.vectors_NE.size(0))
          data_error("loras", "{}: '{}' has {} vectors and {} states for {}, and needs as many; the file is damaged", file_.path, word.text,
                     word.vectors_NE.size(0), word.states_NE.size(0), encoder);
      }
    }
  }

  const models::Model& model_;
  const EmbeddingFile& file_;
  io::TensorSource source_;
  std::vector<std::string> encoders_;
  WordsByEncoder words_;
};

}  // namespace

EmbeddingLayout parse_embedding_layout(std::string_view name) {
  static const std::vector<std::string> kNames{"a1111", "onetrainer", "diffusers"};
  const auto it = std::ranges::find(kNames, name);
  if (it == kNames.end()) unknown_choice("loras", "embedding_format", name, kNames);
  return static_cast<EmbeddingLayout>(it - kNames.begin());
}

EmbeddingFile parse_embedding_file(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == text.npos || fs::exists(text)) return {text};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

void take_word(std::vector<WordTensor>& tensors, const EmbeddingFile& file) {
  std::set<std::string> words;
  for (const auto& tensor : tensors) words.insert(tensor.word);
  if (words.size() > 1) {
    if (!words.contains(file.word))
      data_error("loras", "{} holds vectors of {}, and none of '{}'; name one of these words", file.path,
                 join(std::vector<std::string>(words.begin(), words.end())), file.word);
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.word != file.word; });
  }
  for (auto& tensor : tensors) tensor.word = file.word;
}

WordsByEncoder read_words(const models::Model& model, const EmbeddingFile& file) { return Reading(model, file).words(); }

void give_words(models::Model& model, const std::vector<EmbeddingFile>& files) {
  WordsByEncoder all;
  for (const auto& file : files) {
    for (auto& [encoder, words] : read_words(model, file)) {
      for (auto& word : words) {
        info("{}: {} is {} of {}", file.path, word.text, count_of(word.vectors_NE.size(0), "vector"), encoder);
        if (std::ranges::find(all[encoder], word.text, &models::Word::text) != all[encoder].end())
          config_error("loras", "{} and a file before it both hold vectors of '{}'; call one of them otherwise, as FILE:WORD", file.path,
                       word.text);
        word.vectors_NE = word.vectors_NE.to(model.device());
        if (word.states_NE.defined()) word.states_NE = word.states_NE.to(model.device());
        all[encoder].push_back(std::move(word));
      }
    }
  }
  for (auto& [encoder, words] : all) model.components().set_words(encoder, std::move(words));
}

std::vector<WordTensor> word_tensors(const io::TensorSource& source, const std::string& path) {
  auto names = source.names();
  std::erase_if(names, [](const auto& name) { return name.starts_with("string_to_token."); });  // where its tokens stood in a vocabulary
  const auto metadata = source.metadata();
  const auto said = metadata.find(kEmbeddingKey);
  const bool is_said = said != metadata.end() && !said->second.empty();
  auto is_bundled = [](const auto& name) { return name.starts_with(kBundled); };
  const bool bundles = std::ranges::any_of(names, is_bundled);
  std::vector<WordTensor> found;
  for (const auto& name : names) {
    if (bundles && !is_bundled(name)) continue;
    auto& tensor = found.emplace_back(bundles ? bundled(name) : named(name, name));
    const bool names_word = !bundles && !tensor.name.empty() && !is_known(tensor.name);  // as diffusers has it
    if (names_word && names.size() > (tensor.are_states ? 2 : 1) && !is_said) return {};
    if (names_word) tensor.word = std::exchange(tensor.name, "");
    if (is_said && !bundles) tensor.word = said->second;
    if (tensor.word.empty()) tensor.word = fs::path(path).stem().string();
  }
  return found;
}

std::string single_name(const std::string& word, EmbeddingLayout layout) {
  if (layout == EmbeddingLayout::diffusers) return word;
  return layout == EmbeddingLayout::onetrainer ? kOneTrainer : kWebUi;
}

std::string tensor_name(const models::Model& model, const std::string& encoder, const std::string& word, EmbeddingLayout layout) {
  return word_encoders(model).size() > 1 ? recipe_of(model, encoder).vectors : single_name(word, layout);
}

std::string bundled_name(const models::Model& model, const std::string& encoder, const std::string& word) {
  return kBundled + word + "." + recipe_of(model, encoder).vectors;
}

std::vector<std::string> word_encoders(const models::Model& model) {
  std::vector<std::string> encoders;
  for (const auto& component : model.components().list()) {
    const auto* recipe = model.components().find(component.name);
    if (recipe->tokenizer && !recipe->tokenizer->table.empty()) encoders.push_back(component.name);
  }
  return encoders;
}

}  // namespace burnish::loras
