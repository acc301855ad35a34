#include "server/peer.h"
