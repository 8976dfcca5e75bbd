#include "checkpoint/state.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "io/checkpoint_files.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::checkpoint {

namespace {

const char* const kFile = "state.safetensors";
const char* const kIndex = "state.safetensors.index.json";
const char *const kFingerprint = "fingerprint", *const kSamples = "samples";
const char* const kAllOfSamples = "pictures with captions and sizes";  // what a fingerprint calls its hash of the samples
const std::string kPart = "state-step-";                               // how names of parts begin
const std::string kParameter = "parameter.";
const std::string kOptimizer = "optimizer.";
const std::string kAverage = "average.";
const std::string kOldPolicy = "old_policy.", kDrawn = "drawn.";

int64_t read_count(const io::Metadata& metadata, const char* key, const std::filesystem::path& path) {
  auto it = metadata.find(key);
  const auto value = it != metadata.end() ? parse_number<int64_t>(it->second).value_or(-1) : -1;
  if (value < 0) data_error("checkpoint", "{} is no saved state: its metadata gives no '{}'", path.string(), key);
  return value;
}

/// The settings of a fingerprint, which is a list of them with commas between.
std::vector<std::string> items_of(std::string_view text) {
  std::vector<std::string> items;
  for (size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 2))
    items.emplace_back(text.substr(0, end = text.find(", ")));
  return items;
}

/// Returns what a setting calls a hash of eight digits at its end: "captions" of "captions 1a2b3c4d"; "" where it has none.
std::string hashed(const std::string& item) {
  constexpr size_t kDigits = 8;
  const auto blank = item.rfind(' ');
  const bool has_hash =
      blank != item.npos && item.size() - blank - 1 == kDigits && item.find_first_not_of("0123456789abcdef", blank + 1) == item.npos;
  return has_hash ? item.substr(0, blank) : "";
}

/// Says what two lists of settings say otherwise. Of those that only hashes tell apart it is said what they are of.
std::string difference(const std::string& saved, const std::string& here) {
  const auto of_saved = items_of(saved), of_here = items_of(here);
  std::vector<std::string> others;
  auto only = [&](const std::vector<std::string>& list, const std::vector<std::string>& other) {
    std::vector<std::string> items;
    for (const auto& item : list) {
      if (contains(other, item)) continue;
      const auto what = hashed(item);
      const bool in_both = !what.empty() && std::ranges::any_of(other, [&](const auto& one) { return hashed(one) == what; });
      if (!in_both) items.push_back(item);
      else if (!contains(others, what)) others.push_back(what);
    }
    return items;
  };
  const auto there = only(of_saved, of_here), here_alone = only(of_here, of_saved);
  std::vector<std::string> said;
  if (!others.empty()) said.push_back(fmt::format("it was saved with other {}", join(others, " and ")));
  if (there.empty() && !here_alone.empty()) said.push_back(fmt::format("this run has {}, which the saved one had not", join(here_alone)));
  if (!there.empty() && here_alone.empty()) said.push_back(fmt::format("it was saved with {}, which this run has not", join(there)));
  if (!there.empty() && !here_alone.empty())
    said.push_back(fmt::format("it was saved with {}, and this run has {}", join(there), join(here_alone)));
  return join(said, "; ");
}

/// Says what two runs differ in, with what of their samples is another in the place of one hash of all samples.
std::string difference(const io::Metadata& saved, const std::string& fingerprint, const std::string& samples) {
  const auto value = [&](const char* key) { return saved.contains(key) ? saved.at(key) : std::string(); };
  const auto were = value(kSamples);
  if (were.empty() || samples.empty() || were == samples) return difference(value(kFingerprint), fingerprint);
  const auto with = [&](const std::string& text, const std::string& of_samples) {
    auto items = items_of(text);
    std::erase_if(items, [](const auto& item) { return hashed(item) == kAllOfSamples; });
    items.push_back(of_samples);
    return join(items);
  };
  return difference(with(value(kFingerprint), were), with(fingerprint, samples));
}

const char* const kChecksum = "checksum";

uint64_t with_tensor(uint64_t checksum, const std::string& name, const at::Tensor& tensor) {
  auto here = tensor.cpu().contiguous();
  std::string_view bytes(static_cast<const char*>(here.const_data_ptr()), here.nbytes());
  return io::xxh64(bytes, io::xxh64(name, checksum));
}

/// The metadata with a checksum of all bytes, in the order of the names.
io::Metadata with_checksum(const State& state) {
  std::map<std::string, const at::Tensor*> sorted;
  for (const auto& [name, tensor] : state.tensors) sorted[name] = &tensor;
  uint64_t checksum = 0;
  for (const auto& [name, tensor] : sorted) checksum = with_tensor(checksum, name, *tensor);
  auto metadata = state.metadata;
  metadata[kChecksum] = fmt::format("{:016x}", checksum);
  return metadata;
}

/// A state whose bytes are no longer those that were written would be trained on.
void check_bytes(const io::TensorSource& source) {
  for (const auto& file : source.files()) {
    auto written = file->metadata().find(kChecksum);
    if (written == file->metadata().end()) continue;
    uint64_t checksum = 0;
    for (const auto& [name, info] : file->tensors()) {
      checksum = with_tensor(checksum, name, file->tensor(name));
      file->release(name);
    }
    if (fmt::format("{:016x}", checksum) != written->second)
      data_error("checkpoint", "{} is damaged: its bytes are not those that were saved; start from weights that the run saved, with {}",
                 file->path().string(), "--lora_checkpoint or --model");
  }
}

optim::StateList below(const io::TensorSource& source, const std::string& prefix) {
  optim::StateList list;
  auto part = source.below(prefix);
  for (const auto& name : part.names()) list.emplace_back(name, part.tensor(name));
  return list;
}

Progress progress_of(const io::TensorSource& source, const std::filesystem::path& path, const std::string& fingerprint,
                     const std::string& samples = "") {
  auto metadata = source.metadata();
  Progress progress{read_count(metadata, "step", path), read_count(metadata, "batch", path), fingerprint};
  progress.samples = metadata[kSamples];
  if (metadata.contains("loss_scale")) {
    progress.loss_scale = {static_cast<double>(read_count(metadata, "loss_scale", path)), read_count(metadata, "loss_scale_steps", path)};
  }
  if (metadata[kFingerprint] != fingerprint) {
    data_error("checkpoint", "{} belongs to a run with other settings: {}; resume with the same options", path.string(),
               difference(metadata, fingerprint, samples));
  }
  return progress;
}

/// The file of a state, or the index of its parts.
std::filesystem::path state_in(const std::filesystem::path& folder) {
  for (const char* name : {kFile, kIndex}) {
    if (io::is_there(folder / name)) return folder / name;
  }
  data_error("checkpoint", "nothing to resume: {} is not there; take --resume out, or correct --output_path", (folder / kFile).string());
}

io::TensorSource open_state(const std::filesystem::path& folder) { return io::TensorSource::open_folder(folder, {"state"}); }

std::string part_name(int64_t step, int64_t part, int64_t num_parts) {
  return fmt::format("{}{}-{:05}-of-{:05}.safetensors", kPart, step, part + 1, num_parts);
}

/// Removes parts of states, but for those of a step.
void remove_parts(const std::filesystem::path& folder, int64_t but_of_step) {
  auto kept = fmt::format("{}{}-", kPart, but_of_step);
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto name = entry.path().filename().string();
    if (name.starts_with(kPart) && !name.starts_with(kept)) old.push_back(entry.path());
  }
  for (const auto& path : old) std::filesystem::remove(path);
}

}  // namespace

std::optional<int64_t> step_of_state(const io::TensorSource& file) {
  const auto& metadata = file.metadata();
  if (!metadata.contains("fingerprint") || !metadata.contains("batch")) return std::nullopt;
  return read_count(metadata, "step", file.files().front()->path());
}

bool is_there(const std::filesystem::path& folder) { return io::is_there(folder / kFile) || io::is_there(folder / kIndex); }

void check_there(const std::filesystem::path& folder) { state_in(folder); }

Progress read_progress(const std::filesystem::path& folder, const std::string& fingerprint, const std::string& samples) {
  auto path = state_in(folder);
  return progress_of(open_state(folder), path, fingerprint, samples);
}

State state_of(const Trainee& trainee, const Progress& progress) {
  io::NamedTensors tensors;
  for (const auto& [name, value] : optim::values(trainee.optimizer.parameters())) tensors.emplace_back(kParameter + name, value);
  auto is_common = [&, common = trainee.optimizer.common_state()](const std::string& name) {
    return std::ranges::any_of(common, [&](const auto& item) { return item.first == name; });
  };
  const auto& parameters = trainee.optimizer.parameters();
  bool writes_common = parameters.empty() || parameters.front().owned;  // one process does
  for (const auto& [name, value] : trainee.optimizer.state()) {
    if (writes_common || !is_common(name)) tensors.emplace_back(kOptimizer + name, value);
  }
  if (trainee.ema != nullptr) {
    for (const auto& [name, value] : trainee.ema->state()) tensors.emplace_back(kAverage + name, value);
  }
  if (trainee.old_policy != nullptr) {
    for (const auto& [name, value] : trainee.old_policy->state()) tensors.emplace_back(kOldPolicy + name, value);
  }
  if (trainee.drawn != nullptr) {
    for (const auto& [name, value] : *trainee.drawn) tensors.emplace_back(kDrawn + name, value);
  }
  io::Metadata metadata{
      {"step", std::to_string(progress.step)}, {"batch", std::to_string(progress.batch)}, {kFingerprint, progress.fingerprint}};
  if (!progress.samples.empty()) metadata[kSamples] = progress.samples;
  if (progress.loss_scale.in_use()) {
    metadata["loss_scale"] = std::to_string(static_cast<int64_t>(progress.loss_scale.factor));
    metadata["loss_scale_steps"] = std::to_string(progress.loss_scale.good_steps);
  }
  return {tensors, metadata};
}

void save_state(const std::filesystem::path& folder, const State& state) {
  io::save_safetensors(folder / kFile, state.tensors, with_checksum(state));
  std::filesystem::remove(folder / kIndex);
  remove_parts(folder, -1);
}

void save_part(const std::filesystem::path& folder, const State& state, int64_t part, int64_t num_parts) {
  io::save_safetensors(folder / part_name(std::stoll(state.metadata.at("step")), part, num_parts), state.tensors, with_checksum(state));
}

void publish(const std::filesystem::path& folder, int64_t step, int64_t num_parts) {
  nlohmann::json files = nlohmann::json::object();
  int64_t num_bytes = 0;
  for (int64_t part = 0; part < num_parts; ++part) {
    auto name = part_name(step, part, num_parts);
    auto source = io::TensorSource::open({folder / name});
    for (const auto& tensor : source.names()) files[tensor] = name;
    num_bytes += source.num_bytes();
  }
  nlohmann::json index{{"metadata", {{"total_size", num_bytes}}}, {"weight_map", files}};
  io::write_text_atomic(folder / kIndex, index.dump(2) + "\n");
  std::filesystem::remove(folder / kFile);  // which would come first
  remove_parts(folder, step);
}

Progress load_state(const std::filesystem::path& folder, const Trainee& trainee, const std::string& fingerprint) {
  auto& [optimizer, ema, old_policy, drawn] = trainee;
  auto path = state_in(folder);
  auto source = open_state(folder);
  auto progress = progress_of(source, path, fingerprint);
  check_bytes(source);
  bool is_all = optim::owns_all(optimizer.parameters());
  // All parts are compared before any is changed.
  optim::check_state("parameters in " + path.string(), optim::values(optimizer.parameters()), below(source, kParameter), is_all);
  optim::check_state("optimizer state in " + path.string(), optimizer.state(), below(source, kOptimizer), is_all);
  if (ema != nullptr) optim::check_state("moving averages in " + path.string(), ema->state(), below(source, kAverage), is_all);
  if (old_policy != nullptr)
    optim::check_state("averages that draw in " + path.string(), old_policy->state(), below(source, kOldPolicy), is_all);
  if (ema != nullptr) ema->load_state(below(source, kAverage));
  if (old_policy != nullptr) old_policy->load_state(below(source, kOldPolicy));
  if (drawn != nullptr) {
    drawn->clear();
    for (const auto& [name, value] : below(source, kDrawn)) drawn->emplace_back(name, value.clone());  // the file may be replaced
  }
  optimizer.load_state(below(source, kOptimizer));
  optim::load_into("parameters in " + path.string(), optim::values(optimizer.parameters()), below(source, kParameter), is_all);
  return progress;
}

}  // namespace burnish::checkpoint
