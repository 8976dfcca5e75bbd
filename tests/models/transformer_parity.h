#pragma once
#include <torch/csrc/autograd/autograd.h>

#include "memory/recompute.h"
#include "nn/block.h"
#include "tests/models/load.h"

// What every transformer is held to beside a golden file, which has "out" for its inputs, "out_weight" and "grad.*": those of a loss that
// is the sum over what comes out, by these weights.
namespace burnish::test {

inline void backward(const at::Tensor& out, const io::TensorSource& file) {
  torch::autograd::backward({(out * on_device(file.tensor("out_weight"))).sum()}, {});
}

/// What came out of the model, and the gradients of all its parameters, are those of the file.
inline void expect_parity(nn::Module& model, const io::TensorSource& file, const at::Tensor& out, double bound) {
  EXPECT_LE(relative_error(out, file.tensor("out")), tolerance(bound));
  backward(out, file);
  expect_digests(model, file.below("grad."));
}

inline void recompute_blocks(nn::Module& model) {
  for (auto* block : nn::blocks_below(model)) block->runner = memory::recompute();
}

inline void expect_equal_gradients(nn::Module& one, nn::Module& other) {
  auto others = other.parameters();
  for (auto& [path, slot] : one.parameters()) EXPECT_TRUE(at::equal(slot->grad(), others.at(path)->grad())) << path;
}

/// Of two models that are loaded alike one recomputes its blocks in backward, and has the other's gradients bit for bit.
template <class Transformer, class Run>
void expect_recomputed_equal(std::unique_ptr<Transformer> plain, std::unique_ptr<Transformer> recomputed, const io::TensorSource& file,
                             const Run& run) {
  recompute_blocks(*recomputed);
  for (auto* model : {plain.get(), recomputed.get()}) backward(run(*model), file);
  expect_equal_gradients(*plain, *recomputed);
}

/// Two samples together are what each is alone.
template <class RunOne>
void expect_samples(const at::Tensor& together, const RunOne& run_one) {
  for (int64_t b = 0; b < 2; ++b) EXPECT_LE(relative_error(together.narrow(0, b, 1), run_one(b)), tolerance(1e-5)) << b;
}

/// The same of a golden batch, and what stands behind a caption's own tokens is not read.
template <class Run>
void expect_samples(const CaptionedBatch& batch, const Run& run) {
  at::NoGradGuard no_grad;
  auto together = run(batch);
  expect_samples(together, [&](int64_t b) { return run(batch.one(b)); });
  EXPECT_TRUE(at::equal(run(batch.filled_otherwise()), together));
}

}  // namespace burnish::test
