#include "train/subject/checkpoint_agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::train {

namespace {

std::string type_of(const adapters::AdapterWeights& w) {
  return w.magnitude.m.defined() ? "dora" : std::string(adapters::kind_name(w.kind));
}

[[noreturn]] void contradicts(const std::string& asked, const std::string& path, const std::string& found, const std::string& file) {
  config_error("train", "{} is asked for, and '{}' has {} in {}; lora_checkpoint decides it, so take the option out", asked, path, found,
               file);
}

}  // namespace

void check_agreement(const adapters::AdapterOptions& o, const std::vector<std::string>& given,
                     const std::vector<adapters::AdapterWeights>& weights, const std::string& file) {
  const adapters::AdapterOptions defaults;
  auto asks = [&](const char* name, bool differs) { return differs || contains(given, name); };
  bool asks_scale = asks("lora_alpha", o.alpha != defaults.alpha) || asks("use_rslora", o.use_rslora != defaults.use_rslora);
  for (const auto& w : weights) {
    auto rank = adapters::rank_of(w);
    if (asks("lora_type", o.type != defaults.type) && o.type != type_of(w)) contradicts("lora_type " + o.type, w.path, type_of(w), file);
    if (asks("dora_norm", o.dora_norm != defaults.dora_norm) && w.magnitude.m.defined() && w.magnitude.axis != o.dora_norm) {
      bool by_input = o.dora_norm == adapters::NormAxis::input;
      contradicts(by_input ? "dora_norm input" : "dora_norm output", w.path, by_input ? "output" : "input", file);
    }
    // LoKr of whole factors and full deltas have neither rank nor alpha; OFT's blocks have the side that fits a layer, and no alpha.
    if (rank == 0 || w.kind == adapters::Kind::oft) continue;
    bool asks_rank = asks("lora_rank", o.rank != defaults.rank);
    if (asks_rank && o.rank < rank)
      config_error("train",
                   "lora_rank {} is asked for, and '{}' has {} in {}; burnish convert --lora_rank {} writes a file of the smaller rank, or "
                   "take the option out",
                   o.rank, w.path, rank, file, o.rank);
    auto padded = asks_rank ? o.rank : rank;  // by which an alpha grows, for the scale stays
    auto asked_at = [&](int64_t at) { return o.alpha > 0 ? o.alpha : static_cast<double>(at); };
    auto alpha_at = [&](int64_t at) { return w.scale * (o.use_rslora ? std::sqrt(static_cast<double>(at)) : static_cast<double>(at)); };
    auto agrees = [&](int64_t at) { return std::abs(alpha_at(at) - asked_at(at)) <= 1e-5 * asked_at(at); };
    if (asks_scale && !agrees(rank) && !agrees(padded))
      contradicts(fmt::format("lora_alpha {}{}", asked_at(padded), o.use_rslora ? " with use_rslora" : ""), w.path,
                  fmt::format("{:.6g}", alpha_at(padded)), file);
  }
}

void check_same_layers(const std::vector<std::string>& named, const std::vector<std::string>& in_file, const std::string& component,
                       const std::string& file) {
  auto refuse = [&](const std::string& path, const char* where) {
    config_error("train",
                 "lora_target_modules and {} do not name the same layers of {}: '{}' is in {} alone; lora_checkpoint decides, so take "
                 "the option out",
                 file, component, path, where);
  };
  for (const auto& path : named) {
    if (!contains(in_file, path)) refuse(path, "the option");
  }
  for (const auto& path : in_file) {
    if (!contains(named, path)) refuse(path, "the file");
  }
}

}  // namespace burnish::train
