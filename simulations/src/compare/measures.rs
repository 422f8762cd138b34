//! Everything that is measured, one file each.

mod change;
mod crash;
mod join;
mod mass_crash;
mod partition;
mod pause;
mod quiet;
mod restart;

use super::measure::Measure;

/// All measures, in the order of the tables.
pub const ALL: [Measure; 8] = [
    change::MEASURE,
    join::MEASURE,
    crash::MEASURE,
    mass_crash::MEASURE,
    restart::MEASURE,
    pause::MEASURE,
    partition::MEASURE,
    quiet::MEASURE,
];
