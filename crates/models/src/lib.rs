//! Model providers, tiers and failover, usage, and the scripted model.
