#![no_main]

#[path = "../properties/policy.rs"]
#[allow(dead_code, reason = "the other properties have targets of their own")]
mod property;

libfuzzer_sys::fuzz_target!(|data: &[u8]| property::command_words(data));
