//! The role switch: a launcher when our own supervisor starts us as one, else the command line.
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|word| word == stockade::launcher::ROLE) {
        stockade::launcher::main();
    }
    stockade::cli::main(std::env::args_os())
}
