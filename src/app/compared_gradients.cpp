#include "app/compared_gradients.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/shortened.h"

namespace burnish::app {

std::string text_of(const train::ComparedGradients& compared, int64_t most) {
  constexpr size_t kShown = 60;  // of a caption
  auto text = fmt::format("{}; in the middle what a picture teaches agrees with what the others teach by {:.3f} (1: all teach the same)\n",
                          count_of(std::ssize(compared.samples), "sample"), compared.usual);
  if (!compared.have_much_in_common())
    return text + "\nthese pictures have next to nothing in common for this model: it cannot tell which of them pulls elsewhere\n";
  text += "\npictures that pull elsewhere than the others: damaged ones, those of another set, and those of what is seldom here\n";
  int64_t num = 0;
  for (const auto& sample : compared.samples) {
    if (!compared.pulls_elsewhere(sample) || ++num > most) continue;
    text += fmt::format("{:>8.3f}  {}  \"{}\"\n", sample.agreement, sample.file, shortened(sample.caption, kShown));
  }
  if (num > most) text += fmt::format("          and {} more\n", num - most);
  return num > 0 ? text : text + "          none\n";
}

std::string json_of(const train::ComparedGradients& compared) {
  auto list = nlohmann::json::array();
  for (const auto& sample : compared.samples)
    list.push_back({{"row", sample.row},
                    {"file", sample.file},
                    {"caption", sample.caption},
                    {"agreement", sample.agreement},
                    {"length", sample.length},
                    {"pulls_elsewhere", compared.pulls_elsewhere(sample)}});
  return nlohmann::json{{"usual", compared.usual},
                        {"spread", compared.spread},
                        {"have_much_in_common", compared.have_much_in_common()},
                        {"samples", list}}
             .dump(2) +
         "\n";
}

}  // namespace burnish::app
