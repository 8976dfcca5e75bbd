#include "foreign/ai_toolkit_words.h"

#include <algorithm>

namespace burnish::foreign {

namespace {

constexpr double kTokens = 4;  ///< unless it is given

/// The words that a word begins with there: what of its tokens they do not reach begins as *.
Outcome beginning(const Value& value, const Settings& all) {
  if (!has_ai_toolkit_word(all)) return left_out("");
  auto words = text_of(value);
  const auto num_tokens = static_cast<int>(std::clamp(all.number("embedding.tokens").value_or(kTokens), 1.0, 64.0));
  for (int i = 1; words != "*" && i < num_tokens; ++i) words += " *";
  return carried(words);
}

}  // namespace

bool has_ai_toolkit_word(const Settings& all) { return all.has("embedding.trigger"); }

void put_ai_toolkit_word(Value& process, Arranged& arranged) {
  const auto word = process.find("embedding");
  if (word == process.end() || !word->is_object()) return;
  word->emplace("trigger", "custom_embedding");
  const auto trigger = word->at("trigger"), given = process.value("trigger_word", Value());
  if (!asks_for_something(given)) process["trigger_word"] = trigger;
  else if (given != trigger)
    arranged.not_carried.emplace_back("embedding.trigger: trigger_word alone is put into captions; write the word into them, too");
}

std::vector<SettingRow> ai_toolkit_word_rows() {
  const std::string rate = "train.embedding_lr";
  auto of_word = only(has_ai_toolkit_word, same_value);
  auto of_word_if = [](bool is_beside) -> Convert {
    return [=](const Value& value, const Settings& all) {
      return has_ai_toolkit_word(all) && all.has("network.type") == is_beside ? carried(value) : left_out("");
    };
  };
  return {rewritten("embedding.trigger", "embedding_token", of_word),
          rewritten("embedding.tokens", "embedding_length", of_word, kTokens),
          rewritten("embedding.init_words", "embedding_init", beginning, "*"),
          rewritten(
              "embedding.save_format", "",
              [](const Value& value, const Settings&) { return left_out(text_of(value) == "safetensors" ? "" : "files are safetensors"); })
              .otherwise("safetensors"),
          rewritten(rate, "embedding_learning_rate", of_word_if(true)),
          rewritten(rate, "learning_rate", of_word_if(false))};
}

}  // namespace burnish::foreign
