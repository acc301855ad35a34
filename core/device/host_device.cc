#include "core/device/host_device.h"
