#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace c10 {
struct IValue;
}

namespace burnish::kernels {

class Product;
using ProductPtr = std::shared_ptr<const Product>;

/// A layer's product of its input with a weight W that is viewed as a matrix [out, columns]: y = x Wᵀ, or a convolution whose kernels are
/// the rows of W. Weight sources and adapters are written against this, and so serve linear layers and convolutions alike. Operands are
/// without autograd and of one dtype, unless said otherwise; rows of W may be any part of a layer's.
class Product {
 public:
  virtual ~Product() = default;
  /// The dimension where x and y have their channels, counted from the end; everything before it are batch dimensions.
  virtual int64_t channel_dim() const = 0;
  /// Columns of W that belong to one channel of x: 1, or the places of a kernel.
  virtual int64_t columns_per_channel() const = 0;
  /// The shape that rows of W have as a parameter and in files.
  virtual std::vector<int64_t> weight_sizes(int64_t rows, int64_t columns) const = 0;
  /// The product with a weight that only mixes channels of y, such as LoRA's B.
  virtual ProductPtr pointwise() const = 0;

  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& w_OI, const at::Tensor& bias = {}) const = 0;
  virtual at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& w_OI, at::IntArrayRef x_sizes) const = 0;
  /// Computes the gradient of the weight, [channels of dy, columns].
  virtual at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) const = 0;
  /// Computes base + scale · forward(x, w).
  virtual at::Tensor add(const at::Tensor& base, const at::Tensor& x, const at::Tensor& w_OI, double scale) const = 0;
  /// sum += scale · forward(x, w), and sum += input_gradient(dy, w): in place, so that what is as large as a layer's output or input is not
  /// copied. Both of the sum's dtype.
  virtual void add_(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& w_OI, double scale) const = 0;
  virtual void add_input_gradient_(const at::Tensor& sum, const at::Tensor& dy, const at::Tensor& w_OI) const = 0;
  /// Tells whether the product itself reads what those two add to, and they take no longer than without.
  virtual bool adds() const = 0;
  /// The product with a parameter (in the shape of weight_sizes) with autograd, in x's dtype. bias [out] or undefined.
  virtual at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const = 0;
  /// The gradient of `multiply` by x, without autograd and in dy's dtype.
  virtual at::Tensor multiply_back(const at::Tensor& dy, const at::Tensor& weight, at::IntArrayRef x_sizes) const = 0;

  /// Wraps the product for an autograd function to keep.
  static c10::IValue keep(const ProductPtr& product);
  static ProductPtr kept(const c10::IValue& value);
};

/// A weight by what a layer does with it. Without autograd and in its operand's dtype.
class Multiplier {
 public:
  virtual ~Multiplier() = default;
  /// The product of x with W, plus bias ([out] or undefined).
  virtual at::Tensor forward(const Product& product, const at::Tensor& x, const at::Tensor& bias) const = 0;
  virtual at::Tensor input_gradient(const Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const = 0;

  /// Tells whether add_ and add_input_gradient_ of an operand like this take no longer than the products alone.
  virtual bool adds(const Product& /*product*/, const at::Tensor& /*operand*/) const { return false; }
  /// sum += the product of x with W, of one dtype.
  virtual void add_(const Product& product, const at::Tensor& sum, const at::Tensor& x) const;
  /// sum += the gradient of x; in a dtype of products, which may be wider than dy's.
  virtual void add_input_gradient_(const Product& product, const at::Tensor& sum, const at::Tensor& dy) const;
};

/// x [..., in], W [out, in] -> [..., out].
ProductPtr matrix_product();

/// Says how kernels lie over an input, a number for each dimension that they slide over: one for sound, two for pictures, three for clips.
struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  /// An input may be shorter than the kernel along the first dimension: then zeros lie before it, and it meets the kernel's end alone.
  bool causal = false;

  /// The same along each of `rank` dimensions, without dilation.
  static Window cube(size_t rank, int64_t kernel, int64_t stride = 1, int64_t padding = 0);
};

/// x [B, in, places...], weight [out, in, kernel...] -> [B, out, places'...].
ProductPtr convolution(const Window& window);

/// Sums over everything but the channels.
at::Tensor sum_to_channels(const at::Tensor& x, int64_t channel_dim);

}  // namespace burnish::kernels
