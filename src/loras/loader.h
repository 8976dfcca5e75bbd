#pragma once
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "loras/merged.h"
#include "models/model/block_by_block.h"
#include "models/registry.h"
#include "pipeline/unit.h"

namespace burnish::loras {

/// Loads the models that units run, and drops them again. What somebody else holds loaded is used as it is: it is not loaded a second time,
/// and it is not dropped.
class Loader {
 public:
  using LoadPart = std::function<void(const std::string& part)>;
  /// `held` names what the caller has loaded and keeps loaded for as long as this lives. `load_part` loads a part of the model where that
  /// is more than models::Components::load. `merged` are files whose strengths may change meanwhile; null: none.
  explicit Loader(models::Model& model, std::vector<std::string> held = {}, LoadPart load_part = {}, Merged* merged = nullptr)
      : model_(model), held_(std::move(held)), load_part_(std::move(load_part)), merged_(merged) {}

  models::Model& model() const { return model_; }
  /// Tells whether the merged files have other strengths than these; none, as of who merges no files, are no others.
  bool would_merge_anew(const std::vector<double>& strengths) const { return !strengths.empty() && strengths != merged_->strengths(); }
  /// Tells whether what is loaded may stay loaded while strengths change: weights that `load_part` placed elsewhere are not found there.
  bool merges_in_place() const { return !load_part_; }
  /// Merges the files at these strengths (Merged::set_strengths).
  void merge_at(const std::vector<double>& strengths) {
    if (would_merge_anew(strengths)) merged_->set_strengths(strengths);
  }

  /// Has these text encoders read block by block (models/model/block_by_block.h) by those who run what was loaded by `Loaded::run`, unless
  /// files are merged into them whose strengths may change.
  void read_by_block(std::set<std::string> encoders) { by_block_ = std::move(encoders); }

  /// Models that are loaded for as long as this lives; its Loader outlives it.
  class Loaded {
   public:
    Loaded(Loaded&& other) noexcept : loader_(other.loader_), names_(std::exchange(other.names_, {})), blocks_(std::move(other.blocks_)) {}
    Loaded& operator=(Loaded&&) = delete;
    ~Loaded();
    /// Calls `work` with the numbers from 0 on; `goes_on` is asked in between. Returns whether it said no to nothing.
    bool run(int64_t count, const std::function<void(int64_t)>& work, const std::function<bool()>& goes_on);

   private:
    friend class Loader;
    explicit Loaded(Loader& loader) : loader_(loader) {}
    Loader& loader_;
    std::vector<std::string> names_;
    std::unique_ptr<models::BlockByBlock> blocks_;  ///< of what is read so; null: nothing is
  };

  /// Loads those models of the units that are not loaded yet.
  [[nodiscard]] Loaded load(const pipeline::Units& units) { return load(units, {}); }
  /// The same for units that are run by Loaded::run.
  [[nodiscard]] Loaded load_to_run(const pipeline::Units& units) { return load(units, by_block_); }

 private:
  Loaded load(const pipeline::Units& units, const std::set<std::string>& by_block);
  bool is_merged_anew(const std::string& name) const { return merged_ != nullptr && model_.components().holding(name).merge != nullptr; }
  std::vector<std::string> missing(const std::string& component, const std::vector<std::string>& wanted) const;

  models::Model& model_;
  std::vector<std::string> held_;  ///< components that the caller holds, and those that are loaded here at present
  LoadPart load_part_;
  Merged* merged_;
  std::set<std::string> by_block_ = {};
};

}  // namespace burnish::loras
