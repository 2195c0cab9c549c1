//===- RegisteredDriver.cpp - Drivers from outside of the runtime ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements drivers that a program registers, and the devices that
// they open.
//
//===----------------------------------------------------------------------===//

#include "DeviceDriver.h"
#include "HostDevice.h"
#include "tandem-runtime/tandem_driver.h"

#include <string>
#include <utility>

using namespace tandem::runtime;

namespace {
/// A driver's table of functions, and the name that it points to.
struct DriverTable {
  DriverTable(const tdm_driver &table) : table(table), name(table.name) {
    this->table.name = name.c_str();
  }
  DriverTable(const DriverTable &) = delete;

  tdm_driver table;
  const std::string name;
};

/// The code of an image, which the driver has loaded.
class RegisteredLibrary : public HostLibrary {
public:
  RegisteredLibrary(const tdm_driver &driver, void *code)
      : driver(driver), code(code) {}
  ~RegisteredLibrary() override { driver.unload(driver.context, code); }

  void *find(const char *name) const override {
    return driver.find(driver.context, code, name);
  }

private:
  const tdm_driver &driver;
  void *code;
};

class RegisteredDevice : public HostDevice {
public:
  RegisteredDevice(const tdm_driver &driver, int32_t ordinal)
      : driver(driver), ordinal(ordinal) {}

  tdm_status query(tdm_device_info &info) const override {
    info.ordinal = ordinal;
    return driver.query(driver.context, ordinal, &info);
  }

  int64_t rank(const tdm_image &image) const override {
    return driver.rank(driver.context, ordinal, &image);
  }

  const char *getAdvice() const override { return "this device"; }

private:
  tdm_status
  openLibrary(const tdm_image &image,
              std::shared_ptr<const HostLibrary> &library) const override {
    void *code = nullptr;
    if (tdm_status status = driver.load(driver.context, ordinal, &image, &code))
      return status;
    library = std::make_shared<RegisteredLibrary>(driver, code);
    return TDM_OK;
  }

  const tdm_driver &driver;
  const int32_t ordinal;
};

class RegisteredDriver : public DeviceDriver {
public:
  explicit RegisteredDriver(const tdm_driver &driver) : driver(driver) {}

  const char *getName() const override { return driver.table.name; }

  tdm_status count(int32_t &count) const override {
    return driver.table.count(driver.table.context, &count);
  }

  tdm_status open(int32_t ordinal,
                  std::shared_ptr<const Device> &device) const override {
    int32_t devices = 0;
    if (tdm_status status = count(devices))
      return status;
    if (ordinal < 0 || ordinal >= devices)
      return Failure(TDM_UNAVAILABLE)
             << "driver '" << driver.name << "' has no device " << ordinal
             << "; it has " << devices;
    device = std::make_shared<RegisteredDevice>(driver.table, ordinal);
    return TDM_OK;
  }

private:
  const DriverTable driver;
};
} // namespace

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

static tdm_status check(const tdm_driver &driver) {
  const std::pair<bool, const char *> needed[] = {
      {driver.name && *driver.name, "name"},
      {driver.count, "count"},
      {driver.query, "query"},
      {driver.rank, "rank"},
      {driver.load, "load"},
      {driver.find, "find"},
      {driver.unload, "unload"}};
  for (auto [isThere, what] : needed)
    if (!isThere)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_driver_register: the driver has no " << what
             << "; set tdm_driver." << what;
  return TDM_OK;
}

tdm_status tdm_driver_register(const tdm_driver *driver) {
  return guarded("tdm_driver_register", [&]() -> tdm_status {
    if (!driver)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_driver_register: driver is NULL; pass a tdm_driver";
    if (driver->struct_size != sizeof(tdm_driver))
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_driver_register: struct_size is " << driver->struct_size
             << " but this runtime's is " << sizeof(tdm_driver)
             << "; set it to sizeof(tdm_driver) of the matching header";
    if (tdm_status status = check(*driver))
      return status;
    return addDriver(std::make_unique<RegisteredDriver>(*driver));
  });
}

tdm_status tdm_driver_fail(tdm_status status, const char *message) {
  return Failure(status) << (message ? message : "the driver does not say why");
}
