#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/codes.h"
#include "kernels/product/product.h"

namespace burnish::nn {

/// The storage of the weight W [out, in] of a linear layer or convolution, and its product: a parameter, or codes and
/// scales (`quant/`). Nothing else touches the storage, so an adapter or an optimizer never meets a tensor it cannot add
/// to.
class WeightSource : public kernels::Multiplier {
 public:
  virtual int64_t in_features() const = 0;
  virtual int64_t out_features() const = 0;
  virtual c10::Device device() const = 0;
  virtual int64_t num_bytes() const = 0;
  /// The tensors that hold W where it is no parameter, sharing storage.
  virtual std::vector<at::Tensor> tensors() const { return {}; }

  /// The layer's product of x with W, plus bias ([out] or undefined), with autograd and in x's dtype.
  virtual at::Tensor multiply(const kernels::ProductPtr& product, const at::Tensor& x, const at::Tensor& bias) const = 0;
  /// The leaf where the gradient of a W that trains and is no parameter arrives, in the shape that W has as a parameter. It takes no memory
  /// for numbers, and holds none.
  virtual at::Tensor gradient_leaf() const { return {}; }
  /// Rows begin to end of W in fp32 or in `dtype`, without autograd.
  at::Tensor rows(int64_t begin, int64_t end) const { return rows_in(at::kFloat, begin, end); }
  virtual at::Tensor rows_in(c10::ScalarType dtype, int64_t begin, int64_t end) const = 0;

  /// A function that gives rows begin to end of a W, fp32.
  using Rows = std::function<at::Tensor(int64_t begin, int64_t end)>;
};

/// The weight of a linear layer or convolution on its way from a file.
struct FileWeight {
  at::Tensor numbers = {};  ///< [out, in] or [out, in, kernel...]; undefined where there are codes
  std::optional<Codes> codes = {};
  std::optional<CodeKind> in_file = {};  ///< the kind of codes that numbers were in the file, before they were changed
  std::vector<int64_t> sizes() const { return codes ? codes->sizes : numbers.sizes().vec(); }
};

/// Decides how the weight of a linear layer or convolution is held while a model is loaded; implemented by `quant/`.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  /// Returns a source for the weight `name`; null leaves it a parameter. A data Error names a weight whose values cannot be held.
  virtual std::shared_ptr<WeightSource> store(const std::string& name, const FileWeight& weight, c10::Device device) = 0;
  /// Describes in a few words what decides the numbers that layers compute with; "" when these are the file's own.
  virtual std::string settings() const = 0;
  /// Counts the bytes of the source that `store` returns for a weight, which may be on the meta device; -1 for a parameter.
  virtual int64_t num_bytes(const std::string& name, const FileWeight& weight) const = 0;
};

/// Rows that a tile of W has, a multiple of the 128 that scales of blocks cover: a tile is near a quarter of a million elements on a CPU,
/// so that a product finds it in the cache and no large blocks come and go between a step's tensors. Elsewhere it is 128 million, which
/// holds all but the widest layers whole: parts of a GPU's products cost a pass over their sums each.
int64_t tile_rows(int64_t in_features, c10::Device device);

/// W v and Wᵀ u of a few columns v [in, N] and u [out, N], without autograd: tiles of W, and the columns, in `dtype`, whatever W is stored
/// in. The results, [out, N] and [in, N], are fp32.
at::Tensor times_columns(const WeightSource& weight, const at::Tensor& v_IN, c10::ScalarType dtype);
at::Tensor transposed_times_columns(const WeightSource& weight, const at::Tensor& u_ON, c10::ScalarType dtype);

/// Calls `fn` with the bounds of every tile of rows of a W [out, in].
void for_each_tile(int64_t out_features, int64_t in_features, c10::Device device,
                   const std::function<void(int64_t begin, int64_t end)>& fn);
void for_each_tile(const WeightSource& weight, const std::function<void(int64_t begin, int64_t end)>& fn);

}  // namespace burnish::nn
