//! Timelines and tables on Postgres and SQLite.
