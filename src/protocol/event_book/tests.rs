//! The book of events.
