#pragma once
#include <functional>
#include <map>
#include <set>

#include "io/key_map.h"
#include "nn/linear.h"

namespace burnish::models {

/// A change that is merged into a component's parameters while they are read; implemented by `loras/`.
class Merge {
 public:
  virtual ~Merge() = default;
  /// Tells whether the parameter of this name ("blocks.0.to_q.weight") changes.
  virtual bool touches(const std::string& name) const = 0;
  /// Changes a parameter, which the layer holds in fp32. Biases and weights of norms are matrices [n, 1]. `parameter_of` gives in this way
  /// what another parameter is before it changes.
  using ParameterOf = std::function<at::Tensor(const std::string& name)>;
  virtual void apply(const std::string& name, nn::LinearMap& layer, const ParameterOf& parameter_of) const = 0;
  /// The first names the files that decide what changes, the second says the rest in a few words.
  virtual std::vector<std::filesystem::path> files() const = 0;
  virtual std::string settings() const = 0;
};

/// A component's tensors in its files, and what becomes of them.
struct Reading {
  io::TensorSource tensors;
  const io::KeyMap& keys;
  std::string what;                  ///< the component's name in messages
  at::TensorOptions options;         ///< options of its parameters
  nn::WeightStore* store = nullptr;  ///< takes weights of linear layers and convolutions; null: they are parameters
  const Merge* merge = nullptr;      ///< changes parameters before they are rounded to what they are held in; null: nothing does
};

/// Fills `module`, which was built on the meta device, with the tensors of a file, one at a time: each is read, changed, converted or
/// stored, and placed before the next is touched. Codes (models/files/coded_weights.h) go into the store as they are, and become numbers
/// elsewhere. Missing, unexpected and misshapen names are one data Error before anything is read (io::load_named); a weight that is not
/// finite, or not in the dtype it is to have, is one that names it. `placed`, where it is not empty, is called after each.
void load_weights(nn::Module& module, const Reading& reading, const std::function<void()>& placed = {});

/// Reads some parameters anew, by their names; `skeleton` is the module as it was built, on the meta device. Deltas on them are told.
void reload_weights(nn::Module& module, nn::Module& skeleton, const std::set<std::string>& names, const Reading& reading);

/// Has a module hold the very weights of another one, which was built in the same way, and nothing of its own.
void share_weights(nn::Module& module, nn::Module& of);

/// Hands the weights of a module that was made without a file to `store`, which leaves some of them parameters.
void store_weights(nn::Module& module, nn::WeightStore& store, c10::Device device);

/// Does what load_weights does without numbers: parameters of the skeleton are placed one at a time on the meta device, as codes without
/// numbers where `store` (null: nowhere) turns weights into codes. `tensors` (null: from no file) say which weights come as codes.
void place_shapes(nn::Module& skeleton, const io::TensorSource* tensors, const io::KeyMap& keys, nn::WeightStore* store,
                  const Merge* merge);

/// The weights of a module in pieces, one for each of some modules within it and one for all else. A piece is read when it is asked for, as
/// load_weights reads it, or made as place_shapes makes it on the meta device, as often as it is, and given up again.
class WeightPieces {
 public:
  /// `module` and `bare` were built alike, on the meta device; the latter keeps what stands where nothing is read. Of the modules within
  /// `module` none lies in another.
  WeightPieces(nn::Module& module, std::unique_ptr<nn::Module> bare, Reading reading, const std::vector<nn::Module*>& within);
  ~WeightPieces();

  /// Reads what lies in none of the modules.
  void read_rest();
  /// Reads the weights of the module of this number.
  void read(size_t number);
  void give_up(size_t number);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

/// Returns the shapes of a module's parameters, by their paths.
io::Shapes shapes_of(nn::Module& module);

/// The form in which a store will hold a module's weights, from names and shapes alone.
struct StoragePlan {
  int64_t num_bytes = 0;                 ///< bytes of the whole module
  int64_t num_stored = 0, num_kept = 0;  ///< linear layers and convolutions held as codes, and as parameters
  int64_t stored_elements = 0, elements = 0;
  std::set<std::string> codes;  ///< the kinds of codes that weights lie as in the file, of those that are held as codes
};
/// `on_meta` is the module on the meta device, `merge` (null: nothing) what will be merged into it.
StoragePlan plan_storage(nn::Module& on_meta, const io::TensorSource* tensors, const io::KeyMap& keys, const nn::WeightStore& store,
                         const Merge* merge);

}  // namespace burnish::models
