#include "convert/embedding.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/dtype.h"
#include "base/input_error.h"
#include "base/text.h"
#include "loras/embedding_file.h"

namespace burnish::convert {

bool is_embedding(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || !io::is_tensor_file(path)) return false;
  const auto source = io::TensorSource::open({path});
  const auto words = loras::word_tensors(source, path);
  return !words.empty() && words.size() == source.names().size();
}

std::string convert_embedding(const Options& o) {
  const auto file = loras::parse_embedding_file(o.paths.front());
  const auto& path = file.path;
  const auto source = io::TensorSource::open({path});
  auto tensors = loras::word_tensors(source, path);
  if (!file.word.empty()) loras::take_word(tensors, file);
  std::set<std::string> words, encoders;
  for (const auto& tensor : tensors) {
    words.insert(tensor.word);
    encoders.insert(tensor.name);
  }
  if (words.size() != 1)
    data_error("convert", "{} holds vectors of {}; a file of their own holds those of one word, which stands behind the file: FILE:WORD",
               path, words.empty() ? "no word" : join(std::vector<std::string>(words.begin(), words.end())));
  const auto layout = loras::parse_embedding_layout(o.embedding_format);
  io::NamedTensors written;
  for (const auto& tensor : tensors) {
    const auto name = encoders.size() > 1 ? tensor.name : loras::single_name(tensor.word, layout);
    const auto values = source.tensor(tensor.tensor);
    written.emplace_back(name + (tensor.are_states ? loras::kStatesEnding : ""),
                         o.dtype == "keep" ? values : values.to(parse_dtype(o.dtype)));
  }
  io::save_safetensors(o.paths.back(), written, {{"format", "pt"}, {loras::kEmbeddingKey, *words.begin()}});
  return fmt::format("{}: {}, {} vectors", o.paths.back(), *words.begin(), written.front().second.size(0));
}

}  // namespace burnish::convert
