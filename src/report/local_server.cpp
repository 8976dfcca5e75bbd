#include "report/local_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/input_error.h"
#include "base/short_waits.h"

namespace burnish::report {

bool is_loopback_host(const std::string& host) {
  auto colon = host.rfind(':');
  bool has_port = colon != std::string::npos && host.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  auto name = has_port ? host.substr(0, colon) : host;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

void send_whole(httplib::Response& response, std::string bytes, const std::string& media_type) {
  if (bytes.empty()) return response.set_content("", media_type);
  const auto whole = std::make_shared<const std::string>(std::move(bytes));
  response.set_content_provider(whole->size(), media_type, [whole](size_t offset, size_t length, httplib::DataSink& sink) {
    return sink.write(whole->data() + offset, length);
  });
}

namespace {

std::unique_ptr<httplib::Server> server_of(const char* verb, const std::optional<Certificate>& certificate) {
  if (!certificate) return std::make_unique<httplib::Server>();
  auto server = std::make_unique<httplib::SSLServer>(certificate->chain.c_str(), certificate->key.c_str());
  if (!server->is_valid())
    config_error(verb, "{} and {} are no certificate and its key in PEM that can be read; name both, as the authority gave them",
                 certificate->chain, certificate->key);
  return server;
}

}  // namespace

LocalServer::LocalServer(const char* verb, const std::string& address, int64_t port, size_t num_threads,
                         const std::optional<Certificate>& certificate)
    : http_(server_of(verb, certificate)), num_threads_(num_threads) {
  if (port < 0 || port > 65535) config_error(verb, "port must be from 0 to 65535, not {}", port);
  // The library would share the port with another program that shares it too.
  socket_t listening = INVALID_SOCKET;
  http_->set_socket_options([&listening](socket_t socket) {
    listening = socket;
    int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http_->new_task_queue = [num_threads] { return new httplib::ThreadPool(num_threads); };
  http_->set_tcp_nodelay(true);
  if (port == 0) port_ = http_->bind_to_any_port(address);
  else if (http_->bind_to_port(address, static_cast<int>(port))) port_ = static_cast<int>(port);
  if (port_ <= 0) config_error(verb, "port {} of {} cannot be had, another program may use it; --port 0 takes a free one", port, address);
  // The library lets five connections wait; one more would be dropped in silence and tried again only after seconds.
  ::listen(listening, SOMAXCONN);
  http_->set_socket_options(nullptr);
}

LocalServer::~LocalServer() = default;

void LocalServer::serve() {
  // The library ends the program where it cannot start all of its threads.
  if (startable_threads(static_cast<int64_t>(num_threads_)) < static_cast<int64_t>(num_threads_))
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  serves_ = true;
  if (!stops_) http_->listen_after_bind();
  serves_ = false;
}

void LocalServer::stop() {
  stops_ = true;
  while (serves_ && !http_->is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the library would not hear it
  http_->stop();
}

}  // namespace burnish::report
