#include "train/plan/memory_planner.h"

#include <algorithm>
#include <memory>

#include "base/input_error.h"
#include "base/log.h"
#include "base/quiet.h"
#include "base/text.h"
#include "memory/gpu.h"
#include "memory/host.h"
#include "pipeline/unit.h"

namespace burnish::train {

namespace {

/// What a process takes of a GPU beside tensors, in round numbers; an H200 takes 1.4 GiB, and smaller cards less. Its context, with kernels
/// loaded as they are used: 300 to 400 MB by libtorch's maintainers (pytorch/pytorch issues 107667 and 109888). And the workspaces of
/// cuBLAS and cuBLASLt for the threads of forward and of backward, each of the 32 MiB that NVIDIA recommends for Hopper
/// (cublasSetWorkspace).
constexpr int64_t kContextBytes = 400 << 20, kWorkspaceBytes = 4 * (32 << 20);

constexpr double kMostOfMemory = 0.9;  // the rest is left to what no plan knows, such as the holes between blocks of memory

/// Nothing where what is free of a GPU was asked for: its context is there by then.
int64_t library_bytes(const Settings& settings) {
  bool is_of_card = settings.plan.device_bytes || !memory::gpu();
  return is_of_card && !settings.model.options.device.is_cpu() ? kContextBytes + kWorkspaceBytes : 0;
}

/// The plan of a run, with what is decided for it.
class Planning {
 public:
  Planning(const Settings& settings, const OpenFiles& files, const NamedBytes& program, std::shared_ptr<memory::KnownBodies> known)
      : limits_(limits_of(settings)),
        device_(settings.model.options.device),
        library_bytes_(library_bytes(settings)),
        settings_(on_meta(settings)),
        files_(files),
        program_(program),
        known_(std::move(known)) {}

  /// `is_tight`: the run is likely to have no room for values, which is found sooner from the plan without them, since it takes less.
  MemoryPlan plan(bool is_tight) const {
    if (settings_.step.memory.activation_bytes > 0) return within_budget();
    bool is_limit_known = settings_.plan.refuses && limits_.of(device_).has_value();
    if (!is_limit_known) return keeping_values(false);
    if (!is_tight && !is_surely_tight()) {
      auto plan = keeping_values(true);
      return has_room(plan) ? plan : keeping_values(false);
    }
    auto plan = keeping_values(false);
    if (!has_room(plan)) return plan;
    auto kept = keeping_values(true);
    return has_room(kept) ? kept : plan;
  }

 private:
  MemoryPlan keeping_values(bool values) const { return rehearsed({.values = values}); }

  MemoryPlan rehearsed(const KeptForBackward& kept) const {
    auto of_tensors = limits_.of(device_);
    if (of_tensors) *of_tensors = std::max<int64_t>(0, *of_tensors - library_bytes_);
    auto plan = rehearse(settings_, kept, device_, of_tensors, files_, known_);
    plan.library_bytes = library_bytes_;
    plan.host.insert(plan.host.begin(), program_);
    return plan;
  }

  bool has_room(const MemoryPlan& plan) const {
    auto most = [](int64_t limit) { return static_cast<int64_t>(static_cast<double>(limit) * kMostOfMemory); };
    auto limits = limits_;
    if (limits.device) limits.device = most(*limits.device);
    if (limits.host && device_.is_cpu()) limits.host = most(*limits.host);
    return fits(plan, limits);
  }

  /// Tells whether the weights of a denoiser that is held as the opened model's is take all that there is: what blocks keep has no room
  /// then.
  bool is_surely_tight() const {
    if (settings_.step.memory.paged_blocks > 0 || !settings_.model.storage.fp8_models.empty()) return false;
    const auto& names = files_.model.names();
    return std::ranges::any_of(files_.model.components().list(), [&](const auto& component) {
      return names.is_denoiser(component.name) && component.num_bytes > *limits_.of(device_);
    });
  }

  MemoryPlan within_budget() const {
    const auto budget = settings_.step.memory.activation_bytes;
    const auto savings = rehearse_savings(settings_, device_, files_);
    // The savings are found from a run that keeps everything. A run that does not can keep a little more, which the next choice makes up
    // for, more and more of it, since choices are of whole values.
    constexpr int kAttempts = 8;
    auto goal = budget;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto chosen = memory::save_at_least(savings.num_bytes - goal, savings.blocks);
      if (!chosen) break;
      auto plan = rehearsed({.again = of_all_experts(by_name(savings, *chosen))});
      if (plan.activation_bytes <= budget) return plan;
      goal -= (attempt + 1) * (plan.activation_bytes - budget);
    }
    config_error(
        "train",
        "activation_budget is {}, and where everything is computed again that can be, forward leaves {} for backward; raise it, or "
        "train smaller batches or pictures",
        human_bytes(static_cast<double>(budget)), human_bytes(static_cast<double>(least_left(savings))));
  }

  /// What is chosen for the blocks of one expert, which savings are found of, holds for those of all: they are alike, and a batch runs one.
  memory::RecomputedByBlock of_all_experts(const memory::RecomputedByBlock& again) const {
    auto all = again;
    const auto& names = files_.model.names();
    for (const auto& [block, of] : again) {
      const auto component = pipeline::component_of(block);
      if (!names.is_denoiser(component)) continue;
      for (const auto& other : names.denoisers()) all[other + block.substr(component.size())] = of;
    }
    return all;
  }

  static memory::RecomputedByBlock by_name(const Savings& savings, const std::vector<memory::Chosen>& chosen) {
    memory::RecomputedByBlock again;
    for (size_t i = 0; i < chosen.size(); ++i) {
      auto& of = again[savings.names[i]];
      of.whole = chosen[i].whole;
      of.values.emplace();
      for (size_t call = 0; call < chosen[i].values.size(); ++call) {
        if (chosen[i].values[call]) of.values->insert(call);
      }
    }
    return again;
  }

  static int64_t least_left(const Savings& savings) {
    auto left = savings.num_bytes;
    for (const auto& block : savings.blocks) {
      int64_t of_values = 0;
      for (const auto& value : block.values) of_values += std::max<int64_t>(0, value.num_bytes);
      left -= std::max(of_values, block.whole.num_bytes);
    }
    return left;
  }

  Limits limits_;
  c10::Device device_;
  int64_t library_bytes_;
  const Settings settings_;
  const OpenFiles& files_;
  const NamedBytes& program_;
  std::shared_ptr<memory::KnownBodies> known_;
};

}  // namespace

Planner planner_of(const OpenFiles& files, Bodies bodies) {
  NamedBytes program{"the program", memory::own_memory().resident};  // once, so that plans differ by what runs differ by
  auto is_tight = std::make_shared<bool>(false);                     // as the plan before was
  const auto known = bodies == Bodies::alike_once ? memory::no_bodies() : nullptr;
  return [files, program, is_tight, known](const Settings& settings) {
    const QuietLog quiet;  // the run itself says what a dry run has to say
    auto plan = Planning(settings, files, program, known).plan(*is_tight);
    *is_tight = !plan.kept.values;
    return plan;
  };
}

}  // namespace burnish::train
