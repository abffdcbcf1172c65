//! Deliveries: signed webhooks, retries and agent logs.
