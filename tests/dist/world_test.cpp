#include "dist/world.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "base/error.h"
#include "dist/address.h"
#include "dist/mesh.h"
#include "dist/owners.h"
#include "dist/reduction.h"
#include "dist/store.h"
#include "dist/watch.h"
#include "tests/dist/together.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::dist;
using burnish::test::together;

namespace {

/// Gradients that a process has of batch `number`; parameter 1 has none in odd batches, parameter 2 never.
at::Tensor gradient(int64_t number, int64_t parameter) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 * number + parameter));
  return at::randn({parameter + 2, 3}, generator);
}

/// Sums batches 0 to 7 of two steps, shared out in stretches, as a training step does.
std::vector<at::Tensor> summed(const World& world, bool ordered, std::vector<int64_t> owners = {}, const Mesh* mesh = nullptr) {
  std::vector<at::Tensor> parameters;
  for (int64_t i = 0; i < 3; ++i) parameters.push_back(at::zeros({i + 2, 3}).requires_grad_());
  ReductionOptions options{.ordered = ordered, .bucket_bytes = 40, .owners = std::move(owners)};
  if (mesh != nullptr) options.column = &mesh->column();
  auto reduction = make_reduction(mesh != nullptr ? mesh->row() : world.group(), parameters, options);
  constexpr int64_t kBatches = 8;
  auto mine = kBatches / world.size();
  for (int step = 0; step < 2; ++step) {
    for (auto& parameter : parameters) parameter.mutable_grad() = at::Tensor();
    for (int64_t i = 0; i < mine; ++i) {
      auto number = world.rank() * mine + i;
      if (reduction) reduction->begin(i + 1 == mine);
      for (size_t p = 0; p < 2; ++p) {
        if (p == 1 && number % 2 == 1) continue;
        (parameters[p] * gradient(number, static_cast<int64_t>(p))).sum().backward();
      }
      if (reduction) reduction->ran(i + 1 == mine);
    }
    if (reduction) reduction->finish();
  }
  return {parameters[0].grad(), parameters[1].grad(), parameters[2].grad()};
}

at::Tensor expected(int64_t parameter) {
  auto sum = at::zeros({parameter + 2, 3}, at::kDouble);
  for (int64_t number = 0; number < 8; number += parameter + 1) sum += gradient(number, parameter);
  return sum.to(at::kFloat);
}

}  // namespace

TEST(World, SumsGathersBroadcastsAndExchanges) {
  auto results = together<int>(3, [](const World& world) {
    auto& group = world.group();
    auto rank = static_cast<double>(world.rank());
    for (auto dtype : {at::kFloat, at::kDouble, at::kLong, at::kByte}) {
      auto sum = at::full({5}, rank + 1).to(dtype);
      group.sum(sum)->wait();
      EXPECT_TRUE(at::equal(sum, at::full({5}, 6).to(dtype)));
      auto all = at::empty({3, 2}, at::TensorOptions(dtype));
      group.gather(at::full({2}, rank).to(dtype), all)->wait();
      EXPECT_TRUE(at::equal(all.select(1, 1), at::arange(3).to(dtype)));
      auto of_second = at::full({4}, rank).to(dtype);
      group.broadcast(of_second, 1)->wait();
      EXPECT_TRUE(at::equal(of_second, at::ones({4}).to(dtype)));
    }
    auto theirs = at::empty({3, 1});
    group.exchange(at::arange(3).to(at::kFloat).view({3, 1}) + 10 * rank, theirs)->wait();
    EXPECT_TRUE(at::equal(theirs.view({-1}), at::arange(3) * 10 + static_cast<int64_t>(rank)));
    return 0;
  });
  EXPECT_EQ(results.size(), 3u);
}

TEST(World, TensorsOfDevicesTravelByNcclUnlessADeviceIsMissingOrShared) {
  EXPECT_EQ(why_not_nccl({"a 01", "a 02", "b 01"}), "");
  EXPECT_THAT(why_not_nccl({"a 01", "", "b 01"}), testing::HasSubstr("process 1 has no GPU"));
  EXPECT_THAT(why_not_nccl({"a 01", "a 02", "a 01"}), testing::HasSubstr("processes 0 and 2 compute on one GPU"));
}

TEST(World, TheFirstDecidesAndAllMeet) {
  auto texts = together<std::string>(4, [](const World& world) {
    world.meet("here");
    world.agree("version", "one");
    return world.decided("cut", world.is_first() ? "of the first" : "of another");
  });
  EXPECT_THAT(texts, testing::Each("of the first"));
}

TEST(World, DifferencesAreNamedEverywhere) {
  auto errors = together<std::string>(3, [](const World& world) -> std::string {
    try {
      world.agree("options", world.rank() == 2 ? "b" : "a");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  });
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr("process 2 has other options than process 0 (b and a)")));
}

TEST(World, CollectivesThatDoNotMatchAreErrorsEverywhere) {
  auto errors = together<std::string>(
      2,
      [](const World& world) -> std::string {
        try {
          world.group().sum(at::ones({world.is_first() ? 4 : 5}))->wait();
        } catch (const Error& error) {
          return error.what();
        }
        return "";
      },
      /*all_end_well=*/false);
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr("mismatch")));
}

TEST(World, AProcessThatFailsIsNamedToTheOthers) {
  auto errors = together<std::string>(
      3,
      [](const World& world) -> std::string {
        if (world.rank() == 1) {
          world.fail("the disk is full");
          return "";
        }
        try {
          world.agree("what process 1 never says", "");
        } catch (const Error& error) {
          return error.what();
        }
        return "nothing was thrown";
      },
      /*all_end_well=*/false);
  EXPECT_EQ(errors[1], "");
  EXPECT_THAT(errors[0], testing::HasSubstr("process 1 of 3 ended: the disk is full"));
  EXPECT_THAT(errors[2], testing::HasSubstr("process 1 of 3 ended: the disk is full"));
}

TEST(World, OneThatDoesNotComeIsNamedByOneOfTheOthers) {
  auto store = serve_store("127.0.0.1", 0);
  std::vector<std::string> errors(2);
  std::vector<int> tell(2);
  std::vector<std::thread> threads;
  for (size_t rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      auto number = static_cast<int64_t>(rank);
      Seat seat{.rank = number, .size = 3, .local_rank = number, .local_size = 3, .launcher = "a test", .host = "127.0.0.1"};
      seat.port = store->port();
      seat.launcher_serves = true;
      World world(seat);
      try {
        world.join(c10::Device(c10::kCPU), 0.5);
      } catch (const Error& error) {
        errors[rank] = error.what();
        tell[rank] = world.fail("it waits for process 2") ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(errors, testing::Contains(testing::HasSubstr("of 3 processes 2 did not come within")));
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr("process")));
  EXPECT_EQ(tell[0] + tell[1], 1);
}

TEST(World, ANameThatNoMachineHasIsSaidOnceItWasWaitedFor) {
  constexpr double kPatience = 0.5;
  auto start = std::chrono::steady_clock::now();
  auto error = test::error_of([&] { dist::join_store("no-such-machine.invalid", 29500, "run/0", kPatience); }, Exit::config);
  EXPECT_THAT(error, testing::HasSubstr("no machine is called no-such-machine.invalid"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::duration<double>(kPatience)) << "it may be known a little later";
}

TEST(Watch, WithoutAStoreOneProcessOfEachMachineTells) {
  auto tells = [](int64_t rank, int64_t local_rank, bool launcher_serves) {
    Seat seat{.rank = rank, .size = 8, .local_rank = local_rank, .local_size = 4, .launcher = "a test", .host = "first"};
    seat.launcher_serves = launcher_serves;
    return tells_without_store(seat);
  };
  EXPECT_TRUE(tells(1, 1, false));  // process 0 had the store
  EXPECT_FALSE(tells(2, 2, false));
  EXPECT_TRUE(tells(4, 0, false));
  EXPECT_FALSE(tells(5, 1, false));
  EXPECT_TRUE(tells(0, 0, true));
  EXPECT_FALSE(tells(1, 1, true));
}

TEST(Address, IsThatFromWhichTheOtherIsReached) {
  EXPECT_EQ(address_towards("127.0.0.1", 29500), "127.0.0.1");
  EXPECT_EQ(address_towards("no such machine", 29500), "");
  EXPECT_FALSE(machine_name().empty());
}

TEST(Reduction, SumsWhatProcessesHave) {
  for (int64_t size : {1, 2, 4}) {
    for (const auto& gradients : together<std::vector<at::Tensor>>(size, [](const World& world) { return summed(world, false); })) {
      for (int64_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(gradients[static_cast<size_t>(i)], expected(i), 1e-6, 1e-6));
      EXPECT_FALSE(gradients[2].defined()) << "no process has one";
    }
  }
}

TEST(Reduction, OrderedSumsDoNotDependOnTheNumberOfProcesses) {
  auto of_one = together<std::vector<at::Tensor>>(1, [](const World& world) { return summed(world, true); }).front();
  for (int64_t size : {2, 4, 8}) {
    for (const auto& gradients : together<std::vector<at::Tensor>>(size, [](const World& world) { return summed(world, true); })) {
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(gradients[i], of_one[i])) << size << " processes, parameter " << i;
      EXPECT_FALSE(gradients[2].defined());
    }
  }
  EXPECT_TRUE(at::allclose(of_one[0], expected(0), 1e-6, 1e-6));
}

TEST(Reduction, OwnersAloneKeepTheSums) {
  auto of_one = together<std::vector<at::Tensor>>(1, [](const World& world) { return summed(world, true); }).front();
  for (bool ordered : {false, true}) {
    for (int64_t size : {2, 4}) {
      const std::vector<int64_t> owners{0, 1, 1};
      auto all = together<std::vector<at::Tensor>>(size, [&](const World& world) { return summed(world, ordered, owners); });
      for (size_t rank = 0; rank < all.size(); ++rank) {
        for (size_t i = 0; i < 2; ++i) {
          const auto& gradient = all[rank][i];
          ASSERT_EQ(gradient.defined(), owners[i] == static_cast<int64_t>(rank)) << "parameter " << i << " on process " << rank;
          if (!gradient.defined()) continue;
          EXPECT_TRUE(!ordered || at::equal(gradient, of_one[i])) << size << " processes, parameter " << i;
          EXPECT_TRUE(at::allclose(gradient, expected(static_cast<int64_t>(i)), 1e-6, 1e-6));
        }
        EXPECT_FALSE(all[rank][2].defined());
      }
    }
  }
}

TEST(Reduction, OwnersOfEveryRowKeepTheSumsOfAll) {
  auto of_one = together<std::vector<at::Tensor>>(1, [](const World& world) { return summed(world, true); }).front();
  for (bool ordered : {false, true}) {
    const std::vector<int64_t> owners{1, 0, 1};
    auto all = together<std::vector<at::Tensor>>(4, [&](const World& world) {
      Mesh mesh(world, 2);
      EXPECT_EQ(mesh.is_first_row(), world.rank() < 2);
      return summed(world, ordered, owners, &mesh);
    });
    for (size_t rank = 0; rank < all.size(); ++rank) {
      for (size_t i = 0; i < 2; ++i) {
        ASSERT_EQ(all[rank][i].defined(), owners[i] == static_cast<int64_t>(rank % 2)) << "parameter " << i << " on process " << rank;
        if (!all[rank][i].defined()) continue;
        EXPECT_TRUE(!ordered || at::equal(all[rank][i], of_one[i]));
        EXPECT_TRUE(at::equal(all[rank][i], all[(rank + 2) % 4][i])) << "rows have the same bits";
        EXPECT_TRUE(at::allclose(all[rank][i], expected(static_cast<int64_t>(i)), 1e-6, 1e-6));
      }
    }
  }
}

/// Two batches, of whose gradients each of two places has a part; so many groups of them share the batches out.
std::vector<at::Tensor> summed_in_places(int64_t num_groups, bool ordered) {
  return together<at::Tensor>(2 * num_groups, [&](const World& world) {
    Mesh mesh(world, 0, 2);
    auto parameter = at::zeros({2, 3}).requires_grad_();
    auto reduction = make_reduction(world.group(), {parameter}, {.ordered = ordered, .places = mesh.places()});
    const int64_t mine = 4 / num_groups, seat = world.rank() % 2;
    for (int64_t i = 0; i < mine; ++i) {
      reduction->begin(i + 1 == mine);
      (parameter * gradient(10 * (world.rank() / 2 * mine + i) + seat, 0)).sum().backward();
      reduction->ran(i + 1 == mine);
    }
    reduction->finish();
    return parameter.grad();
  });
}

TEST(Reduction, PlacesAreSummedAheadOfBatches) {
  auto of_one = summed_in_places(1, true);
  for (int64_t num_groups : {1, 2, 4}) {
    for (const auto& sum : summed_in_places(num_groups, true)) EXPECT_TRUE(at::equal(sum, of_one[0])) << num_groups;
    for (const auto& sum : summed_in_places(num_groups, false)) EXPECT_TRUE(at::allclose(sum, of_one[0], 1e-6, 1e-6)) << num_groups;
  }
}

TEST(Reduction, GradientsThatBackwardAddsToTwiceTravelTwiceInTheFirstStep) {
  auto gradients = together<at::Tensor>(2, [](const World& world) {
    auto twice = at::ones({3}).requires_grad_(), once = at::ones({3}).requires_grad_();
    auto reduction = make_reduction(world.group(), {twice, once}, {.bucket_bytes = 8, .owners = {0, 0}});
    for (int step = 0; step < 2; ++step) {
      twice.mutable_grad() = once.mutable_grad() = at::Tensor();
      reduction->begin(true);
      (twice * 2).sum().backward();
      (twice * 3 + once).sum().backward();
      reduction->ran(true);
      reduction->finish();
    }
    return twice.grad();
  });
  EXPECT_TRUE(at::equal(gradients[0], at::full({3}, 10.)));
  EXPECT_FALSE(gradients[1].defined());
}

TEST(Reduction, StepsOfAKindReachWhatTheFirstOfItReached) {
  for (const auto& owners : {std::vector<int64_t>(), std::vector<int64_t>{0, 0}}) {
    auto gradients = together<std::vector<at::Tensor>>(2, [&](const World& world) {
      std::vector<at::Tensor> parameters{at::ones({3}).requires_grad_(), at::ones({3}).requires_grad_()}, sums;
      auto reduction = make_reduction(world.group(), parameters, {.bucket_bytes = 8, .owners = owners});
      for (size_t step = 0; step < 4; ++step) {
        for (auto& parameter : parameters) parameter.mutable_grad() = at::Tensor();
        reduction->begin(true, static_cast<int64_t>(step % 2));
        (parameters[step % 2] * static_cast<double>(step + 1)).sum().backward();
        reduction->ran(true);
        reduction->finish();
        for (auto& parameter : parameters) sums.push_back(parameter.grad());
      }
      return sums;
    });
    for (size_t step = 0; step < 4; ++step) {
      EXPECT_TRUE(at::equal(gradients[0][2 * step + step % 2], at::full({3}, 2. * static_cast<double>(step + 1)))) << step;
      EXPECT_FALSE(gradients[0][2 * step + (step + 1) % 2].defined()) << step;
    }
  }
}

TEST(Reduction, KnowsWhoseGradientsWereNotFinite) {
  for (bool ordered : {false, true}) {
    for (const auto& owners : {std::vector<int64_t>(), std::vector<int64_t>{0, 1}}) {
      auto finite = together<std::vector<bool>>(3, [&](const World& world) {
        std::vector<at::Tensor> parameters{at::ones({3}).requires_grad_(), at::ones({2}).requires_grad_()};
        auto reduction = make_reduction(world.group(), parameters, {.ordered = ordered, .bucket_bytes = 8, .owners = owners});
        std::vector<bool> steps;
        for (int step = 0; step < 3; ++step) {
          for (auto& parameter : parameters) parameter.mutable_grad() = at::Tensor();
          for (int batch = 0; batch < 2; ++batch) {
            reduction->begin(batch == 1);
            double factor = step == 1 && batch == 0 && world.rank() == 2 ? std::nan("") : 1;
            (parameters[0] * factor + parameters[1].sum()).sum().backward();
            reduction->ran(batch == 1);
          }
          reduction->finish();
          steps.push_back(reduction->was_finite());
        }
        return steps;
      });
      for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(finite[rank], (std::vector<bool>{true, rank != 2, true})) << rank << " " << ordered;
    }
  }
}

TEST(Owners, AreStretchesOfAboutOneSize) {
  EXPECT_EQ(owners_of({1, 1, 1, 1, 4, 4}, 3), (std::vector<int64_t>{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(owners_of({100, 1, 1}, 2), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(owners_of({5, 5}, 1), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(owners_of({}, 2), std::vector<int64_t>());
}

TEST(Owners, ShareTheBitsOfTheirTensors) {
  const std::vector<int64_t> owners{0, 0, 1, 2};
  auto made = [](double number) {
    return std::vector<at::Tensor>{at::full({7}, number), at::full({2, 3}, number).t(), at::full({9}, number).to(at::kBFloat16),
                                   at::full({5}, number).to(at::kByte)};
  };
  auto all = together<std::vector<at::Tensor>>(3, [&](const World& world) {
    auto tensors = made(1 + static_cast<double>(world.rank()));
    std::vector<Owned> owned;
    for (size_t i = 0; i < tensors.size(); ++i) owned.push_back({owners[i], tensors[i], static_cast<int64_t>(tensors[i].nbytes())});
    if (world.rank() == 2) owned[0].tensor = tensors[0] = at::Tensor();  // is not wanted there
    share(world.group(), owned, /*piece_bytes=*/11);
    return tensors;
  });
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t i = 0; i < owners.size(); ++i) {
      if (rank == 2 && i == 0) continue;
      EXPECT_TRUE(at::equal(all[rank][i], made(1 + static_cast<double>(owners[i]))[i])) << "tensor " << i << " on process " << rank;
    }
  }
}
