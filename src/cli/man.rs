//! `rumord man`: the manual, made from the commands' own help.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::{Cli, Failure, print};

/// What each page's footer says the page is from.
const SOURCE: &str = concat!("rumord ", env!("CARGO_PKG_VERSION"));

/// Prints the manual pages of `rumord` and of every command below it, one after another.
///
/// # Errors
/// 1 where standard output cannot be written.
pub fn run() -> Result<(), Failure> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    render(&root, &mut pages).map_err(|error| Failure {
        code: 1,
        message: format!("cannot make the manual ({error}); try --help of the command instead"),
    })?;
    print(&String::from_utf8_lossy(&pages))
}

fn render(command: &Command, pages: &mut Vec<u8>) -> io::Result<()> {
    let page = Man::new(command.clone())
        .source(SOURCE)
        .manual("rumord manual");
    page.render(pages)?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| render(below, pages))
}
