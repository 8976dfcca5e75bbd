#include "app/what_trains.h"

#include <fmt/core.h>

#include <algorithm>

#include "app/first_run.h"
#include "base/text.h"
#include "config/command_line.h"
#include "train/options/fields.h"

namespace burnish::app {

namespace {

bool is_another_size(const Trainable& one, const Trainable& other) {
  return std::max(one.num_bytes, other.num_bytes) >= 2 * std::min(one.num_bytes, other.num_bytes);
}

}  // namespace

Trainable trainable(const models::Variant& published) {
  const auto model = models::open_published_model(std::string(published.name));
  const auto denoisers = model->names().denoisers();
  Trainable one{.name = std::string(published.name),
                .title = std::string(published.title),
                .denoiser = denoisers.front(),
                .side = published.drawn.side};
  for (const auto& denoiser : denoisers) one.num_bytes += model->components().num_bytes(denoiser);
  return one;
}

std::vector<Trainable> trainable_models() {
  std::vector<Trainable> all;
  for (const auto* family : models::all_families()) {
    std::vector<Trainable> of_family;
    for (const auto& variant : family->variants) {
      auto one = trainable(variant);
      if (std::ranges::all_of(of_family, [&](const auto& other) { return is_another_size(one, other); }))
        of_family.push_back(std::move(one));
    }
    std::ranges::move(of_family, std::back_inserter(all));
  }
  std::ranges::stable_sort(all, {}, &Trainable::num_bytes);
  return all;
}

std::string plan_flags(const Trainable& model, Trains what, const std::string& memory) {
  const auto trains = what == Trains::lora ? std::string("--lora_rank 16") : "--trainable_models " + model.denoiser;
  return fmt::format("--model {0} {1} --height {2} --width {2} --max_steps 1000{3}", model.name, trains, model.side, flags_for(memory));
}

train::HowItFits how_it_fits(const Trainable& model, Trains what, const std::string& memory) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  options.given = config::read_command_line("plan", "", split_list(plan_flags(model, what, memory), ' '), fields).given;
  options.model.is_plan = true;
  return train::how_it_fits(train::shared_out(train::understood(options), {}));
}

}  // namespace burnish::app
