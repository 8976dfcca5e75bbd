#include "models/families/qwen_image/editing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "models/parts/find_components.h"

namespace burnish::models::qwen_image {

namespace {

struct NamingWord {
  const char* word;
  Naming naming;
};
constexpr std::array<NamingWord, 3> kNamings{{{"by_count", Naming::by_count}, {"plain", Naming::plain}, {"numbered", Naming::numbered}}};

const tokenizers::ChatTemplate kEditChat{
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, background), then explain how "
    "the user's text instruction should alter or modify the image. Generate a new image that meets the user's requirements while "
    "maintaining consistency with the original input where appropriate.<|im_end|>\n<|im_start|>user\n",
    "<|im_end|>\n<|im_start|>assistant\n"};

/// Writes what stands for pictures, before the prompt.
std::string told_pictures(bool numbered, size_t count) {
  std::string told;
  for (size_t i = 1; i <= count; ++i) told += (numbered ? fmt::format("Picture {}: ", i) : "") + kPictureInText;
  return told;
}

}  // namespace

std::string word_of(Naming naming) {
  for (const auto& [word, of] : kNamings) {
    if (of == naming) return word;
  }
  throw std::logic_error("a way to tell of reference pictures without a word");
}

std::optional<Naming> published_naming(const ModelFiles& files) {
  const auto name = pipeline_class(files);
  if (name == "QwenImageEditPipeline") return Naming::plain;
  if (name == "QwenImageEditPlusPipeline") return Naming::numbered;
  return std::nullopt;
}

Naming naming_of(const std::string& word, const ModelFiles& files) {
  for (const auto& [known, naming] : kNamings) {
    if (word == known) return naming;
  }
  return published_naming(files).value_or(Naming::by_count);
}

std::vector<std::string> namings() {
  std::vector<std::string> words{"auto"};
  for (const auto& [word, naming] : kNamings) words.emplace_back(word);
  return words;
}

bool is_numbered(Naming naming, size_t count) {
  if (naming == Naming::plain && count > 1)
    data_error("models",
               "a row or a prompt has {} reference pictures, and this model's prompts tell of one; take the others out, or choose "
               "reference_prompt numbered",
               count);
  return naming == Naming::numbered || (naming == Naming::by_count && count > 1);
}

PictureText edit_text(const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt, const std::vector<at::Tensor>& seen,
                      bool numbered, int64_t limit) {
  return picture_text(tokenizer, kEditChat, {told_pictures(numbered, seen.size())}, prompt, seen, limit);
}

}  // namespace burnish::models::qwen_image
