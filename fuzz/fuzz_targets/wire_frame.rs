#![no_main]

#[path = "../properties/wire_frame.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|data: &[u8]| property::check(data));
