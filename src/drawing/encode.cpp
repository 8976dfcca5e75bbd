#include "drawing/encode.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "base/text.h"

namespace burnish::drawing {

namespace {

/// Every prompt that is read, once, in the order of the pictures.
std::vector<std::string> prompts_of(const std::vector<Picture>& pictures) {
  std::vector<std::string> prompts;
  auto add = [&](const std::string& prompt) {
    if (!contains(prompts, prompt)) prompts.push_back(prompt);
  };
  for (const auto& picture : pictures) add(picture.prompt);
  for (const auto& picture : pictures) {
    if (picture.is_guided()) add(picture.negative_prompt);
  }
  return prompts;
}

}  // namespace

std::optional<Encoded> encode(loras::Loader& loader, const std::vector<Picture>& pictures, const std::function<bool()>& goes_on) {
  at::NoGradGuard no_grad;
  auto prompts = prompts_of(pictures);
  Encoded encoded;
  for (const auto& unit : loader.model().units().encode_prompt) {
    auto loaded = loader.load({unit});
    for (const auto& prompt : prompts) {
      if (goes_on && !goes_on()) return std::nullopt;
      auto& values = encoded[prompt];
      values["prompt"] = prompt;
      pipeline::run({unit}, values);
    }
  }
  auto read = loader.model().prompt_values();
  for (auto& [prompt, values] : encoded) std::erase_if(values, [&](const auto& value) { return !contains(read, value.first); });
  return encoded;
}

pipeline::Values stack_prompts(const models::Model& model, const Encoded& encoded, const std::vector<std::string>& prompts) {
  pipeline::Values values;
  for (const auto& name : model.prompt_values()) {
    std::vector<at::Tensor> rows;
    for (const auto& prompt : prompts) rows.push_back(std::get<at::Tensor>(encoded.at(prompt).at(name)));
    values[name] = at::cat(rows, 0);
  }
  return values;
}

pipeline::Values negative_of(const models::Model& model, const Encoded& encoded, const std::string& prompt,
                             const pipeline::Values& positive) {
  auto values = positive;
  bool zeros = prompt.empty() && model.zeros_for_no_prompt();
  for (const auto& name : model.prompt_values()) {
    const auto& of_positive = std::get<at::Tensor>(positive.at(name));
    values[name] = zeros ? at::zeros_like(of_positive) : std::get<at::Tensor>(encoded.at(prompt).at(name)).expand_as(of_positive);
  }
  return values;
}

pipeline::Values encode_size(const pipeline::Units& units, const Picture& picture, int64_t count, c10::Device device) {
  if (units.empty()) return {};
  auto height = static_cast<float>(picture.height), width = static_cast<float>(picture.width);
  auto row = at::tensor({height, width, 0.0f, 0.0f, height, width}).unsqueeze(0);
  pipeline::Values values{{"size_conditioning", row.expand({count, 6}).to(device)}};
  pipeline::run(units, values);
  return values;
}

}  // namespace burnish::drawing
