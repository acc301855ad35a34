#include "server/session_hub.h"
