//! What every service shares: configuration, telemetry, health, internal authentication, start and drain.
