// Processes that are killed, stopped, cut off or fail alone: the others end soon, with one sentence that says whose fault it was, and the
// run goes on from what is on disk as if nothing had happened.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include "data/cache.h"
#include "tests/integration/processes.h"
#include "tests/integration/together.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const std::string kEndless =
    "--batch_size 1 --global_batch_size 4 --reduction ordered --save_steps 2 --keep_last 1 --write_report false --max_steps 100000 ";

class Faults : public Together {
 protected:
  /// Processes as srun starts them: the first serves the store. `before`: what stands before the program of process `rank`.
  std::vector<Running> start(int64_t count, const std::string& options, const std::function<std::string(int64_t)>& before = {}) const {
    auto port = free_port();
    std::vector<Running> processes;
    for (int64_t rank = 0; rank < count; ++rank) {
      auto variables = fmt::format("env RANK={0} WORLD_SIZE={1} LOCAL_RANK={0} LOCAL_WORLD_SIZE={1} MASTER_ADDR=127.0.0.1 MASTER_PORT={2} ",
                                   rank, count, port);
      auto command =
          variables + (before ? before(rank) : "") + quoted(test::kProgram) + " " + arguments("run", options) + "--num_threads 1";
      processes.emplace_back(command, folder / ("output-" + std::to_string(rank)));
    }
    return processes;
  }
  Running launch(int64_t count, const std::string& options, const std::string& run = "run") const {
    return {fmt::format("{} launch -n {} -- {} --num_threads 1", quoted(test::kProgram), count, arguments(run, options)),
            folder / "output"};
  }
  /// The processes that a launcher started, by rank.
  static std::vector<pid_t> children_of(pid_t launcher) {
    std::stringstream list(read_file(fmt::format("/proc/{0}/task/{0}/children", launcher)));
    return {std::istream_iterator<pid_t>(list), {}};
  }
  /// Whether a process that another one started is no more, though perhaps nobody has asked yet how it ended.
  static bool has_ended(pid_t process) {
    auto stat = read_file(fmt::format("/proc/{}/stat", process));
    return stat.empty() || stat.substr(stat.rfind(')') + 1).starts_with(" Z");
  }

  size_t steps() const {
    auto log = read_file(folder / "run/log.jsonl");
    return static_cast<size_t>(std::ranges::count(log, '\n'));
  }
  void wait_for_steps(size_t count) const {
    ASSERT_TRUE(within(120, [&] { return steps() >= count; })) << "the run did not come to step " << count;
  }
  /// Until a state is on disk: the save after step 4 waits for that after step 2, which is written while training goes on.
  void wait_for_state() const { wait_for_steps(5); }
  /// All but one have ended so many seconds from now, and said what ended them in one sentence.
  static void expect_end(std::vector<Running>& processes, size_t but, double seconds, const std::string& sentence) {
    EXPECT_TRUE(within(seconds, [&] {
      bool all = true;
      for (size_t rank = 0; rank < processes.size(); ++rank) all = (rank == but || processes[rank].has_ended()) && all;
      return all;
    })) << "a process goes on";
    std::string output;
    for (size_t rank = 0; rank < processes.size(); ++rank) {
      output += processes[rank].output();
      if (rank == but) continue;
      EXPECT_EQ(processes[rank].exit_code(), 3) << "process " << rank;
    }
    EXPECT_THAT(sentences(output), ElementsAre(HasSubstr(sentence))) << output;
  }
  /// What is on disk is that of a run that nothing happened to, and so is what one process makes of it.
  void expect_intact() const {
    auto step = std::stoll(io::TensorSource::open_folder(folder / "run/state", {"state"}).metadata().at("step"));
    train(0, "whole", kEndless + "--max_steps " + std::to_string(step));
    expect_same_state("run", "whole");
    EXPECT_EQ(weights("run", step), weights("whole", step));
    auto further = "--resume --max_steps " + std::to_string(step + 2);
    train(0, "run", kEndless + further);
    train(0, "whole", kEndless + further);
    expect_same_state("run", "whole");
  }
};

}  // namespace

TEST_F(Faults, OneThatIsKilledIsNamedAndTheRestEnds) {
  auto processes = start(4, kEndless);
  wait_for_state();
  processes[2].send(SIGKILL);
  expect_end(processes, 2, 5, "process 2 of 4 is gone or does not answer");
  auto status = records::read_status(folder / "run").value();
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_THAT(status.sentence, HasSubstr("process 2 of 4 is gone or does not answer"));
  EXPECT_EQ(status.stage, "train");
  expect_intact();
}

TEST_F(Faults, TheFirstOneTakesTheStoreWithIt) {
  auto processes = start(4, kEndless);
  wait_for_state();
  processes[0].send(SIGKILL);
  expect_end(processes, 0, 5, "process 0, which keeps the store where processes meet, is gone");
  expect_intact();
}

TEST_F(Faults, OneThatIsStoppedIsNamed) {
  auto processes = start(4, kEndless);
  wait_for_state();
  processes[1].send(SIGSTOP);
  expect_end(processes, 1, 20, "process 1 of 4 is gone or does not answer");
  expect_intact();
}

TEST_F(Faults, AStoreThatDoesNotAnswerIsNamed) {
  auto processes = start(3, kEndless);
  wait_for_state();
  processes[0].send(SIGSTOP);
  expect_end(processes, 0, 20, "process 0, which keeps the store where processes meet, does not answer");
  processes.clear();  // it still holds the run's folder
  expect_intact();
}

TEST_F(Faults, TheLauncherSaysWhatEndedAProcess) {
  auto launcher = launch(4, kEndless + "--zero_stage 2 ");
  wait_for_state();
  auto children = children_of(launcher.pid());
  ASSERT_EQ(children.size(), 4u);
  ::kill(children[3], SIGKILL);
  ASSERT_TRUE(launcher.ends_within(5));
  EXPECT_EQ(launcher.exit_code(), 128 + SIGKILL);
  EXPECT_THAT(sentences(launcher.output()), ElementsAre(HasSubstr("process 3 of 4 was ended by signal 9 (Killed)"))) << launcher.output();
  expect_intact();
}

TEST_F(Faults, TheLauncherDoesNotWaitForOneThatIsStopped) {
  auto launcher = launch(2, kEndless);
  wait_for_steps(3);
  auto children = children_of(launcher.pid());
  ASSERT_EQ(children.size(), 2u);
  ::kill(children[1], SIGSTOP);
  ASSERT_TRUE(launcher.ends_within(26));
  EXPECT_EQ(launcher.exit_code(), 3);
  EXPECT_THAT(sentences(launcher.output()), ElementsAre(HasSubstr("process 1 of 2 is gone or does not answer"))) << launcher.output();
}

TEST_F(Faults, ALauncherThatIsGoneEndsThem) {
  auto launcher = launch(3, kEndless);
  wait_for_steps(3);
  auto children = children_of(launcher.pid());
  launcher.send(SIGKILL);
  EXPECT_TRUE(within(5, [&] { return std::ranges::all_of(children, has_ended); }));
  EXPECT_THAT(sentences(launcher.output()), ElementsAre(HasSubstr("the launcher, which keeps the store where processes meet, is gone")))
      << launcher.output();
}

TEST_F(Faults, AnErrorOfOneEndsAll) {
  fs::create_directories(folder / "pictures");
  fs::copy(kGolden / "pictures", folder / "pictures");
  std::ofstream(folder / "pictures/3.png", std::ios::binary | std::ios::in).seekp(60) << std::string(20, 'x');
  auto processes = start(4, "--max_steps 2 --dataset_metadata_path " + quoted(folder / "pictures/metadata.csv"));
  expect_end(processes, 4, 30, "3.png");
}

TEST_F(Faults, ALossThatIsNotFiniteSaysWhere) {
  train(0, "made", "--max_steps 1 --cache_path " + quoted(folder / "cache"));
  data::Cache made(folder / "cache"), damaged(folder / "damaged");
  for (const auto& entry : fs::directory_iterator(folder / "cache")) {
    if (!fs::exists(entry.path() / "unit.json")) continue;
    auto& from = made.section(entry.path().filename().string());
    auto description = nlohmann::json::parse(from.description());
    auto& to = damaged.section(description["unit"].get<std::string>(), description);
    bool is_first = description["unit"] == "encode_image";
    for (const auto& key : from.keys()) {
      auto tensors = from.at(key);
      for (auto& [name, tensor] : tensors) {
        tensor = tensor.clone();
        if (is_first && tensor.is_floating_point()) tensor.fill_(std::nan(""));
      }
      is_first = false;
      to.add(key, tensors);
    }
    to.flush();
  }
  auto processes = start(4, "--max_steps 8 --cache_path " + quoted(folder / "damaged"));
  expect_end(processes, 4, 60, "are not finite on process ");
}

TEST_F(Faults, ADiskThatIsFullForOneEndsAll) {
  auto whole = kEndless + "--trainable_models dit --zero_stage 1 ";
  auto limited = [](int64_t rank) { return rank == 2 ? std::string("sh -c 'ulimit -f 32; exec \"$0\" \"$@\"' ") : std::string(); };
  auto processes = start(4, whole, limited);
  expect_end(processes, 4, 60, "-00003-of-00004.safetensors");
  EXPECT_FALSE(fs::exists(folder / "run/state/state.safetensors.index.json")) << "a state without one of its parts";
}

TEST_F(Faults, ASmallDiskOfOneEndsAll) {
  if (std::system("unshare -m mount -t tmpfs none /mnt >/dev/null 2>&1") != 0) GTEST_SKIP() << "only root can mount a small file system";
  fs::create_directories(folder / "run/state");
  auto mount = "unshare -m sh -c 'mount -t tmpfs -o size=32k none \"$1\" && shift && exec \"$@\"' sh " + quoted(folder / "run/state") + " ";
  auto processes = start(2, kEndless + "--trainable_models dit --zero_stage 2 ", [&](int64_t rank) { return rank == 1 ? mount : ""; });
  expect_end(processes, 2, 60, "No space left on device");
}

/// Whether a process has a handler for a signal (proc_pid_status(5)).
static bool handles(pid_t process, int number) {
  std::smatch found;
  auto status = read_file(fmt::format("/proc/{}/status", process));
  return std::regex_search(status, found, std::regex("SigCgt:\\s*([0-9a-f]+)")) &&
         ((std::stoull(found[1], nullptr, 16) >> (number - 1)) & 1) != 0;
}

TEST_F(Faults, WaitingForANameThatNoMachineHasEndsByASignal) {
  auto variables = "env RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=no-such-machine.invalid MASTER_PORT=29500 ";
  Running waiting(variables + quoted(test::kProgram) + " " + arguments("run", "--max_steps 2 "), folder / "output");
  ASSERT_TRUE(within(60, [&] { return handles(waiting.pid(), SIGTERM); }));
  waiting.send(SIGTERM);
  ASSERT_TRUE(waiting.ends_within(30));
  EXPECT_EQ(waiting.exit_code(), 130);
  EXPECT_THAT(sentences(waiting.output()),
              ElementsAre(HasSubstr("interrupted while waiting for the others at no-such-machine.invalid:29500")))
      << waiting.output();
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST_F(Faults, PartnersThatRunDifferentVerbsAreToldOfIt) {
  auto port = free_port();
  std::vector<Running> processes;
  for (int64_t rank = 0; rank < 2; ++rank) {
    auto variables =
        fmt::format("env RANK={0} WORLD_SIZE=2 LOCAL_RANK={0} LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={1} ", rank, port);
    auto command =
        rank == 0 ? arguments("run", "--max_steps 2 ") : "cache " + model + data + "--cache_path " + quoted(folder / "cache") + " ";
    processes.emplace_back(variables + quoted(test::kProgram) + " " + command + "--num_threads 1",
                           folder / ("output-" + std::to_string(rank)));
  }
  std::string output;
  for (auto& process : processes) {
    ASSERT_TRUE(process.ends_within(60)) << process.output();
    EXPECT_EQ(process.exit_code(), 2) << process.output();
    output += process.output();
  }
  EXPECT_THAT(sentences(output), ElementsAre(HasSubstr("process 1 has other verbs than process 0 (cache and train)"))) << output;
}

TEST_F(Faults, OneThatComesLateIsWaitedFor) {
  auto processes =
      start(2, "--max_steps 2 ", [](int64_t rank) { return rank == 0 ? std::string("sh -c 'sleep 3; exec \"$0\" \"$@\"' ") : ""; });
  for (auto& process : processes) {
    ASSERT_TRUE(process.ends_within(60));
    EXPECT_EQ(process.exit_code(), 0) << process.output();
  }
}

/// BURNISH_KILLS in the environment kills more often.
TEST_F(Faults, KilledAtAnyInstantARunEndsAsOneThatWasNot) {
  const std::string options = "--batch_size 1 --global_batch_size 4 --reduction ordered --save_steps 1 --max_steps 12 --zero_stage 2 ";
  auto begin = std::chrono::steady_clock::now();
  train(2, "whole", options);
  auto whole_ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin).count();
  const char* asked = std::getenv("BURNISH_KILLS");
  int num_kills = asked ? std::atoi(asked) : 10;
  std::mt19937 random(15);
  for (int i = 0; i < num_kills; ++i) {
    if (i % 5 == 0) fs::remove_all(folder / "run");
    auto launcher = launch(2, options + "--auto_resume ");
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(0, whole_ms)(random)));
    auto children = children_of(launcher.pid());
    if (!children.empty()) ::kill(children[random() % children.size()], SIGKILL);
    ASSERT_TRUE(launcher.ends_within(children.empty() ? 60 : 8)) << "kill " << i << "\n" << launcher.output();
    EXPECT_LE(sentences(launcher.output()).size(), 1u) << "kill " << i << "\n" << launcher.output();
    if (i % 5 != 4) continue;
    auto rest = try_train(2, "run", options + "--auto_resume");
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    expect_same_state("run", "whole");
    EXPECT_EQ(weights("run", 12), weights("whole", 12)) << "after kill " << i;
    EXPECT_EQ(read_log(folder / "run").size(), 12u);
  }
}

using FaultsUnderTorchrun = Faults;

TEST_F(FaultsUnderTorchrun, AreStartedAgain) {
  auto packages = fs::path(test::kCheckout) / ".deps/golden";
  if (!fs::exists(packages / "torch/distributed")) GTEST_SKIP() << "torchrun is not there: ./dev golden installs it";
  const std::string options = "--batch_size 1 --global_batch_size 4 --reduction ordered --save_steps 1 --max_steps 30 --auto_resume ";
  auto command = fmt::format(
      "env PYTHONPATH={} OMP_NUM_THREADS=1 python3 -m torch.distributed.run --no-python --standalone --nproc_per_node 2 --max-restarts 2 "
      "{} {} "
      "--num_threads 1",
      quoted(packages), quoted(test::kProgram), arguments("run", options));
  Running torchrun(command, folder / "output");
  wait_for_steps(4);
  auto children = children_of(torchrun.pid());
  auto is_burnish = [](pid_t child) { return read_file(fmt::format("/proc/{}/comm", child)) == "burnish\n"; };
  std::erase_if(children, [&](pid_t child) { return !is_burnish(child); });
  ASSERT_EQ(children.size(), 2u);
  ::kill(children[1], SIGKILL);
  ASSERT_TRUE(torchrun.ends_within(120));
  EXPECT_EQ(torchrun.exit_code(), 0) << torchrun.output();
  train(0, "whole", options);
  EXPECT_EQ(weights("run", 30), weights("whole", 30));
  EXPECT_EQ(read_log(folder / "run").size(), 30u);
}

TEST_F(Faults, ALinkThatIsCutIsFoundOnBothSides) {
  if (std::system("unshare -m -n sh -c 'mount -t tmpfs none /run && ip netns add b && ip link add v0 type veth peer name v1 netns b' "
                  ">/dev/null 2>&1") != 0)
    GTEST_SKIP() << "network namespaces and virtual links are not allowed here";
  auto script = folder / "cut.sh";
  auto program = quoted(test::kProgram) + " " + arguments("run", kEndless) + "--num_threads 1";
  std::ofstream(script) << "mount -t tmpfs none /run && ip netns add b && ip link add v0 type veth peer name v1 netns b\n"
                        << "ip addr add 10.9.8.1/24 dev v0; ip link set v0 up; ip link set lo up\n"
                        << "ip netns exec b sh -c 'ip addr add 10.9.8.2/24 dev v1; ip link set v1 up; ip link set lo up'\n"
                        << "export WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.9.8.1 MASTER_PORT=29500\n"
                        << "RANK=0 " << program << " >" << quoted(folder / "output-0") << " 2>&1 & first=$!\n"
                        << "RANK=1 ip netns exec b " << program << " >" << quoted(folder / "output-1") << " 2>&1 & second=$!\n"
                        << "while [ ! -e " << quoted(folder / "cut") << " ]; do sleep 0.1; done\n"
                        << "ip link set v0 down\n"
                        << "wait $first; one=$?; wait $second; [ $one$? = 33 ]\n";
  Running both("unshare -m -n sh " + quoted(script), folder / "output");
  wait_for_state();
  std::ofstream(folder / "cut") << "";
  ASSERT_TRUE(both.ends_within(20));
  EXPECT_EQ(both.exit_code(), 0) << both.output();
  EXPECT_THAT(sentences(read_file(folder / "output-0")), ElementsAre(HasSubstr("process 1 of 2 (on ")));
  EXPECT_THAT(sentences(read_file(folder / "output-1")), ElementsAre(HasSubstr("process 0, which keeps the store where processes meet,")));
  expect_intact();
}
