// Kernels for GPUs as far as a machine without one shows it: which is chosen, and what it is given.
#include "kernels/launch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "kernels/place.h"

using namespace burnish::kernels;

namespace {

const unsigned char kImage[1] = {0};

Binary binary(const char* name, int capability, const char* arguments = "x:P") {
  return {name, "forward", capability, 4, 0, arguments, kImage, 1};
}

template <class T>
T value_at(const void* place) {
  T value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

}  // namespace

TEST(Kernels, AreChosenByComputeCapability) {
  const std::vector<Binary> list{binary("a", 80), binary("a", 86), binary("a", 90), binary("a", 120), binary("b", 80)};
  auto chosen = [&](const char* name, int capability) {
    const auto* found = choose(list, name, capability);
    return found == nullptr ? 0 : found->capability;
  };
  EXPECT_EQ(chosen("a", 80), 80);
  EXPECT_EQ(chosen("a", 87), 86);
  EXPECT_EQ(chosen("b", 89), 80);  // what was compiled for an older GPU of the same major number
  EXPECT_EQ(chosen("a", 90), 90);
  EXPECT_EQ(chosen("a", 75), 0);
  EXPECT_EQ(chosen("a", 121), 0);  // from 9.0 on only the very one
  EXPECT_EQ(chosen("b", 90), 0);
  EXPECT_EQ(chosen("c", 80), 0);
  EXPECT_TRUE(runs_any(list, 89));
  EXPECT_FALSE(runs_any(list, 75));
  EXPECT_FALSE(runs_any(list, 100));
}

TEST(Kernels, ArgumentsArePackedInTheirOrder) {
  auto x = at::zeros({16});
  PackedArguments packed(
      binary("a", 80, "x:P y:p rows:i width:I eps:f key:u"),
      {{"x", x}, {"y", at::Tensor()}, {"rows", int64_t{7}}, {"width", int64_t{48}}, {"eps", 0.5}, {"key", int64_t{0xFFFFFFFF}}});
  ASSERT_EQ(packed.size(), 8U);  // and two pointers to scratch memory
  EXPECT_EQ(value_at<void*>(packed.places()[0]), x.data_ptr());
  EXPECT_EQ(value_at<void*>(packed.places()[1]), nullptr);
  EXPECT_EQ(value_at<int32_t>(packed.places()[2]), 7);
  EXPECT_EQ(value_at<int32_t>(packed.places()[3]), 48);
  EXPECT_EQ(value_at<float>(packed.places()[4]), 0.5F);
  EXPECT_EQ(value_at<uint32_t>(packed.places()[5]), 0xFFFFFFFFU);
  EXPECT_EQ(value_at<void*>(packed.places()[6]), nullptr);
  EXPECT_EQ(value_at<void*>(packed.places()[7]), nullptr);
}

TEST(Kernels, ArgumentsThatDoNotFitAreRefused) {
  auto kernel = binary("a", 80, "x:P rows:i width:I eps:f");
  auto x = at::zeros({16});
  auto refused = [&](std::vector<Argument> arguments) {
    EXPECT_THROW(PackedArguments(kernel, arguments), std::logic_error) << "argument " << arguments.size();
  };
  Argument rows{"rows", int64_t{3}}, width{"width", int64_t{32}}, eps{"eps", 1e-6};
  EXPECT_NO_THROW(PackedArguments(kernel, {{"x", x}, rows, width, eps}));
  refused({{"x", x}, rows, width});                                    // one is missing
  refused({{"x", x}, rows, width, eps, eps});                          // one too many
  refused({{"x", x}, width, rows, eps});                               // another order
  refused({{"x", x}, rows, width, {"eps", int64_t{1}}});               // another kind
  refused({{"x", x}, rows, {"width", int64_t{24}}, eps});              // no multiple of 16
  refused({{"x", x.narrow(0, 1, 8)}, rows, width, eps});               // nor this address
  refused({{"x", x}, {"rows", int64_t{1} << 31}, width, eps});         // beyond 32 bits
  refused({{"x", at::Tensor()}, rows, width, {"eps", at::Tensor()}});  // a tensor for a number
}

TEST(Kernels, AreNamedByDtypeAndConstants) {
  EXPECT_EQ(kernel_name("op.forward", kernel_dtype(at::kBFloat16), {4096, 1}), "op.forward.bf16.4096.1");
  EXPECT_TRUE(kernel_dtype(at::kHalf).empty());
  EXPECT_EQ(block_of_row(3072), 4096);
  EXPECT_EQ(block_of_row(8192), 8192);
  EXPECT_EQ(block_of_row(8193), 0);
  EXPECT_FALSE(is_aligned(at::zeros({9}).narrow(0, 1, 8)));
  EXPECT_TRUE(is_aligned(contiguous_aligned(at::zeros({9}).narrow(0, 1, 8))));
}
