//! gRPC reflection, v1 and v1alpha, of the public API alone: what services ask of each other is
//! nobody's business. It needs no token: the API is no secret.

use bytes::Buf;
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};
use prost_types::FileDescriptorProto;
use sayso_wire::FILE_DESCRIPTOR_SET;
use tonic::service::Routes;
use tonic_reflection::server::{Builder, Error};

/// The packages that only siblings speak.
const INTERNAL: &str = "sayso.internal.";

/// The field `file` of a `google.protobuf.FileDescriptorSet`.
const FILE: u32 = 1;

/// Adds both versions of the reflection service.
///
/// # Errors
///
/// When the descriptors do not fit together: a fault of the build.
pub(crate) fn add_to(routes: Routes) -> Result<Routes, Error> {
    let public =
        public_files(FILE_DESCRIPTOR_SET).expect("the build script wrote a whole descriptor set");
    let v1 = Builder::configure()
        .register_encoded_file_descriptor_set(&public)
        .build_v1()?;
    let v1alpha = Builder::configure()
        .register_encoded_file_descriptor_set(&public)
        .build_v1alpha()?;
    Ok(routes.add_service(v1).add_service(v1alpha))
}

/// The files of an encoded set that are not internal. They are copied byte for byte: options that
/// this build does not know would not survive being decoded and encoded again.
fn public_files(mut set: &[u8]) -> Option<Vec<u8>> {
    let mut public = Vec::with_capacity(set.len());
    while set.has_remaining() {
        let (FILE, WireType::LengthDelimited) = decode_key(&mut set).ok()? else {
            return None;
        };
        let length = usize::try_from(decode_varint(&mut set).ok()?).ok()?;
        let (file, rest) = set.split_at_checked(length)?;
        set = rest;
        let package = FileDescriptorProto::decode(file)
            .ok()?
            .package
            .unwrap_or_default();
        if !format!("{package}.").starts_with(INTERNAL) {
            encode_key(FILE, WireType::LengthDelimited, &mut public);
            encode_varint(file.len() as u64, &mut public);
            public.extend_from_slice(file);
        }
    }
    Some(public)
}

#[cfg(test)]
mod tests {
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn reflection_shows_the_public_api_alone() {
        let public =
            FileDescriptorSet::decode(&*public_files(FILE_DESCRIPTOR_SET).unwrap()).unwrap();
        let all = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        let names = |set: &FileDescriptorSet| -> Vec<String> {
            set.file.iter().map(|file| file.name().to_owned()).collect()
        };
        let internal = |name: &String| name.starts_with("sayso/internal/");
        assert!(names(&all).iter().any(internal));
        let mut expected = names(&all);
        expected.retain(|name| !internal(name));
        assert_eq!(names(&public), expected);
        assert!(expected.contains(&"sayso/v1/run_service.proto".to_owned()));
        assert!(add_to(Routes::default()).is_ok());
    }
}
