//! The wire: generated protobuf types, conversions, CloudEvents and subject names.

#[expect(
    missing_docs,
    unreachable_pub,
    reason = "generated; what matters is commented in proto/, the rest is plumbing"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/all.rs"));
}

pub use generated::sayso::internal::v1 as internal;
pub use generated::sayso::v1;

/// Every descriptor of the public and the internal API with its comments, encoded as a
/// `google.protobuf.FileDescriptorSet`: for reflection and for the JSON form.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
