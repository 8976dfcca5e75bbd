#include "dist/place.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"

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
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    config_error("dist", "the environment says {} = '{}', where a whole number is expected; start the processes with one launcher", name,
                 text);
  return number;
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

void find_store(const Words& words, const Environment& environment, Place& place) {
  place.launcher_serves = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  auto host = environment("MASTER_ADDR");
  if (host && !host->empty()) {
    place.host = *host;
    place.port = number_of(environment, "MASTER_PORT").value_or(29500);
    return;
  }
  if (std::string(words.launcher) == "SLURM") {
    place.host = first_host(*environment("SLURM_STEP_NODELIST"));
    // A port of the job's own, as JAX chooses it (jax/_src/clusters/slurm_cluster.py).
    place.port = 61440 + number_of(environment, "SLURM_JOB_ID").value_or(0) % 4096;
    return;
  }
  if (place.local_size == place.size) {
    place.host = "127.0.0.1";
    place.port = 29500;
    return;
  }
  config_error(
      "dist", "{} started {} processes on several machines and does not say where they meet; export MASTER_ADDR, the first of them, and {}",
      words.launcher, place.size, "MASTER_PORT");
}

void check(const Place& place) {
  if (place.size < 1 || place.rank >= place.size)
    config_error("dist", "{} says rank {} of {} processes; ranks are counted from 0", place.launcher, place.rank, place.size);
  if (place.local_size < 1 || place.local_rank >= place.local_size || place.local_size > place.size)
    config_error("dist", "{} says process {} of {} on this machine, of {} in all; these do not fit together", place.launcher,
                 place.local_rank, place.local_size, place.size);
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

Place find_place(const Environment& environment) {
  for (const auto& words : kLaunchers) {
    if (!is_started_by(words, environment)) continue;
    Place place{.launcher = words.launcher, .host = {}};
    place.rank = *number_of(environment, words.rank);
    place.size = *number_of(environment, words.size);
    place.local_rank = number_of(environment, words.local_rank).value_or(0);
    bool says_local = environment(words.local_rank).has_value();
    place.local_size = says_local ? number_of(environment, words.local_size).value_or(place.size) : 1;
    if (place.size == 1 && place.rank == 0) return {};
    check(place);
    find_store(words, environment, place);
    place.attempt = environment("TORCHELASTIC_RUN_ID").value_or("run") + "/" + environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
    return place;
  }
  return {};
}

}  // namespace burnish::dist
