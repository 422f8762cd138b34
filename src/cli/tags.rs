//! `rumord tags`: this node's tags.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Client, Target};
use super::{EXIT_FAILED, EXIT_USAGE, Failure, print};

const PATH: &str = "/v1/self/tags";
/// How long the daemon may take.
const WAIT: Duration = Duration::from_secs(30);
/// How often a change is tried anew when others came first.
const TRIES_MAX: usize = 64;

type Tags = BTreeMap<String, String>;

/// Commands below `rumord tags`. The tags last until the daemon ends: its next start begins with
/// those of its flags and its settings file.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Set tags of this node, keeping its others; they last until the daemon ends
    Set(SetArguments),
    /// Remove tags of this node
    Unset(UnsetArguments),
}

/// Arguments of `rumord tags set`.
#[derive(Args, Debug)]
pub(super) struct SetArguments {
    #[command(flatten)]
    target: Target,
    /// Tags as KEY=VALUE; the value may be empty
    #[arg(required = true, value_name = "K=V")]
    tags: Vec<String>,
}

/// Arguments of `rumord tags unset`.
#[derive(Args, Debug)]
pub(super) struct UnsetArguments {
    #[command(flatten)]
    target: Target,
    /// Keys of the tags
    #[arg(required = true, value_name = "K")]
    keys: Vec<String>,
}

/// Changes the tags and says how many there are now.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    let count = match command {
        Command::Set(arguments) => {
            let given = parse_tags(&arguments.tags)?;
            change(&arguments.target.client()?, |tags| {
                tags.extend(given.clone());
            })?
        }
        Command::Unset(arguments) => change(&arguments.target.client()?, |tags| {
            tags.retain(|key, _| !arguments.keys.contains(key));
        })?,
    };
    print(&format!("this node has {}\n", counted(count)))
}

fn counted(count: usize) -> String {
    match count {
        1 => "1 tag".to_owned(),
        count => format!("{count} tags"),
    }
}

/// The tags of `K=V` words.
///
/// # Errors
/// A word without a key, or one key given twice: usage.
pub(super) fn parse_tags(words: &[String]) -> Result<Tags, Failure> {
    let mut tags = Tags::new();
    for word in words {
        let usage = |why: &str| Failure::new(EXIT_USAGE, format!("{word:?} {why}"));
        let (key, value) = word
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| usage("is not KEY=VALUE; write it as zone=a"))?;
        if tags.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(usage("names a key that was given before; keep one"));
        }
    }
    Ok(tags)
}

/// Reads the tags, changes them, and writes them if nobody else has changed them meanwhile; else
/// tries again. How many there are then.
fn change(client: &Client, edit: impl Fn(&mut Tags)) -> Result<usize, Failure> {
    for _ in 0..TRIES_MAX {
        let answer = client.get_answer(PATH)?.done()?;
        let mut tags: Tags = serde_json::from_value(answer.body)
            .map_err(|error| Failure::new(EXIT_FAILED, format!("these are no tags ({error})")))?;
        let before = tags.clone();
        edit(&mut tags);
        if tags == before {
            return Ok(tags.len());
        }
        let body: Value = json!(tags);
        let answer = client.put(PATH, &body, answer.etag.as_deref(), WAIT)?;
        if answer.status != 412 {
            return answer.done().map(|_| tags.len());
        }
    }
    let message = "others keep changing the tags of this node; try again";
    Err(Failure::new(EXIT_FAILED, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn tags_are_read_from_words() {
        let tags = parse_tags(&words(&["zone=a=b", "canary="])).expect("fine");
        assert_eq!(tags["zone"], "a=b");
        assert_eq!(tags["canary"], "");
        for wrong in [&["zone"][..], &["=a"], &["a=1", "a=2"]] {
            let failure = parse_tags(&words(wrong)).expect_err("wrong");
            assert_eq!(failure.code, EXIT_USAGE, "{wrong:?}");
        }
    }
}
