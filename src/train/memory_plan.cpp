#include "train/memory_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace burnish::train {

namespace {

constexpr int64_t kChartRows = 12;

std::string size_text(int64_t num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

/// What a kind is drawn as.
constexpr std::array kMarks{'W', 'G', 'O', 'A', '.'};

/// A bar for each part of the stage, as high as the most bytes live in it, made of its kinds from the bottom up.
std::string chart(const memory::Profile& profile) {
  std::vector<std::string> bars;
  auto whole = static_cast<double>(std::max<int64_t>(1, profile.peak.total()));
  for (const auto& part : profile.parts) {
    std::string bar;
    int64_t below = 0;
    for (size_t kind = 0; kind < kMarks.size(); ++kind) {
      below += part.most.of[kind];
      auto height = static_cast<size_t>(static_cast<double>(below) / whole * kChartRows + 0.5);
      if (height > bar.size()) bar.append(height - bar.size(), kMarks[kind]);
    }
    bars.push_back(bar);
  }
  std::string text;
  for (auto row = kChartRows; row-- > 0;) {
    text += fmt::format("{:>12} |", row == kChartRows - 1 ? size_text(profile.peak.total()) : row == 0 ? "0" : "");
    for (const auto& bar : bars) text += static_cast<size_t>(row) < bar.size() ? bar[static_cast<size_t>(row)] : ' ';
    text += "\n";
  }
  return text;
}

}  // namespace

const StageMemory& MemoryPlan::largest() const {
  return *std::ranges::max_element(stages, {}, [&](const auto& stage) { return num_bytes(stage); });
}

int64_t MemoryPlan::num_bytes(const StageMemory& stage) const {
  return stage.profile.peak.total() + (device == "cpu" ? stage.num_host_bytes : 0);
}

std::string to_text(const MemoryPlan& plan) {
  std::string text = fmt::format("{:<24}{:>12}", "memory of " + plan.device, "at the peak");
  for (const auto* kind : memory::kKinds) text += fmt::format("{:>13}", kind);
  text += "\n";
  for (const auto& [name, profile, num_host_bytes] : plan.stages) {
    text += fmt::format("{:<24}{:>12}", name, size_text(profile.peak.total()));
    for (auto bytes : profile.peak.of) text += fmt::format("{:>13}", size_text(bytes));
    text += "\n";
  }
  const auto& step = plan.step();
  text += fmt::format("the step's peak is in: {}\n", step.profile.place);
  if (step.num_host_bytes > 0) text += fmt::format("beside it {} wait in main memory\n", size_text(step.num_host_bytes));
  text += "\n";
  text += chart(step.profile);
  text += fmt::format("{:>14}a step, by what is taken and freed: W weights, G gradients, O optimizer, A activations, . workspace\n", "");
  return text;
}

nlohmann::json to_json(const MemoryPlan& plan) {
  auto bytes_of = [](const memory::Bytes& bytes) {
    nlohmann::json json{{"total", bytes.total()}};
    for (size_t i = 0; i < memory::kKinds.size(); ++i) json[memory::kKinds[i]] = bytes.of[i];
    return json;
  };
  nlohmann::json json{{"device", plan.device}, {"bytes", plan.num_bytes()}, {"stages", nlohmann::json::array()}};
  for (const auto& [name, profile, num_host_bytes] : plan.stages) {
    nlohmann::json stage{{"name", name}, {"peak", bytes_of(profile.peak)}, {"place", profile.place}, {"host_bytes", num_host_bytes}};
    for (const auto& [most, place] : profile.parts) stage["parts"].push_back({{"bytes", bytes_of(most)}, {"place", place}});
    json["stages"].push_back(stage);
  }
  return json;
}

}  // namespace burnish::train
