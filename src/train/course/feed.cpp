#include "train/course/feed.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "io/files.h"
#include "train/samples/pixels.h"

namespace burnish::train {

namespace {

/// Of what a stage reads of a sample, what is kept and what is loaded.
struct Reads {
  std::vector<std::string> kept;
  std::vector<const Input*> inputs;
};

Reads reads_of(const pipeline::Stage& stage, const InputTable& inputs) {
  Reads reads;
  for (const auto& name : stage.of_sample) {
    if (const auto* input = inputs.find(name)) reads.inputs.push_back(input);
    else reads.kept.push_back(name);
  }
  return reads;
}

pipeline::Values load(const Reads& reads, const Source& source, const Pick& pick) {
  auto values = source.kept.values(pick, reads.kept);
  for (const auto* input : reads.inputs) values[input->name] = input->load(source.samples, pick);
  return values;
}

}  // namespace

Batch in_model_range(Batch batch) {
  for (auto& sample : batch.samples) sample = in_model_range(std::move(sample));
  return batch;
}

const BatchVisits& Feed::visits(const BatchId& id) const {
  if (!visits_ || visits_->id != id) visits_ = course_.batch(id);
  return *visits_;
}

Batch Feed::batch(const pipeline::Stage& stage, const BatchId& id, const AheadResults* ahead) const {
  Batch batch;
  bool is_next = loading_ && loading_->stage == &stage && loading_->id == id;
  auto loading = is_next ? std::move(loading_) : nullptr;
  const auto& visited = visits(id);
  const auto& from = source(id);
  auto reads = reads_of(stage, *from.samples.inputs);
  for (const auto& pick : visited.picks) {
    batch.samples.push_back(loading ? loading->samples.next() : load(reads, from, pick));
    batch.rows.push_back(pick.row);
  }
  batch.part = visited.part;
  batch.draws = course_.draws(visited, {stage.drawn.begin(), stage.drawn.end()});
  if (ahead == nullptr) return batch;
  auto key = ahead->keys.find(id);
  if (key == ahead->keys.end()) throw std::logic_error("a batch was not among those computed ahead");
  for (const auto& [name, tensor] : ahead->section->at(key->second)) batch.draws[name] = tensor;
  return batch;
}

Batch Feed::visited(const pipeline::Stage& stage, const BatchVisits& visits) const {
  Batch batch;
  const auto reads = reads_of(stage, *training_.samples.inputs);
  for (const auto& pick : visits.picks) {
    batch.samples.push_back(load(reads, training_, pick));
    batch.rows.push_back(pick.row);
  }
  batch.part = visits.part;
  batch.draws = course_.draws(visits, {stage.drawn.begin(), stage.drawn.end()});
  return batch;
}

void Feed::prefetch(const pipeline::Stage& stage, const BatchId& id) const {
  auto reads = reads_of(stage, *source(id).samples.inputs);
  const auto picks = visits(id).picks;
  bool reads_files = std::ranges::any_of(reads.inputs, [](const auto* input) { return !input->in_list; });
  if (const auto* pictures = source(id).samples.pictures.get(); reads_files && pictures != nullptr && pictures->options().num_workers > 0) {
    auto load_one = [reads, &from = source(id), picks](int64_t i) { return load(reads, from, picks[static_cast<size_t>(i)]); };
    loading_.reset(new Loading{&stage, id, {std::ssize(picks), pictures->options().num_workers, load_one}});
  }
  for (const auto& pick : picks) {
    for (const auto& [name, value] : source(id).kept.values(pick, reads.kept)) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) io::prefetch(*tensor);
    }
  }
}

}  // namespace burnish::train
