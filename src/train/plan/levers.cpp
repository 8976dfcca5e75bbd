#include "train/plan/levers.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"

namespace burnish::train {

std::string to_flags(const std::vector<Asked>& asked) {
  std::vector<std::string> flags;
  for (const auto& [option, value] : asked) flags.push_back("--" + option + (value.empty() ? "" : " " + value));
  return join(flags, " ");
}

std::vector<Asked> Lever::says(const Settings& pulled) const {
  std::vector<Asked> all;
  for (const auto& [option, value] : rows) {
    if (auto text = value(pulled)) all.push_back({option, *text});
  }
  return all;
}

namespace {

std::optional<std::string> said(std::string text) { return text; }
std::optional<std::string> said(int64_t number) { return std::to_string(number); }
std::optional<std::string> set(const Settings&) { return ""; }

/// Takes back an interval of blocks that the command line names.
std::optional<std::string> every_block(const Settings& s) { return s.step.memory.interval > 1 ? said(1) : std::nullopt; }

bool trains_whole(const Settings& s) { return !s.trained.whole.empty(); }

/// Tells whether main memory is another one than the device's.
bool has_main_memory_beside(const Settings& s) { return !s.model.options.device.is_cpu(); }

int64_t& recompute_every(Settings& s) { return s.step.memory.recompute_every; }
bool recomputes(const Settings& s) { return s.step.memory.recompute_every > 0; }
bool has_budget(const Settings& s) { return s.step.memory.activation_bytes > 0; }

Lever caching() {
  return {
      .can = [](const auto& s, const auto&) { return s.data.from_pictures && s.data.cache_folder.empty() && !s.schedule.everything_live; },
      .pull = [](auto s, const auto&) { return keep_in(s.data, "cache"), s; },
      .rows = {{"cache_path", [](const auto& s) { return said(s.data.cache_folder); }}}};
}

constexpr int64_t kTile = 512;  // a quarter of the memory of a picture of 1024 × 1024

/// The option that has autoencoders work in tiles.
const std::string& tile_size() {
  static const auto name = models::options_about(models::Option::About::tile_size).at(0);
  return name;
}
int64_t tile_of(const Settings& s) { return s.model.options.get<int64_t>(tile_size()); }

Lever tiling() {
  return {.can = [](const auto& s, const auto&) { return s.data.from_pictures && tile_of(s) == 0; },
          .pull = [](auto s, const auto&) { return s.model.options.own.set(tile_size(), kTile), s; },
          .rows = {{tile_size(), [](const auto& s) { return said(tile_of(s)); }}}};
}

/// `fp8_models` with more components.
std::string in_fp8(const Settings& s, const std::vector<std::string>& components) {
  auto all = split_list(s.model.storage.fp8_models);
  std::ranges::copy_if(components, std::back_inserter(all), [&](const auto& component) { return !contains(all, component); });
  return join(all, ",");
}

/// Holds some of a run's components in FP8.
template <std::vector<std::string> Movable::*components>
Lever storing() {
  return {.can = [](const auto& s, const auto& plan) { return in_fp8(s, plan.movable.*components) != s.model.storage.fp8_models; },
          .pull = [](auto s, const auto& plan) { return s.model.storage.fp8_models = in_fp8(s, plan.movable.*components), s; },
          .rows = {{"fp8_models", [](const auto& s) { return said(s.model.storage.fp8_models); }}}};
}

Lever storing_denoisers() {
  auto lever = storing<&Movable::storable>();
  lever.can = [](const auto& s, const auto& plan) {
    return s.step.memory.blocks_on_disk == 0 && in_fp8(s, plan.movable.storable) != s.model.storage.fp8_models;
  };
  lever.makes_codes = true;
  return lever;
}

/// Another optimizer is another course of training: one that the command line names stays, and so does one whose numbers the other has not.
bool may_have(Settings s, const char* optimizer) {
  if (contains(s.trained.given, "optimizer")) return false;
  s.step.optimizer.name = optimizer;
  try {
    optim::check(s.step.optimizer, s.step.schedule, s.step.learning_rate);
  } catch (const Error&) {
    return false;
  }
  return true;
}

Lever with_optimizer(bool (*can)(const Settings&, const MemoryPlan&), Settings (*pull)(Settings, const MemoryPlan&)) {
  return {.can = can, .pull = pull, .rows = {{"optimizer", [](const auto& s) { return said(s.step.optimizer.name); }}}};
}

Lever quantized_optimizer() {
  return with_optimizer([](const auto& s, const auto&) { return s.step.optimizer.name == "adamw" && may_have(s, "adamw8bit"); },
                        [](auto s, const auto&) { return s.step.optimizer.name = "adamw8bit", s; });
}

Lever factored_optimizer() {
  return with_optimizer(
      [](const auto& s, const auto&) {
        const auto& name = s.step.optimizer.name;
        return trains_whole(s) && (name == "adamw" || name == "adamw8bit") && may_have(s, "adafactor");
      },
      [](auto s, const auto&) { return s.step.optimizer.name = "adafactor", s; });
}

Lever smaller_batches() {
  return {.can =
              [](const auto& s, const auto&) {
                const auto num_batches = s.course.batch_size * s.course.batches_per_step;
                return s.course.batch_size > 1 && num_batches <= kMostBatchesAStep && !s.step.memory.updates_in_backward;
              },
          .pull = [](auto s, const auto&) { return s.course.batches_per_step *= std::exchange(s.course.batch_size, 1), s; },
          .rows = {{"batch_size", [](const auto& s) { return said(s.course.batch_size); }},
                   {"gradient_accumulation_steps", [](const auto& s) { return said(s.course.batches_per_step); }}},
          .accumulates = true};
}

Lever updating_in_backward() {
  return {.can =
              [](const auto& s, const auto&) {
                return !s.step.memory.updates_in_backward && s.course.batches_per_step == 1 && s.together.num_processes == 1 &&
                       !s.step.scales_loss && !optim::needs_all_gradients(s.step.optimizer);
              },
          .pull = [](auto s, const auto&) { return s.step.memory.updates_in_backward = true, s; },
          .rows = {{"fused_backward_pass", set}}};
}

Lever recomputing_half() {
  return {.can = [](const auto& s, const auto&) { return !recomputes(s) && !has_budget(s); },
          .pull = [](auto s, const auto&) { return recompute_every(s) = 2, s; },
          .rows = {{"use_gradient_checkpointing", set}, {"gradient_checkpointing_interval", [](const auto&) { return said(2); }}},
          .recomputes = true};
}

Lever recomputing_all() {
  return {.can = [](const auto& s, const auto&) { return s.step.memory.recompute_every != 1 && !has_budget(s); },
          .pull = [](auto s, const auto&) { return recompute_every(s) = 1, s; },
          .rows = {{"use_gradient_checkpointing", set}, {"gradient_checkpointing_interval", every_block}},
          .recomputes = true};
}

Lever offloading_checkpoints() {
  return {.can = [](const auto& s, const auto&) { return has_main_memory_beside(s) && !s.step.memory.checkpoints_in_host; },
          .pull =
              [](auto s, const auto&) {
                s.step.memory.checkpoints_in_host = true;
                if (!recomputes(s) && !has_budget(s)) recompute_every(s) = 1;
                return s;
              },
          .rows = {{"use_gradient_checkpointing_offload", set}}};
}

Lever offloading_optimizer() {
  return {.can = [](const auto& s, const auto&) { return has_main_memory_beside(s) && !s.step.memory.optimizer_in_host; },
          .pull = [](auto s, const auto&) { return s.step.memory.optimizer_in_host = true, s; },
          .rows = {{"enable_optimizer_cpu_offload", set}}};
}

/// Of the feed-forward layers, a few thousand tokens at a time: more are those of clips.
Lever cutting_feed_forward() {
  return {.can = [](const auto& s, const auto&) { return s.step.memory.feed_forward_tokens == 0 && s.trained.adapter.dropout == 0; },
          .pull = [](auto s, const auto&) { return s.step.memory.feed_forward_tokens = 8192, s; },
          .rows = {{"feed_forward_chunk_size", [](const auto& s) { return said(s.step.memory.feed_forward_tokens); }}}};
}

/// Tells whether blocks may wait elsewhere: where processes divide them they do already, and where they divide what trains whole it may
/// not.
bool may_wait(const Settings& s) { return !s.step.division.divides_blocks() && (s.step.division.zero_stage == 0 || !trains_whole(s)); }

template <int64_t share>
Lever paging() {
  return {.can =
              [](const auto& s, const auto& plan) {
                return has_main_memory_beside(s) && may_wait(s) && s.step.memory.paged_blocks < plan.movable.num_blocks / share;
              },
          .pull = [](auto s, const auto& plan) { return s.step.memory.paged_blocks = plan.movable.num_blocks / share, s; },
          .rows = {{"blocks_to_swap", [](const auto& s) { return said(s.step.memory.paged_blocks); }}},
          .pages = true};
}

Lever reading_blocks() {
  return {.can =
              [](const auto& s, const auto& plan) {
                return plan.movable.from_disk && may_wait(s) && s.step.memory.blocks_on_disk < plan.movable.num_blocks;
              },
          .pull =
              [](auto s, const auto& plan) {
                s.step.memory.blocks_on_disk = plan.movable.num_blocks;
                if (s.step.memory.paged_blocks != kAllBlocks) s.step.memory.paged_blocks = plan.movable.num_blocks;
                return s;
              },
          .rows = {{"blocks_to_swap", [](const auto& s) { return said(s.step.memory.blocks_on_disk); }},
                   {"blocks_on_disk", [](const auto& s) { return said(s.step.memory.blocks_on_disk); }}},
          .reads_files = true};
}

}  // namespace

// The order follows what is published of them: samples kept on disk, pictures encoded in tiles and encoders in FP8 cost nothing, an
// optimizer's states in 8 bits and factored ones next to nothing, weights in FP8 their unpacking, smaller batches part of the processor,
// updates inside backward nothing but the norm to clip by, recomputation another forward or half of it, what waits in main memory the way
// there and back, and what waits on disk a longer one.
const std::vector<Lever>& levers() {
  static const std::vector<Lever> all{caching(),
                                      tiling(),
                                      storing<&Movable::encoders>(),
                                      quantized_optimizer(),
                                      factored_optimizer(),
                                      storing_denoisers(),
                                      smaller_batches(),
                                      updating_in_backward(),
                                      recomputing_half(),
                                      recomputing_all(),
                                      offloading_checkpoints(),
                                      offloading_optimizer(),
                                      cutting_feed_forward(),
                                      paging<2>(),
                                      paging<1>(),
                                      reading_blocks()};
  return all;
}

std::vector<Asked> Pulled::says() const {
  std::vector<Asked> all;
  for (const auto& part : parts) all.insert(all.end(), part.says.begin(), part.says.end());
  return all;
}

Pulled pull(const Levers& levers, const Settings& settings, const MemoryPlan& plan) {
  Pulled pulled{settings};
  for (const auto* lever : levers) {
    if (lever->makes_codes && levers.back()->reads_files) continue;
    if (!lever->can(pulled.settings, plan)) continue;  // after those before it
    pulled.settings = lever->pull(std::move(pulled.settings), plan);
    const auto& option = lever->rows.front().option;
    std::erase_if(pulled.parts, [&](const auto& other) { return other.says.front().option == option; });
    pulled.parts.push_back({lever, lever->says(pulled.settings)});
  }
  return pulled;
}

std::optional<Pulled> with_budget(Pulled pulled, int64_t mebibytes) {
  auto part = std::ranges::find_if(pulled.parts, [](const auto& each) { return each.lever->recomputes; });
  if (part == pulled.parts.end()) return std::nullopt;
  part->says = {{"activation_budget", fmt::format("{}MiB", mebibytes)}};
  if (auto interval = every_block(pulled.settings)) part->says.push_back({"gradient_checkpointing_interval", *interval});
  pulled.settings.step.memory.recompute_every = 0;
  pulled.settings.step.memory.activation_bytes = mebibytes << 20;
  return pulled;
}

}  // namespace burnish::train
