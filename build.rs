//! Compiles the wire types, without a `protoc` on the machine.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// What the root of the imports is and where to start.
const PROTO_ROOT: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

/// Fields that are `string` on the wire and bytes in our code.
///
/// Envoy forwards raw header bytes. As a Rust `String` one byte that is not UTF-8 would make the whole request
/// undecodable: an error, and a gateway lets a request pass on an error. As bytes they are also slices of the frame,
/// and a header name of ours needs no allocation.
const BYTES: [(&str, &str); 5] = [
    (".envoy.service.ratelimit.v3.RateLimitRequest", "domain"),
    (
        ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
        "key",
    ),
    (
        ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
        "value",
    ),
    (".envoy.config.core.v3.HeaderValue", "key"),
    (".envoy.config.core.v3.HeaderValue", "value"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTO_ROOT}");
    compile_wire_types()
}

fn compile_wire_types() -> Result<(), Box<dyn Error>> {
    let mut set = protox::compile([SERVICE], [PROTO_ROOT])?;
    // Reflection shows the types as Envoy has them, so it gets the set before any field is changed.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("wire.bin"), set.encode_to_vec())?;
    for (message, field) in BYTES {
        read_as_bytes(&mut set, message, field)?;
    }
    tonic_prost_build::configure()
        .bytes(".envoy")
        .include_file("wire.rs")
        .compile_fds(set)?;
    Ok(())
}

fn read_as_bytes(set: &mut FileDescriptorSet, message: &str, field: &str) -> Result<(), String> {
    let found = set
        .file
        .iter_mut()
        .find_map(|file| {
            let package = format!(".{}.", file.package());
            find_message(&mut file.message_type, message.strip_prefix(&package)?)
        })
        .and_then(|message| {
            message
                .field
                .iter_mut()
                .find(|candidate| candidate.name() == field)
        });
    match found {
        Some(field) if field.r#type() == Type::String => {
            field.set_type(Type::Bytes);
            Ok(())
        }
        _ => Err(format!(
            "{message} has no string field `{field}` to be read as bytes"
        )),
    }
}

fn find_message<'a>(messages: &'a mut [DescriptorProto], path: &str) -> Option<&'a mut DescriptorProto> {
    let (name, rest) = path
        .split_once('.')
        .map_or((path, None), |(name, rest)| (name, Some(rest)));
    let message = messages.iter_mut().find(|message| message.name() == name)?;
    match rest {
        Some(rest) => find_message(&mut message.nested_type, rest),
        None => Some(message),
    }
}
