//! **What this room is for:** JSON text of a model → one object, strictly. **Who may enter:** the supervisor, through
//! `args`. **Never done here:** mending, guessing. **Where the proof is:** the tests below.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::call::{Code, Refusal};
use crate::tools::args::{invalid, shown};

/// Marks the error text of a key that occurs twice, so that it is told apart from text that is not JSON at all.
const TWICE: &str = "twice:";

/// JSON text → object. Nesting is bounded by `serde_json` (128 levels).
///
/// # Errors
/// `invalid_json` for text that is not JSON; `invalid_arguments` for a key that occurs twice at any depth, and for JSON
/// that is not an object.
pub fn parse_object(text: &str) -> Result<Map<String, Value>, Refusal> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(invalid("The arguments are not a JSON object.", "Give one object: {\"name\": value, …}.")),
        Err(error) => {
            let words = error.to_string();
            if let Some((_, key)) = words.split_once(TWICE) {
                let key = key.rsplit_once(" at line ").map_or(key, |(key, _)| key);
                return Err(invalid(format!("The argument `{key}` occurs twice."), "Give every name once."));
            }
            Err(Refusal::new(
                Code::InvalidJson,
                format!("The arguments are not JSON (line {}, column {}).", error.line(), error.column()),
            )
            .hint("Give one JSON object and nothing else."))
        }
    }
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::from(v))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::from(v))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("{TWICE}{}", shown(&key))));
            }
            let value = access.next_value_seed(Strict)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_taken_as_it_is() {
        let map = parse_object(r#" {"a":[1,2.5,null,true,{"b":"ü"}],"n":-3} "#).unwrap();
        assert_eq!(Value::Object(map).to_string(), r#"{"a":[1,2.5,null,true,{"b":"ü"}],"n":-3}"#);
    }

    #[test]
    fn a_key_twice_is_named_at_any_depth() {
        for text in [r#"{"key":1,"key":1}"#, r#"{"a":[{"b":{"key":1,"key":2}}]}"#] {
            let refusal = parse_object(text).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArguments);
            assert!(refusal.message.contains("`key`"), "{}", refusal.message);
        }
    }

    #[test]
    fn what_is_not_json_or_not_an_object() {
        for text in ["", "{", "nope", "{} {}", r#"{"a":NaN}"#, "{'a':1}", r#"{"a":1,}"#, &"[".repeat(100_000)] {
            assert_eq!(parse_object(text).unwrap_err().code, Code::InvalidJson, "{:.20}", text);
        }
        for text in ["[]", "1", "null", "\"{}\""] {
            assert_eq!(parse_object(text).unwrap_err().code, Code::InvalidArguments, "{text}");
        }
    }
}
