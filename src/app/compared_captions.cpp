#include "app/compared_captions.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/shortened.h"

namespace burnish::app {

namespace {

/// Says a difference of logarithms as a share of the loss: "-35 %".
std::string percent(double difference) { return fmt::format("{:+.1f} %", 100 * (std::exp(difference) - 1)); }

}  // namespace

std::string text_of(const train::ComparedCaptions& compared, int64_t most) {
  constexpr size_t kShown = 60;  // of a caption
  auto text = fmt::format("{}; in the middle a picture's loss under its own caption lies {} beside that under others\n",
                          count_of(std::ssize(compared.samples), "sample"), percent(compared.usual));
  if (!compared.tells_apart())
    return text + "\nthis model foresees the pictures as well under each other's captions: it cannot tell which caption is wrong\n";
  text += "\ncaptions that say little of their picture: wrong ones are among these, and those whose words the model does not know\n";
  int64_t num = 0;
  for (const auto& sample : compared.samples) {
    if (!compared.says_little(sample) || ++num > most) continue;
    text += fmt::format("{:>10}  {}  \"{}\"\n", percent(sample.difference()), sample.file, shortened(sample.caption, kShown));
  }
  if (num > most) text += fmt::format("            and {} more\n", num - most);
  return num > 0 ? text : text + "            none\n";
}

std::string json_of(const train::ComparedCaptions& compared) {
  auto list = nlohmann::json::array();
  for (const auto& sample : compared.samples)
    list.push_back({{"row", sample.row},
                    {"file", sample.file},
                    {"caption", sample.caption},
                    {"difference", sample.difference()},
                    {"says_little", compared.says_little(sample)}});
  return nlohmann::json{{"usual", compared.usual}, {"tells_apart", compared.tells_apart()}, {"samples", list}}.dump(2) + "\n";
}

}  // namespace burnish::app
