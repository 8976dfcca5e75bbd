#include "train/run/encode_all.h"

#include <algorithm>

#include "base/count.h"
#include "base/log.h"
#include "base/text.h"
#include "models/model/block_by_block.h"
#include "train/plan/fit.h"
#include "train/samples/encode.h"

namespace burnish::train {

std::set<std::string> encoders_by_block(const Opened& run) {
  return models::too_large_encoders(run.subject.model->components(), limits_of(run.settings).of(run.settings.model.options.device));
}

namespace {

/// Each process computes its share of what the cache lacks. When all have, the cache is opened anew: it holds the others' share as well.
void encode_together(Opened& run, const pipeline::Schedule& schedule, const std::set<std::string>& by_block, const dist::World& world) {
  const auto& data = run.settings.data;
  if (world.size() == 1 || !data.from_pictures) return;
  encode(*run.subject, schedule, run.samples(), *run.cache, data.portion, by_block);
  if (run.held_out) encode(*run.subject, schedule, *run.held_out, *run.cache, data.portion, by_block);
  world.meet("encoded");
  run.cache = open_cache(data);
}

}  // namespace

Encoded encode_all(Opened& run, const pipeline::Schedule& schedule, const std::set<std::string>& by_block, const dist::World& world) {
  encode_together(run, schedule, by_block, world);
  const auto& settings = run.settings;
  Encoded encoded;
  encoded.training = settings.data.from_pictures
                         ? encode(*run.subject, schedule, run.samples(), *run.cache, settings.data.portion, by_block)
                         : run.listed.kept;
  bool drops = std::ranges::any_of(run.samples().sets, [](const auto& set) { return set.captions.dropout > 0; });
  if (drops) check_empty_caption(encoded.training, schedule, *run.samples().inputs);
  if (run.held_out) encoded.held_out = encode(*run.subject, schedule, *run.held_out, *run.cache, settings.data.portion, by_block);
  info("{}, {} in {}; computed at every visit: {}", count_of(std::ssize(run.samples().list), "sample"),
       human_bytes(static_cast<double>(encoded.training.num_bytes())), run.cache->on_disk() ? run.cache->folder().string() : "memory",
       join(pipeline::models_of(schedule.after_once())));
  return encoded;
}

}  // namespace burnish::train
