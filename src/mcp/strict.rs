//! **What this room is for:** JSON as we accept it from outside: a key that occurs twice is found, never the last one
//! taken. **Who may enter:** the ways in. **Never done here:** judging content. **Where the proof is:** the tests below.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON text and the first key that occurs twice in one object of it, at any depth.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    /// The value; of a doubled key the first one.
    pub(crate) value: Value,
    /// The doubled key, if there is one.
    pub(crate) twice: Option<String>,
}

/// Parses one JSON text. Depth is bounded by `serde_json` (128).
///
/// # Errors
/// The parser's message with line and column; never a byte of the text.
pub(crate) fn parse(text: &str) -> Result<Parsed, String> {
    let mut twice = None;
    let mut from = serde_json::Deserializer::from_str(text);
    let value = Strict(&mut twice).deserialize(&mut from).and_then(|value| from.end().map(|()| value));
    value.map(|value| Parsed { value, twice }).map_err(|e| format!("{e}"))
}

struct Strict<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: Error>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_str<E: Error>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }
    fn visit_string<E: Error>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = seq.next_element_seed(Strict(self.0))? {
            all.push(one);
        }
        Ok(Value::Array(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Strict(self.0))?;
            match all.entry(key) {
                serde_json::map::Entry::Vacant(free) => {
                    free.insert(value);
                }
                serde_json::map::Entry::Occupied(taken) => {
                    self.0.get_or_insert_with(|| taken.key().clone());
                }
            }
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_keys_are_found_at_any_depth_however_they_are_spelled() {
        for text in [r#"{"a":1,"a":2}"#, r#"[{"b":{"a":1,"\u0061":1}}]"#] {
            assert_eq!(parse(text).unwrap().twice.as_deref(), Some("a"), "{text}");
        }
        let text = r#"{"a":{"a":[1,-2,0.5,null,true,"x\n"]},"b":{}}"#;
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.twice, None);
        assert_eq!(parsed.value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parse(r#"{"a":1,"a":2}"#).unwrap().value["a"], 1);
    }

    #[test]
    fn what_is_no_json_is_an_error_and_depth_is_bounded() {
        for text in ["", "{", "{} {}", "{'a':1}", "nul", "\u{feff}{}", "NaN"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert!(parse(&"[".repeat(1_000_000)).is_err());
    }
}
