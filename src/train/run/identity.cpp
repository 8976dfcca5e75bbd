#include "train/run/identity.h"

#include <fmt/core.h>

#include "base/text.h"
#include "io/hash.h"

namespace burnish::train {

namespace {

/// How the samples of a dataset are visited, in words.
std::string text_of(const data::VisitRule& rule) {
  const auto& c = rule.captions;
  auto text = fmt::format("{} {} {} {} {} {} {}\n{}\n{}\n{}\n", rule.num_repeats, rule.of_class_set, c.dropout, c.wildcards, c.shuffle,
                          c.tag_dropout, c.keep_tokens, c.keep_separator, c.separator, c.secondary_separator);
  if (rule.slider_strength != 1) text += fmt::format("at {}\n", rule.slider_strength);
  return text;
}

std::string text_of(const data::Augmentation& a) {
  auto text = fmt::format("{} {}", a.random_crop, a.random_flip);
  if (a.fixed_flip) text += " mirrored";
  for (const auto& amount : {a.rotate, a.brightness, a.contrast, a.saturation, a.hue})
    if (a.alters()) text += fmt::format(" {} {}", amount.random, amount.fixed);
  return text + "\n";
}

/// The hashes of the samples' files; none of a cache's list, whose pictures are not read again.
std::vector<std::string> hashes_of_files(const Opened& run) {
  if (!run.settings.data.from_pictures) return {};
  std::vector<std::filesystem::path> files;
  for (const auto& sample : run.samples().list) {
    if (!sample.row.file.empty()) files.emplace_back(sample.row.file);
    for (const auto& [column, file] : sample.row.further) files.emplace_back(file);
  }
  return run.cache->hashes().hash(files);
}

/// Says how often each size is there: "512x512 (12) and 768x512 (3)", width before height.
std::string sizes_in_words(const Samples& samples) {
  constexpr size_t kMostNamed = 4;
  std::map<std::string, int64_t> counts;
  for (const auto& sample : samples.list) ++counts[text_of(sample.extent)];
  std::vector<std::string> named;
  for (const auto& [size, count] : counts) named.push_back(fmt::format("{} ({})", size, count));
  if (named.size() <= kMostNamed) return join(named, " and ");
  const auto hash = io::sha256(join(named, "\n")).substr(0, 8);
  named.resize(kMostNamed);
  return fmt::format("{} and {} more {}", join(named, " and "), counts.size() - kMostNamed, hash);
}

/// Names the samples: their pictures' names, sizes and contents, their captions, and how they are visited and varied.
std::string hash_of(const Opened& run, const std::vector<std::string>& files) {
  const auto& samples = run.samples();
  io::Sha256 hash;
  for (const auto& set : samples.sets) hash.update(text_of(set));
  hash.update(fmt::format("{} variants\n", samples.num_variants));
  for (const auto& subset : samples.pictures ? samples.pictures->options().subsets : std::vector<data::Subset>())
    hash.update(text_of(subset.augmentation));
  for (const auto& content : files) hash.update(content);
  for (const auto& sample : samples.list) {
    auto name = std::filesystem::path(sample.row.file).filename().string();
    hash.update(fmt::format("{} {} {} {} {}\n{}\n", sample.number, name.size(), name, spelled(sample.extent), sample.row.prompt.size(),
                            sample.row.prompt));
    hash.update(fmt::format("{} {}\n", sample.row.subset, sample.row.loss_weight));
    if (!sample.row.cells.empty()) hash.update(sample.row.cells.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    for (const auto& caption : sample.row.captions)
      hash.update(fmt::format("{} {} {}\n", caption.weight, caption.text.size(), caption.text));
  }
  return hash.hex().substr(0, 8);
}

/// The components that train whole, and those that predict.
std::set<std::string> trained_and_denoisers(const Subject& subject) {
  auto components = subject.chosen.whole_components();
  for (const auto& component : subject.model->names().denoisers()) components.insert(component);
  for (const auto& expert : subject.chosen.experts) components.insert(expert.component);
  return components;
}

/// Names the weights that training starts from or leaves as they are, by a look into their files.
std::string hash_of_weights(const Opened& run) {
  const auto components = trained_and_denoisers(run.subject);
  io::Sha256 hash;
  for (const auto& component : components) {
    for (const auto& file : run.subject.model->components().provenance(component).files) hash.update(io::sampled_hash(file));
  }
  return hash.hex().substr(0, 8);
}

/// Names the frozen models that make of pictures and captions what is trained on, with their vocabularies and what their configs say.
std::string hash_of_encoders(const Opened& run) {
  auto units = run.schedule.after_once();
  if (run.settings.data.from_pictures) units.insert(units.end(), run.schedule.once.units.begin(), run.schedule.once.units.end());
  const auto others = trained_and_denoisers(run.subject);
  const auto& components = run.subject.model->components();
  io::Sha256 hash;
  for (const auto& component : pipeline::components_of(units)) {
    if (others.contains(component)) continue;
    const auto* entry = components.source(component).entry;
    if (entry != nullptr) hash.update(component + " " + entry->config.dump() + "\n");
    for (const auto& file : components.provenance(component).files) hash.update(io::sampled_hash(file));
  }
  return hash.hex().substr(0, 8);
}

std::string samples_in_words(const Opened& run, const std::vector<std::string>& files) {
  const auto& samples = run.samples();
  io::Sha256 captions, pictures, visits;
  for (const auto& set : samples.sets) visits.update(text_of(set));
  for (const auto& subset : samples.pictures ? samples.pictures->options().subsets : std::vector<data::Subset>())
    visits.update(text_of(subset.augmentation));
  for (const auto& content : files) pictures.update(content);
  for (const auto& sample : samples.list) {
    pictures.update(std::filesystem::path(sample.row.file).filename().string() + "\n");
    captions.update(fmt::format("{}\n", sample.row.prompt));
    for (const auto& caption : sample.row.captions) captions.update(fmt::format("{} {}\n", caption.weight, caption.text));
    visits.update(fmt::format("{} {} {}\n", sample.row.subset, sample.row.loss_weight,
                              sample.row.cells.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  const auto short_of = [](io::Sha256& hash) { return hash.hex().substr(0, 8); };
  return fmt::format("sizes {}, captions {}, pictures {}, repeats or columns of samples {}", sizes_in_words(samples), short_of(captions),
                     short_of(pictures), short_of(visits));
}

}  // namespace

Identity identity_of(const Opened& run) {
  const auto files = hashes_of_files(run);
  const auto& chosen = run.subject.chosen;
  auto text = fingerprint(run.settings.given, run.settings.course.visits_a_batch(), chosen.text(run.subject.model->names()),
                          chosen.has_adapters(), !chosen.whole_components().empty(), std::ssize(run.samples().list));
  text += fmt::format(", pictures with captions and sizes {}, weights of the model {}, text encoders and autoencoder {}",
                      hash_of(run, files), hash_of_weights(run), hash_of_encoders(run));
  if (run.subject.model->names().experts.size() > 1) {
    for (const auto& expert : chosen.experts) text += ", expert " + expert.name;
  }
  for (const auto& [component, names] : run.subject.model->names().components) {
    auto merge = run.subject.model->components().holding(component).merge;
    if (!merge) continue;
    auto hashes = run.cache->hashes().hash(merge->files());
    for (auto& hash : hashes) hash.resize(8);
    text += fmt::format(", presets {} {} in {}", join(hashes), merge->settings(), component);
  }
  return {text, samples_in_words(run, files)};
}

}  // namespace burnish::train
