#include "checkpoint/state.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "io/checkpoint_files.h"
#include "io/files.h"

namespace burnish::checkpoint {

namespace {

const char* const kFile = "state.safetensors";
const std::string kParameter = "parameter.";
const std::string kOptimizer = "optimizer.";
const std::string kAverage = "average.";

int64_t read_count(const io::Metadata& metadata, const char* key, const std::filesystem::path& path) {
  auto it = metadata.find(key);
  int64_t value = -1;
  if (it != metadata.end()) {
    const auto& text = it->second;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) value = -1;
  }
  if (value < 0) data_error("checkpoint", "{} is no saved state: its metadata gives no '{}'", path.string(), key);
  return value;
}

/// What two fingerprints, each a list of settings with commas between, say otherwise.
std::string difference(const std::string& saved, const std::string& here) {
  auto items_of = [](std::string_view text) {
    std::vector<std::string> items;
    for (size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 2))
      items.emplace_back(text.substr(0, end = text.find(", ")));
    return items;
  };
  auto of_saved = items_of(saved), of_here = items_of(here);
  auto only = [](const std::vector<std::string>& list, const std::vector<std::string>& other) {
    std::vector<std::string> items;
    std::ranges::copy_if(list, std::back_inserter(items), [&](const auto& item) { return !contains(other, item); });
    return items;
  };
  auto there = only(of_saved, of_here), here_alone = only(of_here, of_saved);
  if (there.empty()) return fmt::format("this run has {}, which the saved one had not", join(here_alone));
  if (here_alone.empty()) return fmt::format("it was saved with {}, which this run has not", join(there));
  return fmt::format("it was saved with {}, and this run has {}", join(there), join(here_alone));
}

optim::StateList below(const io::TensorSource& source, const std::string& prefix) {
  optim::StateList list;
  auto part = source.below(prefix);
  for (const auto& name : part.names()) list.emplace_back(name, part.tensor(name));
  return list;
}

Progress progress_of(const io::TensorSource& source, const std::filesystem::path& path, const std::string& fingerprint) {
  auto metadata = source.metadata();
  Progress progress{read_count(metadata, "step", path), read_count(metadata, "batch", path), fingerprint};
  if (metadata.contains("loss_scale")) {
    progress.loss_scale = {static_cast<double>(read_count(metadata, "loss_scale", path)), read_count(metadata, "loss_scale_steps", path)};
  }
  if (metadata["fingerprint"] != fingerprint) {
    data_error("checkpoint", "{} belongs to a run with other settings: {}; resume with the same options", path.string(),
               difference(metadata["fingerprint"], fingerprint));
  }
  return progress;
}

std::filesystem::path state_in(const std::filesystem::path& folder) {
  auto path = folder / kFile;
  if (!io::is_there(path))
    data_error("checkpoint", "nothing to resume: {} is not there; take --resume out, or correct --output_path", path.string());
  return path;
}

}  // namespace

std::optional<int64_t> step_of_state(const io::TensorSource& file) {
  const auto& metadata = file.metadata();
  if (!metadata.contains("fingerprint") || !metadata.contains("batch")) return std::nullopt;
  return read_count(metadata, "step", file.files().front()->path());
}

bool is_there(const std::filesystem::path& folder) { return io::is_there(folder / kFile); }

void check_there(const std::filesystem::path& folder) { state_in(folder); }

Progress read_progress(const std::filesystem::path& folder, const std::string& fingerprint) {
  auto path = state_in(folder);
  return progress_of(io::TensorSource::open({path}), path, fingerprint);
}

State state_of(const Trainee& trainee, const Progress& progress) {
  io::NamedTensors tensors;
  for (const auto& [name, value] : optim::values(trainee.optimizer.parameters())) tensors.emplace_back(kParameter + name, value);
  for (const auto& [name, value] : trainee.optimizer.state()) tensors.emplace_back(kOptimizer + name, value);
  if (trainee.ema != nullptr) {
    for (const auto& [name, value] : trainee.ema->state()) tensors.emplace_back(kAverage + name, value);
  }
  io::Metadata metadata{
      {"step", std::to_string(progress.step)}, {"batch", std::to_string(progress.batch)}, {"fingerprint", progress.fingerprint}};
  if (progress.loss_scale.in_use()) {
    metadata["loss_scale"] = std::to_string(static_cast<int64_t>(progress.loss_scale.factor));
    metadata["loss_scale_steps"] = std::to_string(progress.loss_scale.good_steps);
  }
  return {tensors, metadata};
}

void save_state(const std::filesystem::path& folder, const State& state) {
  io::save_safetensors(folder / kFile, state.tensors, state.metadata);
}

Progress load_state(const std::filesystem::path& folder, const Trainee& trainee, const std::string& fingerprint) {
  auto& [optimizer, ema] = trainee;
  auto path = state_in(folder);
  auto source = io::TensorSource::open({path});
  auto progress = progress_of(source, path, fingerprint);
  // All parts are compared before any is changed.
  optim::check_state("parameters in " + path.string(), optim::values(optimizer.parameters()), below(source, kParameter));
  optim::check_state("optimizer state in " + path.string(), optimizer.state(), below(source, kOptimizer));
  if (ema != nullptr) optim::check_state("moving averages in " + path.string(), ema->state(), below(source, kAverage));
  if (ema != nullptr) ema->load_state(below(source, kAverage));
  optimizer.load_state(below(source, kOptimizer));
  optim::load_into("parameters in " + path.string(), optim::values(optimizer.parameters()), below(source, kParameter));
  return progress;
}

}  // namespace burnish::checkpoint
