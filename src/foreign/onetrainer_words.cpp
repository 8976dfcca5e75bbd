#include "foreign/onetrainer_words.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

namespace burnish::foreign::of_onetrainer {

namespace {

static const char* const kToTheEnd = "vectors are kept in fp32 and train to the end of the run";

static bool has_words(const Settings& all) { return is_embedding(all) || all.on(kWordBeside); }
static bool has_one_word(const Settings& all) { return has_words(all) && !all.on(kSeveralWords); }

/// The words of a run in OneTrainer's order (TrainConfig.all_embedding_configs), by the names that they have there.
static std::vector<std::pair<std::string, Value>> words_in(const Value& tree) {
  std::vector<std::pair<std::string, Value>> words;
  const auto additional = tree.value("additional_embeddings", Value::array());
  for (size_t i = 0; additional.is_array() && i < additional.size(); ++i) {
    if (additional[i].is_object()) words.emplace_back(fmt::format("additional_embeddings[{}]", i), additional[i]);
  }
  if (tree.value("training_method", Value("")) == "EMBEDDING") words.emplace_back("embedding", tree.value("embedding", Value::object()));
  return words;
}

static void add_word(OptionFile& tables, const Value& word) {
  tables.add_table();
  tables.set("embedding_token", text_of(word.value("placeholder", Value("<embedding>"))));
  const auto file = text_of(word.value("model_name", Value("")));
  if (!file.empty()) {
    tables.set("embedding_checkpoint", config::seen_from(file, std::filesystem::current_path()));
  } else {
    tables.set("embedding_length", static_cast<int64_t>(number_of(word.value("token_count", Value(1))).value_or(1)));
    tables.set("embedding_init", text_of(word.value("initial_embedding_text", Value("*"))));
  }
  if (word.value("is_output_embedding", false)) tables.set("embedding_output", true);
}

}  // namespace

bool is_embedding(const Settings& all) { return all.text("training_method") == "EMBEDDING"; }

void put_words(Value& tree, Arranged& arranged) {
  auto words = words_in(tree);
  std::erase_if(words, [&](const auto& word) {
    if (word.second.value("train", true) || word.first == "embedding") return false;
    arranged.not_carried.push_back(word.first + ".train = false: all words of a run train; lr_groups gives one the rate 0");
    return true;
  });
  tree.erase("additional_embeddings");
  if (words.empty()) return;
  if (tree.value("training_method", Value("")) != "EMBEDDING") tree[kWordBeside] = true;
  if (words.size() == 1) {
    tree["embedding"] = words.front().second;
    return;
  }
  tree[kSeveralWords] = true;
  tree.erase("embedding");
  OptionFile tables{"embedding_config", "embeddings", "# Words that train, by `burnish import`.\n", "additional_embeddings"};
  for (const auto& [name, word] : words) {
    add_word(tables, word);
    if (text_of(word.value("stop_training_after_unit", Value("NEVER"))) != "NEVER")
      arranged.not_carried.push_back(name + ".stop_training_after: " + kToTheEnd);
  }
  arranged.option_files.push_back(std::move(tables));
}

std::vector<SettingRow> embedding_rows() {
  Table table;
  auto of_word = only(has_one_word, same_value);
  auto of_words = only(has_words, same_value);
  table << rewritten("embedding.placeholder", "embedding_token", of_word, "<embedding>")
        << rewritten(
               "embedding.token_count", "embedding_length",
               [](const Value& value, const Settings& all) {
                 return has_one_word(all) && !all.on("embedding.model_name") ? carried(value) : left_out("");
               },
               1)
        << rewritten("embedding.initial_embedding_text", "embedding_init", of_word, "*")
        << rewritten("embedding.is_output_embedding", "embedding_output", of_word, false)
        << rewritten("preserve_embedding_norm", "embedding_keep_norm", of_words, false)
        << rewritten("embedding.model_name", "embedding_checkpoint",
                     [](const Value& value, const Settings& all) {
                       return has_one_word(all) && asks_for_something(value) ? carried(value) : left_out("");
                     })
        << rewritten("embedding_learning_rate", "embedding_learning_rate", [](const Value& value, const Settings& all) {
             return has_words(all) && asks_for_something(value) ? carried(value) : left_out("");
           });
  table << rewritten("training_method", "embedding_format",
                     [](const Value&, const Settings& all) { return is_embedding(all) ? carried("onetrainer") : left_out(""); });
  table << rewritten("bundle_additional_embeddings", "embedding_bundle", [](const Value& value, const Settings& all) {
             return all.on(kWordBeside) && all.text("training_method") == "LORA" ? carried(asks_for_something(value)) : left_out("");
           }).otherwise(true);
  for (const char* encoder : {"text_encoder", "text_encoder_2", "text_encoder_3", "text_encoder_4"}) {
    table << rewritten(
        std::string(encoder) + ".train_embedding", "",
        [](const Value& value, const Settings& all) {
          const bool is_told = is_embedding(all) && !asks_for_something(value);
          return left_out(is_told ? "embedding_models names the encoders whose vectors train" : "");
        },
        true);
  }
  return table.rows;
}

}  // namespace burnish::foreign::of_onetrainer
