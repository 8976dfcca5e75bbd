#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint_files.h"

namespace burnish::io {

/// A rule between a tensor's name in a file and our parameter names. `{}` stands for one path segment, which is equal on both sides and in
/// order; a rule without `{}` is a plain name.
struct KeyRule {
  enum class Op {
    copy,         ///< the values as they are
    stack_rows,   ///< the file's tensor is ours stacked along the first dimension, in order (a fused qkv)
    swap_halves,  ///< the two halves along the first dimension trade places
    transpose,    ///< a matrix whose rows are our columns
    reshape,      ///< the values in another shape (a 1×1 convolution that is a linear layer here)
    channels,     ///< one number for each channel, in the file between dimensions of one: [1, C, 1, 1]
    last_frame,   ///< the last slice in time of a causal kernel [O, I, T, h, w], all that meets a picture; or that slice itself
  };
  std::string theirs;
  std::vector<std::string> ours;
  Op op = Op::copy;
};

/// Rules between the names of a file layout and ours, both ways. An empty map is the identity. A name that no rule knows is kept as it is;
/// a rule for just this name goes before rules with `{}`.
class KeyMap {
 public:
  KeyMap() = default;
  explicit KeyMap(std::vector<KeyRule> rules);

  struct Match {
    std::vector<std::string> ours;
    KeyRule::Op op;
  };
  /// Finds the parameters that a name in the file stands for.
  Match to_ours(const std::string& theirs) const;

  /// The rules, without wildcards, that make a file of our tensors of these names, each of which is in one of them.
  std::vector<KeyRule> to_file(const std::vector<std::string>& ours) const;
  /// Our tensors under the file's names, for writing; the way back of loading.
  NamedTensors to_file(const NamedTensors& ours) const;

 private:
  std::vector<KeyRule> rules_;
  std::map<std::string, size_t> plain_;  ///< rules without `{}` by their name in the file
  std::vector<size_t> patterns_;         ///< the others
};

/// The file's tensor by a rule, made of ours in its order.
at::Tensor tensor_in_file(const KeyRule& rule, const std::vector<at::Tensor>& ours);

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// The shapes of a source under our names, as far as they can be told from a file (stacked tensors are split evenly only when that is
/// exact).
Shapes shapes_in_our_names(const TensorSource& source, const KeyMap& keys);

/// The codes that parameters of these shapes come as, by our names and on the meta device; those that come as numbers are not among them.
std::map<std::string, Codes> codes_in_our_names(const TensorSource& source, const KeyMap& keys, const Shapes& wanted);

/// Accounts for every key by the files' headers alone: what is missing from `wanted`, unexpected, of another shape, or no floating-point
/// numbers goes into one data Error with the first few of each and their counts.
void check_named(const TensorSource& source, const KeyMap& keys, const Shapes& wanted, const std::string& what);

/// One of our tensors as a file has it: numbers in our shape, or codes where its rows are rows of the file's codes.
struct InFile {
  at::Tensor numbers = {};  ///< undefined where there are codes
  std::optional<Codes> codes = {};
};

/// Hands every tensor of `source` to `place` under our name, one at a time, after check_named. The pages of a tensor are given back once
/// it is placed, so a file that is read through never lies in memory beside what was made of it.
void load_named(const TensorSource& source, const KeyMap& keys, const Shapes& wanted,
                const std::function<void(const std::string& name, const InFile& in_file)>& place, const std::string& what);

/// Reads what is ours in one of the file's tensors.
std::map<std::string, InFile> load_from(const TensorSource& source, const std::string& theirs, const KeyMap& keys, const Shapes& wanted);

/// Reads one of the tensors that load_named would place; std::logic_error for another.
InFile load_one(const TensorSource& source, const KeyMap& keys, const Shapes& wanted, const std::string& name);

}  // namespace burnish::io
