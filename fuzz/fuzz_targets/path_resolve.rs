#![no_main]

#[path = "../properties/path_resolve.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|data: &[u8]| property::check(data));
