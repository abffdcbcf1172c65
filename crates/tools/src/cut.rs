//! The limit on a tool's result (S3.8).

/// Cuts a result after at most `max` bytes, on the boundary of a character, and says at its end how
/// much is missing. Returns the text and the number of bytes that were cut.
pub(crate) fn cut(mut content: String, max: usize) -> (String, u64) {
    let whole = content.len();
    if whole <= max {
        return (content, 0);
    }
    let kept = content.floor_char_boundary(max);
    let missing = whole - kept;
    content.truncate(kept);
    content.push_str(&format!(
        "\n[cut: {missing} of {whole} bytes are missing; results are kept up to {max} bytes]"
    ));
    (content, missing as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3.8: the marker says how much is missing.
    #[test]
    fn a_result_over_the_limit_is_cut_and_says_so() {
        let (text, missing) = cut("abcdef".to_owned(), 4);
        assert_eq!(missing, 2);
        assert_eq!(
            text,
            "abcd\n[cut: 2 of 6 bytes are missing; results are kept up to 4 bytes]"
        );
        assert_eq!(cut("abcd".to_owned(), 4), ("abcd".to_owned(), 0));
    }

    /// S3.8: a character is kept whole or not at all.
    #[test]
    fn the_cut_never_falls_inside_a_character() {
        for max in 0..9 {
            let (text, missing) = cut("aé€😀b".to_owned(), max);
            let kept = text.split("\n[cut").next().unwrap();
            assert!("aé€😀b".starts_with(kept), "{max}");
            assert!(kept.len() <= max);
            assert_eq!(kept.len() as u64 + missing, 11);
        }
        assert!(cut("aé€😀b".to_owned(), 5).0.starts_with("aé\n"));
    }
}
