#include "tools/clora/training/run_devices.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

#include "clora/model/training/thread_ranks.hpp"
#include "clora/runtime/device/device.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/training/mpi_ranks.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The selector of process `number` of `count` on this host.
std::string selector_of_process(const std::vector<std::string>& selectors, std::size_t number,
                                std::size_t count) {
  if (selectors.size() > 1) {
    require(selectors.size() == count,
            "train: --device lists {} devices, but {} processes were started on '{}'; list one for "
            "each process of a host",
            selectors.size(), count, host_name());
    return selectors[number];
  }
  const std::string& selector = selectors.front();
  if (count == 1 || (!selector.empty() && selector != "gpu")) return selector;
  const auto gpus = std::ranges::count(list_devices(), DeviceKind::gpu, &Device::kind);
  if (gpus == 0 && selector.empty()) return selector;
  require(static_cast<std::size_t>(gpus) >= count,
          "train: {} processes were started on '{}', which has {} GPUs; start no more, or name the "
          "device of each with --device",
          count, host_name(), gpus);
  return "gpu:" + std::to_string(number);
}

RunDevice device_of_process(Communicator& processes, const std::vector<std::string>& selectors) {
  const std::string host = host_name();
  const std::vector<std::string> hosts = processes.all_gather(host);
  const auto earlier = std::count(hosts.begin(), hosts.begin() + processes.rank(), host);
  const auto all = std::ranges::count(hosts, host);
  const std::string selector = selector_of_process(selectors, static_cast<std::size_t>(earlier),
                                                   static_cast<std::size_t>(all));
  const Device device = select_device(selector);
  const std::string place = host + ' ' + std::to_string(device.index);
  const std::vector<std::string> places = processes.all_gather(place);
  return {selector, part_of_memory(device, std::ranges::count(places, place))};
}

}  // namespace

RunDevices::RunDevices(const std::string& selectors) : processes_(start_mpi_ranks()) {
  const std::vector<std::string> list = listed_selectors(selectors);
  if (processes_ == nullptr) {
    devices_ = listed_devices(list);
  } else {
    devices_ = {device_of_process(*processes_, list)};
  }
}

std::int64_t RunDevices::count() const {
  return processes_ == nullptr ? std::ssize(devices_) : processes_->size();
}

bool RunDevices::has_first() const { return processes_ == nullptr || processes_->rank() == 0; }

void RunDevices::run(const Work& lead, const Work& follow) {
  const auto work = [&](const RunDevice& device, Communicator* ranks) {
    if (ranks == nullptr || ranks->rank() == 0) return lead(device, ranks);
    try {
      follow(device, ranks);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("rank {}: {}", ranks->rank(), error.what()),
                  error.opencl_status());
    }
  };
  if (processes_ != nullptr || devices_.size() == 1) {
    return work(devices_.front(), processes_.get());
  }
  run_thread_ranks(static_cast<int>(devices_.size()), [&](Communicator& ranks) {
    work(devices_[static_cast<std::size_t>(ranks.rank())], &ranks);
  });
}

void add_device_shares_option(CLI::App& command, TrainingRunConfig& config,
                              const std::string& group) {
  command
      .add_option("--device-shares", config.device_shares,
                  "Proportions in which the micro-batches of a step are dealt to several devices, "
                  "such as 7,1 (default: equal for like devices, else by their measured speed); "
                  "with --split layers, the weights (default: equal)")
      ->delimiter(',')
      ->type_name("N,N,...")
      ->group(group);
}

}  // namespace clora
