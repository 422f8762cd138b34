//! Integration tests: the public API and the built binary, never internals.

mod config_files;
mod nodes;
mod program;
mod tidy;
