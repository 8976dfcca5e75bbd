#include "train/fit.h"

#include <ATen/DeviceAccelerator.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"

namespace burnish::train {

namespace {

/// A setting that takes less memory and more time, or nothing where a run has it already or cannot have it.
struct Lever {
  bool (*can)(const TrainOptions&, const MemoryPlan&);
  void (*pull)(TrainOptions&, const MemoryPlan&);
  std::string (*flags)(const TrainOptions&, const MemoryPlan&);
};

bool trains_whole(const TrainOptions& o) { return !o.trainable_models.empty(); }

/// Whether main memory is another one than the device's.
bool has_main_memory_beside(const TrainOptions& o) { return !model_options(o.model).device.is_cpu(); }

bool can_update_in_backward(const TrainOptions& o) {
  return !o.fused_backward_pass && o.gradient_accumulation_steps == 1 && parse_dtype(o.model.dtype) != c10::kHalf &&
         !optim::needs_all_gradients(optimizer_options(o));
}

void recompute_one_of(TrainOptions& o, int64_t interval) {
  o.use_gradient_checkpointing = true;
  o.gradient_checkpointing_interval = interval;
}

template <int64_t share>
Lever paging() {
  return {[](const auto& o, const auto& plan) {
            return has_main_memory_beside(o) && !trains_whole(o) && o.blocks_to_swap < plan.num_pageable_blocks / share;
          },
          [](auto& o, const auto& plan) { o.blocks_to_swap = plan.num_pageable_blocks / share; },
          [](const auto&, const auto& plan) { return fmt::format("--blocks_to_swap {}", plan.num_pageable_blocks / share); }};
}

/// In order of what they cost a step, by what is published of them: an optimizer's states in 8 bits and factored ones next to nothing,
/// weights in FP8 their unpacking, smaller batches part of the processor, updates inside backward nothing but the norm to clip by,
/// recomputation another forward or half of it, and what waits in main memory the way there and back.
const std::vector<Lever>& levers() {
  static const std::vector<Lever> all{
      {[](const auto& o, const auto&) { return o.optimizer == "adamw"; }, [](auto& o, const auto&) { o.optimizer = "adamw8bit"; },
       [](const auto&, const auto&) { return std::string("--optimizer adamw8bit"); }},
      {[](const auto& o, const auto&) { return trains_whole(o) && (o.optimizer == "adamw" || o.optimizer == "adamw8bit"); },
       [](auto& o, const auto&) { o.optimizer = "adafactor"; },
       [](const auto&, const auto&) { return std::string("--optimizer adafactor"); }},
      {[](const auto& o, const auto& plan) { return o.model.fp8_models.empty() && !plan.storable.empty(); },
       [](auto& o, const auto& plan) { o.model.fp8_models = join(plan.storable, ","); },
       [](const auto&, const auto& plan) { return "--fp8_models " + join(plan.storable, ","); }},
      {[](const auto& o, const auto&) { return o.batch_size > 1; },
       [](auto& o, const auto&) { o.gradient_accumulation_steps *= std::exchange(o.batch_size, 1); },
       [](const auto& o, const auto&) {
         return fmt::format("--batch_size 1 --gradient_accumulation_steps {}", o.batch_size * o.gradient_accumulation_steps);
       }},
      {[](const auto& o, const auto&) { return can_update_in_backward(o); }, [](auto& o, const auto&) { o.fused_backward_pass = true; },
       [](const auto&, const auto&) { return std::string("--fused_backward_pass"); }},
      {[](const auto& o, const auto&) { return !recomputes(o); }, [](auto& o, const auto&) { recompute_one_of(o, 2); },
       [](const auto&, const auto&) { return std::string("--use_gradient_checkpointing --gradient_checkpointing_interval 2"); }},
      {[](const auto& o, const auto&) { return !recomputes(o) || o.gradient_checkpointing_interval > 1; },
       [](auto& o, const auto&) { recompute_one_of(o, 1); },
       [](const auto&, const auto&) { return std::string("--use_gradient_checkpointing"); }},
      {[](const auto& o, const auto&) { return has_main_memory_beside(o) && !o.use_gradient_checkpointing_offload; },
       [](auto& o, const auto&) { o.use_gradient_checkpointing_offload = true; },
       [](const auto&, const auto&) { return std::string("--use_gradient_checkpointing_offload"); }},
      {[](const auto& o, const auto&) { return has_main_memory_beside(o) && !o.enable_optimizer_cpu_offload; },
       [](auto& o, const auto&) { o.enable_optimizer_cpu_offload = true; },
       [](const auto&, const auto&) { return std::string("--enable_optimizer_cpu_offload"); }},
      paging<2>(),
      paging<1>(),
  };
  return all;
}

/// The run with some of the levers pulled. Of two that set one option, the later holds.
Change with(const std::vector<const Lever*>& pulled, const TrainOptions& options, const MemoryPlan& plan, const Planner& planner) {
  auto changed = options;
  std::vector<std::string> flags;
  for (const auto* lever : pulled) {
    if (!lever->can(changed, plan)) continue;  // after those before it
    auto text = lever->flags(changed, plan);
    std::erase_if(flags, [&](const auto& other) { return other.substr(0, other.find(' ')) == text.substr(0, text.find(' ')); });
    flags.push_back(text);
    lever->pull(changed, plan);
  }
  return {join(flags, " "), planner(changed).num_bytes()};
}

/// The number in the first line of a file, if it has one.
std::optional<int64_t> first_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The group of this process in the unified hierarchy, and all above it.
std::vector<std::string> cgroup_folders() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    std::vector<std::string> folders{"/sys/fs/cgroup"};
    for (const auto& part : split_list(line.substr(3), '/')) folders.push_back(folders.back() + "/" + part);
    return folders;
  }
  return {};
}

int64_t host_limit() {
  int64_t limit = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  for (const auto& folder : cgroup_folders()) limit = std::min(limit, first_number(folder + "/memory.max").value_or(limit));
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    limit = std::min(limit, static_cast<int64_t>(address_space.rlim_cur));
  return limit;
}

std::string in_units(int64_t num_bytes) { return human_bytes(static_cast<double>(num_bytes)); }

}  // namespace

std::vector<Change> changes(const TrainOptions& options, const MemoryPlan& plan, const Planner& planner) {
  std::vector<Change> all;
  for (const auto& lever : levers()) {
    if (lever.can(options, plan)) all.push_back(with({&lever}, options, plan, planner));
  }
  return all;
}

std::optional<Change> fit(const TrainOptions& options, const MemoryPlan& plan, int64_t limit, const Planner& planner) {
  Change best{"", plan.num_bytes()};
  std::vector<const Lever*> pulled;
  for (const auto& lever : levers()) {
    if (best.num_bytes <= limit) break;
    if (!lever.can(options, plan)) continue;
    pulled.push_back(&lever);
    best = with(pulled, options, plan, planner);
  }
  if (best.num_bytes > limit) return std::nullopt;
  for (auto i = pulled.size(); pulled.size() > 1 && i-- > 0;) {
    auto fewer = pulled;
    fewer.erase(fewer.begin() + static_cast<int64_t>(i));
    auto without = with(fewer, options, plan, planner);
    if (without.num_bytes > limit) continue;
    pulled = fewer;
    best = without;
  }
  return best;
}

std::string to_text(const Advice& advice) {
  auto text = to_text(advice.plan);
  if (!advice.changes.empty()) text += "\nwhat would take less, in order of what it costs in speed:\n";
  for (const auto& [flags, num_bytes] : advice.changes) text += fmt::format("{:>14}  {}\n", in_units(num_bytes), flags);
  if (!advice.limit) return text;
  bool fits = advice.plan.num_bytes() <= *advice.limit;
  text += fmt::format("\nthere is {} of {}: the run {}\n", in_units(*advice.limit), advice.plan.device, fits ? "fits" : "does not fit");
  if (advice.fitting && !fits) text += fmt::format("it fits in {} with {}\n", in_units(advice.fitting->num_bytes), advice.fitting->flags);
  return text;
}

std::string to_json(const Advice& advice) {
  auto json_of = [](const Change& change) { return nlohmann::json{{"flags", change.flags}, {"bytes", change.num_bytes}}; };
  auto json = to_json(advice.plan);
  json["changes"] = nlohmann::json::array();
  for (const auto& change : advice.changes) json["changes"].push_back(json_of(change));
  if (advice.limit) json["limit"] = *advice.limit;
  if (advice.limit) json["fits"] = advice.plan.num_bytes() <= *advice.limit;
  if (advice.fitting) json["fit"] = json_of(*advice.fitting);
  return json.dump(2) + "\n";
}

int64_t parse_size(const std::string& option, const std::string& text) {
  static const std::vector<std::pair<std::string, double>> kUnits{{"", 0x1p30},    {"gib", 0x1p30}, {"g", 0x1p30}, {"gb", 1e9},
                                                                  {"mib", 0x1p20}, {"m", 0x1p20},   {"mb", 1e6}};
  double number = 0;
  size_t end = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  std::string unit(trim(text.substr(end)));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  auto found = std::ranges::find(kUnits, unit, &std::pair<std::string, double>::first);
  if (!(number > 0) || number > 1e9 || found == kUnits.end())
    config_error("train", "{} must be a size such as 24GiB, 24GB or 800MiB, not '{}'", option, text);
  return static_cast<int64_t>(number * found->second);
}

std::optional<int64_t> memory_limit(const TrainOptions& options) {
  if (!options.device_memory.empty()) return parse_size("device_memory", options.device_memory);
  auto device = model_options(options.model).device;
  if (device.is_cpu()) return host_limit();
  auto [free, total] = at::accelerator::getMemoryInfo(device.index());
  return static_cast<int64_t>(free);
}

void check_fits(const TrainOptions& options, const MemoryPlan& plan, int64_t limit, const Planner& planner) {
  if (plan.num_bytes() <= limit) return;
  auto found = fit(options, plan, limit, planner);
  const auto& largest = plan.largest();
  throw Error(Exit::no_fit, "train",
              fmt::format("{} takes {} of {} at its peak ({}), and there is {}; {}, or train all the same with --plan off", largest.name,
                          in_units(plan.num_bytes()), plan.device, largest.profile.place, in_units(limit),
                          found ? fmt::format("it fits with {} ({})", found->flags, in_units(found->num_bytes))
                                : "no option that this program has makes it fit: train smaller pictures"));
}

}  // namespace burnish::train
