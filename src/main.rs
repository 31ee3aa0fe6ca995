//! Sketch of the role switch; the real one decides between launcher, worker and the command line.
use std::process::ExitCode;

fn main() -> ExitCode {
    stockade::cli::main(std::env::args_os())
}
