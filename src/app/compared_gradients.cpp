#include "app/compared_gradients.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "app/named_samples.h"
#include "base/count.h"

namespace burnish::app {

std::string text_of(const train::ComparedGradients& compared, int64_t most) {
  constexpr int kWidth = 8;
  auto text = fmt::format("{}; in the middle what a picture teaches agrees with what the others teach by {:.3f} (1: all teach the same)\n",
                          count_of(std::ssize(compared.samples), "sample"), compared.usual);
  text +=
      "\npictures that pull elsewhere, by how many times what is usual here: wrong captions, damaged pictures and those of another set\n"
      "are among them, and pictures of which there is only one\n";
  return text + named_samples(
                    compared.samples, most, kWidth, [&](const auto& sample) { return compared.pulls_elsewhere(sample); },
                    [&](const auto& sample) { return fmt::format("{:.2f}", sample.stray() / compared.usual_stray); });
}

std::string json_of(const train::ComparedGradients& compared) {
  auto list = nlohmann::json::array();
  for (const auto& sample : compared.samples)
    list.push_back({{"row", sample.row},
                    {"file", sample.file},
                    {"caption", sample.caption},
                    {"agreement", sample.agreement},
                    {"length", sample.length},
                    {"stray", sample.stray() / compared.usual_stray},
                    {"pulls_elsewhere", compared.pulls_elsewhere(sample)}});
  return nlohmann::json{{"usual", compared.usual}, {"samples", list}}.dump(2) + "\n";
}

}  // namespace burnish::app
