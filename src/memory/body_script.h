#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/books.h"

// Inside of Repeats: what a block's body takes and frees, written down so that it can be told again.
namespace burnish::memory {

/// Describes a tensor beside its numbers and its memory.
struct Geometry {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;

  bool operator==(const Geometry&) const = default;
};
Geometry geometry_of(const at::Tensor& tensor);
std::string text_of(const Geometry& geometry);
/// Moves a tensor by so many bytes within its storage.
Geometry moved(Geometry geometry, int64_t num_bytes);
/// Makes a tensor on the meta device in a storage.
at::Tensor tensor_in(c10::Storage storage, const Geometry& geometry);
/// Makes a storage that holds `data` in place of numbers.
c10::Storage storage_of(c10::DataPtr data, int64_t num_bytes);

/// A tensor that a body makes, and where it lies: in memory that the body took, in that of an input or of a gradient that came, from the
/// base of that on (bases_of).
struct MadeTensor {
  enum class In { nothing, own, input, gradient } in = In::nothing;
  size_t which = 0;
  Geometry geometry = {};
  bool requires_grad = false;

  bool operator==(const MadeTensor&) const = default;
};

/// One thing that happens to memory, in a body's own count of the blocks that it takes, of its inputs, its outputs and the gradients of
/// these.
struct Move {
  enum class Does { take, free, drop_gradient, drop_input, drop_output, accumulate } does;
  int64_t which;  ///< of what is taken, its bytes

  bool operator==(const Move&) const = default;
};

/// A body's forward.
struct BodyForward {
  std::vector<Move> moves = {};
  std::vector<MadeTensor> outputs = {};
  std::vector<size_t> kept = {};               ///< blocks that its graph alone holds at the end
  std::set<size_t> held_inputs, held_outputs;  ///< those whose memory its graph holds too, numbered by storage
  std::set<size_t> reached;                    ///< inputs that its graph leads to
  double multiplications = 0;
};

/// Says what goes with an output of a body that nobody has any longer.
struct BodyDrop {
  std::vector<Move> moves = {};
  std::set<size_t> reached = {};  ///< inputs that what is left leads to
};

/// A body's backward, for gradients of one kind.
struct BodyBackward {
  struct Accumulated {
    size_t parameter;
    MadeTensor gradient;
    bool is_last = false;  ///< whether nothing else is said of the memory afterwards

    bool operator==(const Accumulated&) const = default;
  };
  std::vector<Move> moves = {};
  std::vector<Accumulated> accumulated = {};  ///< those that moves name by number
  std::vector<MadeTensor> gradients = {};     ///< of the inputs
  std::vector<size_t> at_end = {};            ///< blocks that the graph holds until it ends
  double multiplications = 0;

  bool operator==(const BodyBackward&) const = default;
};

/// Writes moves down as they happen. What happens while a parameter's gradient is added is left out: it happens again by itself.
class BodyScript final : public Listener {
 public:
  void taken(size_t number, int64_t num_bytes) override;
  void freed(size_t number) override;
  /// Is told that the graph holds the memory of an input or an output no longer.
  void dropped(Move::Does does, size_t which);
  void accumulates(size_t parameter, const at::Tensor& gradient, const Books& books);
  /// Goes on with backward, for which gradients lie in these blocks, by number, from these bytes on. Own blocks are counted on.
  void begin_backward(std::unordered_map<size_t, size_t> gradients, std::vector<int64_t> bases);
  /// Begins after a forward that took `count` blocks, the first of this number, of which `alive` are left.
  void begin_after(size_t first, size_t count, const std::vector<size_t>& alive);

  /// Finds where a storage lies.
  MadeTensor made(const at::Tensor& tensor, const Books& books) const;
  bool has_dropped(Move::Does does, size_t which) const;
  /// Returns which of the own blocks has this number in the books; nothing for another block.
  std::optional<size_t> own(size_t number) const;
  /// Returns the own blocks that were taken and not freed.
  std::vector<size_t> alive() const;

  std::vector<Move> moves = {};
  std::vector<BodyBackward::Accumulated> accumulated = {};
  bool is_listening = false;
  bool is_whole = true;  ///< false where something happened to memory that is of no body

 private:
  std::unordered_map<size_t, size_t> own_, gradients_;  ///< by the books' number
  std::vector<int64_t> bases_;                          ///< of gradients
  std::vector<bool> is_freed_;                          ///< of own blocks
  std::set<std::pair<Move::Does, size_t>> dropped_;
};

/// Has a script listen while it lives.
class Listening {
 public:
  Listening(Books& books, BodyScript& script);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  Books& books_;
  BodyScript& script_;
};

/// Makes what the storage of an input or an output holds while a body that is written down sees it: the memory, by its storage, and who is
/// told when the graph lets go of it.
c10::DataPtr told_of(std::shared_ptr<BodyScript> script, Move::Does does, size_t which, c10::Storage memory);
/// Returns the storage that stands behind such a one; nothing for another.
std::optional<size_t> stands_for(const c10::Storage& storage);

}  // namespace burnish::memory
