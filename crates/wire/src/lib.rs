//! The wire: generated protobuf types, conversions, CloudEvents and subject names.
