//! The same measures on several protocols in the same world.
//!
//! | module | subject |
//! |---|---|
//! | [`contender`] | what a measure asks of a protocol |
//! | `rumord` | our own core, [`RumordWorld`] |
//! | `foca` | foca 2.0, [`FocaWorld`] |
//! | `host` | what the hosts of foca, SWIM and Lifeguard have in common |
//! | [`lifeguard`] | SWIM and Lifeguard, [`LifeguardWorld`] |
//! | [`swim`] | SWIM by its formulas, not simulated |
//! | [`measure`] | what measures have in common |
//! | [`measures`] | what is measured, one file each |
//! | [`speed`] | how fast the simulation is |

pub mod contender;
mod foca;
mod host;
pub mod lifeguard;
pub mod measure;
pub mod measures;
mod rumord;
pub mod speed;
pub mod swim;

pub use self::foca::FocaWorld;
pub use self::lifeguard::LifeguardWorld;
pub use self::rumord::RumordWorld;
