#include "core/ledger/ledger.h"
