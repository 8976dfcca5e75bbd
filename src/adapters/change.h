#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/linear.h"

namespace burnish::adapters {

enum class Kind { lora, loha, lokr, full, oft, boft, ia3, glora, tlora };
std::string_view kind_name(Kind kind);

using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

/// Tells whether a parameter of this name has a row for each row of ΔW.
bool has_rows_of_change(std::string_view name);

/// The sides of the weights [out, in] that a change fits; -1 where any will do.
struct Sides {
  int64_t out = -1, in = -1;
  int64_t in_channels = -1;
};

/// Rows of a fused layer that are a layer of their own here.
struct RowRange {
  int64_t begin = 0, count = 0;  ///< a count of 0 means all rows
};

/// A change is what a weight W [out, in] becomes: W + ΔW, where ΔW may depend on W. Merging and training share it. A bias or the weight of
/// a norm is a W [n, 1]; a convolution's W has a column for each number of a kernel. Where other programs have one layer and we have
/// several (query, key and value), their changes may have the fused layer's parameters, one set of tensors for all of them, and each makes
/// its rows of that ΔW: so they train as the one adapter that they are there.
class Change {
 public:
  explicit Change(double scale, RowRange fused_rows = {}) : scale_(scale), fused_rows_(fused_rows) {}
  virtual ~Change() = default;
  virtual Kind kind() const = 0;
  /// The rank; 0 for kinds that have none.
  virtual int64_t rank() const { return 0; }
  /// The sides of the parameters' ΔW, which is the fused layer's where there are fused_rows.
  virtual Sides sides() const = 0;
  /// Tells whether neither of the parts of the parameters' ΔW above and below `row` depends on rows of W in the other.
  virtual bool splits_at(int64_t) const { return true; }
  /// Tells whether rows of ΔW depend on W, and then perhaps on all of its rows.
  virtual bool needs_weight() const { return false; }
  /// Rows begin to end of ΔW in fp32, without autograd.
  virtual at::Tensor rows(const nn::WeightSource& weight, int64_t begin, int64_t end) const = 0;
  /// How strong the change is, a strength at which it is merged included: the factor of an additive ΔW, and how far a rotation goes from
  /// the identity.
  double scale() const { return scale_; }
  /// The rows of the parameters' ΔW that this change has; splits_at both ends.
  const RowRange& fused_rows() const { return fused_rows_; }
  const Parameters& parameters() const { return parameters_; }

 protected:
  const at::Tensor& parameter(std::string_view name) const;
  bool has(std::string_view name) const;
  /// This change's rows of a parameter whose rows are those of the parameters' ΔW.
  at::Tensor own_rows(const at::Tensor& parameter) const;
  Parameters parameters_;

 private:
  double scale_;
  RowRange fused_rows_;
};

/// The change that parameters make, by what they are called (read_adapter):
/// lora, loha, lokr, full, oft  see make_update; they can be trained, and are Updates
/// oft, boft  W is turned by orthogonal blocks R (Qiu et al. 2023, arXiv 2306.07280; Liu et al. 2023, arXiv 2311.06243):
///            row_rotation [stages, blocks, b, b] from its output's side or column_rotation from its input's, stage after stage; order
///            [stages, n], the rows or columns that the blocks of a stage take, all in their own order without it; rescale [out], factors
///            of rows after that. Scale s turns by I + s (R - I).
/// ia3        W ∘ (1 + s g), row_gain [out, 1] or column_gain [in channels, 1] (Liu et al. 2022, arXiv 2205.05638)
/// glora      ΔW = s (W A1 A2 + B1 B2), a1.weight [in channels, rank], ... (Chavan et al. 2023, arXiv 2306.07967; LyCORIS' form of it)
///            of peft: ΔW = s (W ∘ G1 G2 + B1 B2), with g1.weight [out, rank] and g2.weight [rank, in] in place of A1 and A2
/// tlora      ΔW = s (P diag(λ) Q - W cut to that rank), p_layer.weight [out, rank], q_layer.weight [rank, in], lambda_layer [1, rank]
///            (Soboleva et al. 2025, arXiv 2507.05964, as LyCORIS has it, which starts from W's largest singular values)
/// A set that makes no change of its kind is a std::logic_error.
std::unique_ptr<Change> make_change(Kind kind, Parameters parameters, double scale, RowRange fused_rows = {});

}  // namespace burnish::adapters
