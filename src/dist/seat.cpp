#include "dist/seat.h"

#include <cstdlib>

#include "base/input_error.h"
#include "base/number.h"

namespace burnish::dist {

namespace {

/// The variables of a launcher.
struct Words {
  const char* launcher;
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Words kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

int64_t to_number(const std::string& name, const std::string& text) {
  const auto number = parse_number<int64_t>(text);
  if (!number || *number < 0)
    config_error("dist", "the environment says {} = '{}', where a whole number is expected; start the processes with one launcher", name,
                 text);
  return *number;
}

std::optional<int64_t> number_of(const Environment& environment, const std::string& name) {
  auto text = environment(name);
  if (!text || text->empty()) return std::nullopt;
  return to_number(name, *text);
}

/// A job's own script has SLURM's variables as well, and is one process: srun names the step that it starts.
bool is_started_by(const Words& words, const Environment& environment) {
  if (!environment(words.rank) || !environment(words.size)) return false;
  return std::string(words.launcher) != "SLURM" || environment("SLURM_STEP_NODELIST").has_value();
}

int64_t port_of(const Environment& environment) {
  constexpr int64_t kUsual = 29500, kMost = 65535;
  auto port = number_of(environment, "MASTER_PORT").value_or(kUsual);
  if (port < 1 || port > kMost) config_error("dist", "MASTER_PORT must be from 1 to {}, not {}; export another", kMost, port);
  return port;
}

/// A launcher says both; a rank alone would train as one process of one.
void check_both(const Words& words, const Environment& environment) {
  auto is_said = [&](const char* name) { return !environment(name).value_or("").empty(); };
  if (std::string(words.launcher) == "SLURM" || is_said(words.rank) == is_said(words.size)) return;
  config_error("dist", "the environment has {} and not {}; a launcher sets both: start the processes with one, or unset it",
               is_said(words.rank) ? words.rank : words.size, is_said(words.rank) ? words.size : words.rank);
}

void find_store(const Words& words, const Environment& environment, Seat& seat) {
  seat.launcher_serves = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  auto host = environment("MASTER_ADDR");
  if (host && !host->empty()) {
    seat.host = *host;
    seat.port = port_of(environment);
    return;
  }
  if (std::string(words.launcher) == "SLURM") {
    seat.host = first_host(*environment("SLURM_STEP_NODELIST"));
    // A port of the job's own, as JAX chooses it (jax/_src/clusters/slurm_cluster.py).
    seat.port = 61440 + number_of(environment, "SLURM_JOB_ID").value_or(0) % 4096;
    return;
  }
  if (seat.local_size == seat.size) {
    seat.host = "127.0.0.1";
    seat.port = 29500;
    return;
  }
  config_error(
      "dist", "{} started {} processes on several machines and does not say where they meet; export MASTER_ADDR, the first of them, and {}",
      words.launcher, seat.size, "MASTER_PORT");
}

void check(const Seat& seat) {
  if (seat.size < 1 || seat.rank >= seat.size)
    config_error("dist", "{} says rank {} of {} processes; ranks are counted from 0", seat.launcher, seat.rank, seat.size);
  if (seat.local_size < 1 || seat.local_rank >= seat.local_size || seat.local_size > seat.size)
    config_error("dist", "{} says process {} of {} on this machine, of {} in all; these do not fit together", seat.launcher,
                 seat.local_rank, seat.local_size, seat.size);
}

}  // namespace

std::optional<std::string> of_process(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

std::string first_host(const std::string& nodes) {
  auto bracket = nodes.find('['), comma = nodes.find(',');
  if (bracket == std::string::npos || comma < bracket) return nodes.substr(0, comma);
  auto end = nodes.find_first_of(",-]", bracket);
  if (end == std::string::npos) config_error("dist", "SLURM_STEP_NODELIST '{}' has a bracket that does not end", nodes);
  auto closed = nodes.find(']', bracket);
  auto behind = closed == std::string::npos ? "" : nodes.substr(closed + 1);
  return nodes.substr(0, bracket) + nodes.substr(bracket + 1, end - bracket - 1) + behind.substr(0, behind.find(','));
}

Seat find_seat(const Environment& environment) {
  for (const auto& words : kLaunchers) {
    if (!is_started_by(words, environment)) continue;
    Seat seat{.launcher = words.launcher, .host = {}};
    seat.rank = *number_of(environment, words.rank);
    seat.size = *number_of(environment, words.size);
    seat.local_rank = number_of(environment, words.local_rank).value_or(0);
    bool says_local = environment(words.local_rank).has_value();
    seat.local_size = says_local ? number_of(environment, words.local_size).value_or(seat.size) : 1;
    if (seat.size == 1 && seat.rank == 0) return {};
    check(seat);
    find_store(words, environment, seat);
    seat.attempt = environment("TORCHELASTIC_RUN_ID").value_or("run") + "/" + environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
    return seat;
  }
  for (const auto& words : kLaunchers) check_both(words, environment);
  return {};
}

}  // namespace burnish::dist
