#pragma once
#include <string>
#include <vector>

#include "config/problems.h"
#include "train/subject/settings.h"

namespace burnish::train {

/// Options of a word whose vectors train: the run's, and those of each word of an embedding_config, which begins with the run's.
struct WordOptions {
  std::string token, init = "*", checkpoint, models;
  int64_t length = 1;
  double learning_rate = 0;
  bool output = false;
};

/// Options of the words whose vectors train.
struct EmbeddingOptions {
  WordOptions word;
  std::string config, format = "a1111";
  bool keep_norm = false, bundle = false;

  bool has_words() const { return !word.token.empty() || !config.empty(); }
};
void fields(config::Fields& f, EmbeddingOptions& o);
/// Adds what contradicts itself, of every word. Throws the errors of config::read_toml_items.
void check(const EmbeddingOptions& o, bool trains_adapters, config::Problems& problems);

/// Returns the settings of the words: of the one that options say, or of those of embedding_config. Throws the errors of
/// config::read_toml_items, and a config Error for a file without words.
WordsSettings words_settings(const EmbeddingOptions& o);

}  // namespace burnish::train
