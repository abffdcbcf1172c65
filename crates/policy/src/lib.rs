//! Agents, revisions and roles: validates, deploys and serves compiled revisions.
