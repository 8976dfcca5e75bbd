#include "train/plan/memory_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"

namespace burnish::train {

namespace {

constexpr int64_t kChartRows = 12;

std::string size_text(int64_t num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

/// The letter that a kind is drawn as.
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

/// "the program 100.00 MiB, samples that are kept 2.00 MiB", without what is nothing.
std::string in_words(const std::vector<NamedBytes>& parts) {
  std::vector<std::string> words;
  for (const auto& [name, num_bytes] : parts) {
    if (num_bytes > 0) words.push_back(name + " " + size_text(num_bytes));
  }
  return words.empty() ? "nothing" : join(words);
}

/// Returns what is computed again so that it stays within a budget; nothing without one.
std::string again_text(const MemoryPlan& plan) {
  if (plan.kept.again.empty()) return "";
  int64_t num_blocks = 0, num_values = 0;
  for (const auto& [name, again] : plan.kept.again) {
    num_blocks += again.whole ? 1 : 0;
    num_values += again.values ? std::ssize(*again.values) : 0;
  }
  return fmt::format("forward leaves {} for backward; computed again: {} of {} blocks, and {} values of others\n",
                     size_text(plan.activation_bytes), num_blocks, plan.kept.again.size(), num_values);
}

}  // namespace

int64_t total(const std::vector<NamedBytes>& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0}, [](int64_t sum, const auto& part) { return sum + part.num_bytes; });
}

const StageMemory& MemoryPlan::step() const { return *std::ranges::find(stages, kStepStage, &StageMemory::name); }

const StageMemory& MemoryPlan::largest() const {
  return *std::ranges::max_element(stages, {}, [&](const auto& stage) { return num_bytes(stage); });
}

int64_t MemoryPlan::num_bytes(const StageMemory& stage) const {
  return stage.num_bytes() + (device == "cpu" ? stage.num_host_bytes : 0) + library_bytes;
}

std::string to_text(const MemoryPlan& plan) {
  bool has_reserved = plan.step().reserved.has_value();
  std::string text = fmt::format("{:<24}{:>12}", "memory of " + plan.device, "at the peak");
  for (const auto* kind : memory::kKinds) text += fmt::format("{:>13}", kind);
  text += has_reserved ? fmt::format("{:>13}\n", "reserved") : "\n";
  for (const auto& stage : plan.stages) {
    text += fmt::format("{:<24}{:>12}", stage.name, size_text(stage.profile.peak.total()));
    for (auto bytes : stage.profile.peak.of) text += fmt::format("{:>13}", size_text(bytes));
    text += has_reserved ? fmt::format("{:>13}\n", size_text(stage.num_bytes())) : "\n";
  }
  if (plan.library_bytes > 0)
    text += fmt::format("{:<24}{:>12}  (the GPU's context and workspaces, beside each of these)\n", "CUDA and cuBLAS",
                        size_text(plan.library_bytes));
  const auto& step = plan.step();
  text += fmt::format("the step's peak is in: {}\n", step.profile.place);
  text += again_text(plan);
  if (step.num_host_bytes > 0) text += fmt::format("beside it {} wait in main memory\n", size_text(step.num_host_bytes));
  text += "\n";
  text += chart(step.profile);
  text += fmt::format("{:>14}a step, by what is taken and freed: W weights, G gradients, O optimizer, A activations, . workspace\n\n", "");
  text += fmt::format("{:<24}{:>12}  ({})\n", "memory of the host", size_text(plan.host_bytes()), in_words(plan.host));
  if (plan.mapped_bytes > 0)
    text += fmt::format("{:<24}{:>12}  (mapped while they are read; what the system keeps of them is not counted)\n", "weight files",
                        size_text(plan.mapped_bytes));
  text += fmt::format("{:<24}{:>12}  ({})\n", "written to disk", size_text(total(plan.disk)), in_words(plan.disk));
  return text;
}

nlohmann::json to_json(const MemoryPlan& plan) {
  auto bytes_of = [](const memory::Bytes& bytes) {
    nlohmann::json json{{"total", bytes.total()}};
    for (size_t i = 0; i < memory::kKinds.size(); ++i) json[memory::kKinds[i]] = bytes.of[i];
    return json;
  };
  auto parts_of = [](const std::vector<NamedBytes>& parts) {
    nlohmann::json json{{"bytes", total(parts)}, {"parts", nlohmann::json::object()}};
    for (const auto& [name, num_bytes] : parts) json["parts"][name] = num_bytes;
    return json;
  };
  nlohmann::json json{{"device", plan.device},
                      {"bytes", plan.num_bytes()},
                      {"libraries", plan.library_bytes},
                      {"left_for_backward", plan.activation_bytes},
                      {"stages", nlohmann::json::array()},
                      {"length",
                       {{"steps", plan.work.length.num_steps},
                        {"samples", plan.work.length.num_samples},
                        {"epochs", plan.work.length.num_epochs},
                        {"multiplications_a_step", plan.work.multiplications * static_cast<double>(plan.work.length.batches_a_step)}}}};
  for (const auto& [name, profile, reserved, num_host_bytes] : plan.stages) {
    nlohmann::json stage{{"name", name}, {"peak", bytes_of(profile.peak)}, {"place", profile.place}, {"host_bytes", num_host_bytes}};
    if (reserved) stage["reserved"] = *reserved;
    for (const auto& [most, place] : profile.parts) {
      if (name == kStepStage) stage["parts"].push_back({{"bytes", bytes_of(most)}, {"place", place}});
    }
    json["stages"].push_back(stage);
  }
  json["host"] = parts_of(plan.host);
  json["host"]["mapped"] = plan.mapped_bytes;
  json["disk"] = parts_of(plan.disk);
  return json;
}

}  // namespace burnish::train
