#include "train/options/embedding_options.h"

#include <algorithm>
#include <deque>
#include <set>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::train {

namespace {

constexpr int64_t kMostWordTokens = 64;  ///< more leave no room beside it in what CLIP reads

void word_fields(config::Fields& f, WordOptions& o) {
  f("embedding_token", o.token,
    "textual inversion: a word of the captions, <cat> say, whose vectors in CLIP and T5 text encoders train, alone or beside what "
    "lora_base_model and trainable_models name (docs/embeddings.md)");
  f("embedding_length", o.length, "tokens, and so vectors, that the word is read as").at_least(1).at_most(kMostWordTokens).in("tokens");
  f("embedding_init", o.init, "words whose tokens' vectors the word begins with, in turn where it has more");
  f.path("embedding_checkpoint", o.checkpoint, "file whose vectors the word begins with, in place of embedding_init's");
  f("embedding_models", o.models, "comma list of the text encoders whose vectors train; empty takes all that the model has");
  f("embedding_learning_rate", o.learning_rate, "learning rate of the vectors; 0 takes learning_rate").at_least(0);
  f("embedding_output", o.output,
    "the vectors stand in the place of what the encoders make of the word, and not of what they read: encoders stay as they are, and are "
    "run once for every caption")
      .decides_what_is_learned();
}

/// The words of a run, each with all that it begins with.
std::deque<WordOptions> words_of(const EmbeddingOptions& o) {
  if (o.config.empty()) return o.word.token.empty() ? std::deque<WordOptions>() : std::deque{o.word};
  std::deque<WordOptions> read;
  config::read_toml_items(o.config, "embeddings", "", [&] {
    config::Fields f;
    word_fields(f, read.emplace_back(o.word));
    return f;
  });
  if (read.empty()) config_error("train", "{} holds no [[embeddings]]", o.config);
  return read;
}

void check_word(const EmbeddingOptions& o, WordOptions word, config::Problems& problems) {
  config::Fields listed;
  word_fields(listed, word);
  config::Problems of_values(listed);
  of_values.check_values();
  of_values.refuse("train");
  if (word.token.empty()) problems.add("embedding_config {} has a table without embedding_token; name its word there", o.config);
  if (word.token.find_first_of(" \t\r\n") != word.token.npos)
    problems.add("embedding_token '{}' has white space in it, and is to be one word; write <{}>, say", word.token, "my-word");
  if (!word.checkpoint.empty() && word.length > 1)
    problems.add("embedding_length says how many vectors are made, and embedding_checkpoint has some; take one of them out");
}

}  // namespace

void fields(config::Fields& f, EmbeddingOptions& o) {
  word_fields(f, o.word);
  f.path("embedding_config", o.config,
         "TOML file of several words that train: an [[embeddings]] table each, of the options above, which begins as the run's");
  f("embedding_keep_norm", o.keep_norm, "after every update vectors are brought to the median norm of the vocabulary's")
      .decides_what_is_learned();
  f("embedding_format", o.format, "names in the vectors' file where the model has one text encoder: a1111, onetrainer or diffusers")
      .one_of({"a1111", "onetrainer", "diffusers"});
  f("embedding_bundle", o.bundle, "write the vectors into the adapter's file, as bundle_emb");
  for (const char* name : {"embedding_length", "embedding_init", "embedding_checkpoint", "embedding_models", "embedding_learning_rate",
                           "embedding_output", "embedding_keep_norm", "embedding_format", "embedding_bundle"})
    f.row(name).counts_when("embedding_token or embedding_config", [&o] { return o.has_words(); });
}

void check(const EmbeddingOptions& o, bool trains_adapters, config::Problems& problems) {
  if (!o.word.token.empty() && !o.config.empty())
    problems.add("embedding_token names a word, and embedding_config all of them; put the word into that file, or take the file out");
  const auto words = words_of(o);
  std::set<std::string> seen;
  for (const auto& word : words) {
    check_word(o, word, problems);
    if (!seen.insert(word.token).second)
      problems.add("embedding_config {} has two tables of '{}'; take one of them out", o.config, word.token);
  }
  if (o.keep_norm && !words.empty() && std::ranges::all_of(words, &WordOptions::output))
    problems.add("embedding_keep_norm goes by the vocabulary's vectors, and embedding_output trains others; take one of them out");
  if (o.bundle && !trains_adapters)
    problems.add("embedding_bundle writes the vectors into an adapter's file, and this run trains none; name one in lora_base_model");
}

WordsSettings words_settings(const EmbeddingOptions& o) {
  WordsSettings s{.keeps_norm = o.keep_norm, .layout = loras::parse_embedding_layout(o.format), .is_bundled = o.bundle};
  for (const auto& word : words_of(o))
    s.list.push_back({.text = word.token,
                      .num_tokens = word.length,
                      .init = word.init,
                      .file = word.checkpoint,
                      .encoders = split_list(word.models),
                      .learning_rate = word.learning_rate,
                      .is_output = word.output});
  return s;
}

}  // namespace burnish::train
