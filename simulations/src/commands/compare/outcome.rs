//! What one run of one measure has shown.

use serde_json::{Map, Value, json};

use crate::compare::measure::{Measure, Protocol, Trial, Values};

/// One measure, taken once.
pub struct Outcome {
    pub measure: Measure,
    pub protocol: Protocol,
    pub trial: Trial,
    pub values: Values,
}

impl Outcome {
    /// One line of compare.jsonl.
    pub fn record(&self) -> Value {
        let figures = self.measure.figures.iter().zip(&self.values);
        let figures: Map<String, Value> = figures
            .map(|(figure, value)| (figure.what.to_owned(), json!(value)))
            .collect();
        json!({
            "nodes": self.trial.nodes,
            "loss": self.trial.loss,
            "seed": self.trial.seed,
            "protocol": self.protocol.as_str(),
            "measure": self.measure.word,
            "figures": figures,
        })
    }
}

/// The values of a measure's figure in all runs of `protocol` at this size and share of loss.
pub fn values_of(
    outcomes: &[Outcome],
    protocol: Protocol,
    place: (usize, f64),
    measure: &Measure,
    figure: usize,
) -> Vec<Option<f64>> {
    let wanted = |outcome: &&Outcome| {
        outcome.protocol == protocol
            && (outcome.trial.nodes, outcome.trial.loss) == place
            && outcome.measure.word == measure.word
    };
    let value = |outcome: &Outcome| outcome.values.get(figure).copied().flatten();
    outcomes.iter().filter(wanted).map(value).collect()
}
