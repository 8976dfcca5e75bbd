#include "app/compared_captions.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "app/named_samples.h"
#include "base/count.h"

namespace burnish::app {

namespace {

/// Says a difference of logarithms as a share of the loss: "-35 %".
std::string percent(double difference) { return fmt::format("{:+.1f} %", 100 * (std::exp(difference) - 1)); }

}  // namespace

std::string text_of(const train::ComparedCaptions& compared, int64_t most) {
  constexpr int kWidth = 10;
  auto text = fmt::format("{}; in the middle a picture's loss under its own caption lies {} beside that under others\n",
                          count_of(std::ssize(compared.samples), "sample"), percent(compared.usual));
  if (!compared.tells_apart())
    return text + "\nthis model foresees the pictures as well under each other's captions: it cannot tell which caption is wrong\n";
  text += "\ncaptions that say little of their picture: wrong ones are among these, and those whose words the model does not know\n";
  return text + named_samples(
                    compared.samples, most, kWidth, [&](const auto& sample) { return compared.says_little(sample); },
                    [](const auto& sample) { return percent(sample.difference()); });
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
