//! Canonical protobuf JSON: what `--json` prints, and what programs over HTTP get.
//!
//! Names are in camelCase, 64-bit numbers are strings, times are RFC 3339, enum values their proto
//! names, and fields with their default value are left out. A number that an enum does not know is
//! printed as the number.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

/// The descriptors of both APIs, decoded once.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET)
            .expect("the build script wrote a whole descriptor set")
    });
    &POOL
}

fn dynamic<M: Message + Name>(message: &M) -> DynamicMessage {
    let mut dynamic = DynamicMessage::new(descriptor::<M>());
    dynamic
        .transcode_from(message)
        .expect("a generated message fits the descriptor that it was generated from");
    dynamic
}

/// The descriptor of a generated message.
pub fn descriptor<M: Name>() -> MessageDescriptor {
    pool()
        .get_message_by_name(&M::full_name())
        .expect("every generated message is in the descriptor set")
}

/// A message as canonical JSON, on one line.
pub fn to_json<M: Message + Name>(message: &M) -> String {
    serde_json::to_string(&dynamic(message)).expect(WRITES)
}

/// A message as canonical JSON, indented for people.
pub fn to_json_pretty<M: Message + Name>(message: &M) -> String {
    serde_json::to_string_pretty(&dynamic(message)).expect(WRITES)
}

const WRITES: &str = "times and durations that we send are within protobuf's range";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    #[test]
    fn json_is_canonical() {
        let run = v1::Run {
            id: "run_1".into(),
            status: v1::RunStatus::AwaitingApproval.into(),
            ended_by: 99,
            last_sequence: u64::MAX,
            output: Some(String::new()),
            created_at: Some(prost_types::Timestamp {
                seconds: 1_709_210_096,
                nanos: 7_000,
            }),
            duration: Some(crate::time::duration_micros(1_500_000)),
            ..v1::Run::default()
        };
        assert_eq!(
            to_json(&run),
            concat!(
                r#"{"id":"run_1","status":"RUN_STATUS_AWAITING_APPROVAL","#,
                r#""lastSequence":"18446744073709551615","endedBy":99,"output":"","#,
                r#""createdAt":"2024-02-29T12:34:56.000007Z","duration":"1.500s"}"#
            )
        );
    }

    /// S3.7: argument bytes are a string of their own, never parsed and written again.
    #[test]
    fn exact_argument_bytes_survive_json() {
        let args = "{\"amount\": 1.10,\n\"n\":123456789012345678901234567890}";
        let approval = v1::Approval {
            args_json: args.into(),
            ..v1::Approval::default()
        };
        let json: serde_json::Value = serde_json::from_str(&to_json_pretty(&approval)).unwrap();
        assert_eq!(json["argsJson"], args);
    }
}
