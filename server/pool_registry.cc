#include "server/pool_registry.h"
