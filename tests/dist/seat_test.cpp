#include "dist/seat.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

using namespace burnish;
using namespace burnish::dist;

namespace {

Seat seat_in(const std::map<std::string, std::string>& variables) {
  return find_seat([&](const std::string& name) {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

std::string refusal(const std::map<std::string, std::string>& variables) {
  try {
    seat_in(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Seat, WithoutALauncherAProcessIsAlone) {
  EXPECT_EQ(seat_in({}).size, 1);
  EXPECT_EQ(seat_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"}}).size, 1);
}

TEST(Seat, Torchrun) {
  auto seat = seat_in({{"RANK", "5"},
                       {"WORLD_SIZE", "8"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "10.0.0.1"},
                       {"MASTER_PORT", "29400"},
                       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                       {"TORCHELASTIC_RUN_ID", "job7"},
                       {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(seat.rank, 5);
  EXPECT_EQ(seat.size, 8);
  EXPECT_EQ(seat.local_rank, 1);
  EXPECT_EQ(seat.local_size, 4);
  EXPECT_EQ(seat.host, "10.0.0.1");
  EXPECT_EQ(seat.port, 29400);
  EXPECT_TRUE(seat.launcher_serves);
  EXPECT_EQ(seat.attempt, "job7/2");
}

TEST(Seat, PyTorchJobSaysNothingOfTheMachine) {
  auto seat = seat_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "master-0"}, {"MASTER_PORT", "23456"}});
  EXPECT_EQ(seat.local_rank, 0);
  EXPECT_EQ(seat.local_size, 1);
  EXPECT_FALSE(seat.launcher_serves);
}

TEST(Seat, SlurmStep) {
  std::map<std::string, std::string> variables{{"SLURM_PROCID", "3"},
                                               {"SLURM_NTASKS", "4"},
                                               {"SLURM_LOCALID", "1"},
                                               {"SLURM_NTASKS_PER_NODE", "2"},
                                               {"SLURM_STEP_NODELIST", "n[07-8]"},
                                               {"SLURM_JOB_ID", "4097"}};
  auto seat = seat_in(variables);
  EXPECT_EQ(seat.rank, 3);
  EXPECT_EQ(seat.local_size, 2);
  EXPECT_EQ(seat.host, "n07");
  EXPECT_EQ(seat.port, 61441);
  variables["MASTER_ADDR"] = "elsewhere";
  EXPECT_EQ(seat_in(variables).host, "elsewhere");
  variables.erase("SLURM_STEP_NODELIST");  // the job's script, not a step of it
  EXPECT_EQ(seat_in(variables).size, 1);
}

TEST(Seat, Mpi) {
  auto open = seat_in({{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(open.rank, 1);
  EXPECT_EQ(open.host, "127.0.0.1") << "all on one machine";
  EXPECT_NE(refusal({{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .find("MASTER_ADDR"),
            std::string::npos);
  EXPECT_EQ(seat_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "h"}}).rank, 1);
}

TEST(Seat, NumbersThatDoNotFitAreRefused) {
  EXPECT_NE(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}), "");
  EXPECT_NE(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}), "");
  EXPECT_NE(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}), "");
}

TEST(Seat, HalfOfWhatALauncherSaysIsRefused) {
  EXPECT_NE(refusal({{"RANK", "0"}}).find("has RANK and not WORLD_SIZE"), std::string::npos);
  EXPECT_NE(refusal({{"WORLD_SIZE", "2"}}).find("has WORLD_SIZE and not RANK"), std::string::npos);
  EXPECT_EQ(seat_in({{"SLURM_PROCID", "0"}}).size, 1) << "a script of a job";
  for (const char* port : {"0", "99999"}) {
    auto said = refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", port}});
    EXPECT_NE(said.find("MASTER_PORT must be from 1 to 65535"), std::string::npos) << port;
  }
}

TEST(Seat, FirstHostOfAList) {
  EXPECT_EQ(first_host("a[001-003,7],b"), "a001");
  EXPECT_EQ(first_host("b,a[1-2]"), "b");
  EXPECT_EQ(first_host("node5"), "node5");
  EXPECT_EQ(first_host("n[3,5]x,y"), "n3x");
}
