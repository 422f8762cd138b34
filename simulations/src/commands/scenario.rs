//! `scenario`.

use std::io::Write;

use clap::Args;
use serde_json::json;
use std::path::PathBuf;

use super::{Trouble, files};
use crate::scenarios::{SCENARIOS, Scenario, Stage};

#[derive(Debug, Args)]
pub struct ScenarioArguments {
    /// Which; `all` for all of them, nothing for the list
    name: Option<String>,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write scenario.jsonl
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Plays one scenario, or all.
pub fn scenario(arguments: &ScenarioArguments, out: &mut impl Write) -> Result<(), Trouble> {
    let Some(name) = &arguments.name else {
        for Scenario { name, story, .. } in &SCENARIOS {
            writeln!(out, "{name:<18} {story}")?;
        }
        return Ok(());
    };
    let chosen: Vec<_> = SCENARIOS
        .iter()
        .filter(|scenario| name == "all" || scenario.name == name)
        .collect();
    if chosen.is_empty() {
        let text = format!("there is no scenario {name:?}; `rumord-sim scenario` lists them");
        return Err(Trouble::Usage(text));
    }
    let (mut records, mut failed) = (Vec::new(), Vec::new());
    for scenario in chosen {
        let (figures, result) = play(scenario, arguments.seed);
        tell(scenario, &figures, &result, out)?;
        let shown: serde_json::Map<_, _> = figures
            .into_iter()
            .map(|(what, figure)| (what, figure.into()))
            .collect();
        records.push(json!({
            "scenario": scenario.name,
            "seed": arguments.seed,
            "figures": shown,
            "failure": result.as_ref().err(),
        }));
        if let Err(reason) = result {
            failed.push(format!("{}: {reason}", scenario.name));
        }
    }
    files::write(
        arguments.out.as_deref(),
        "scenario.jsonl",
        &files::lines(&records),
    )?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Trouble::Broken(failed.join("; "))),
    }
}

type Figures = Vec<(String, String)>;

fn play(scenario: &Scenario, seed: u64) -> (Figures, Result<(), String>) {
    let mut stage = Stage::new(seed);
    let result = (scenario.play)(&mut stage);
    let violation = stage.world.violations().first().map(ToString::to_string);
    (stage.figures, violation.map_or(result, Err))
}

fn tell(
    scenario: &Scenario,
    figures: &Figures,
    result: &Result<(), String>,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    writeln!(out, "{}: {}", scenario.name, scenario.story)?;
    for (what, figure) in figures {
        writeln!(out, "  {what:<40} {figure}")?;
    }
    match result {
        Ok(()) => writeln!(out, "  holds")?,
        Err(reason) => writeln!(out, "  FAILED {reason}")?,
    }
    Ok(())
}
