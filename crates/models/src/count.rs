//! Tokens, counted here: where a provider counts none, and of what no provider has seen yet.
//!
//! The encoding is `o200k_base`, OpenAI's newest that is public; other providers' differ by a tenth or
//! so on plain text, which is near enough for a limit that is kept at a distance. The encoder is
//! linear in the worst case: results are texts that others may have written. It is loaded at its first
//! use.

use sayso_driver::ModelRequest;
use sayso_run::Usage;

use crate::answer::Answer;

/// The tokens of a text.
pub(crate) fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

/// What a provider counted, completed where it counted nothing.
pub(crate) fn completed(request: &ModelRequest, answer: &Answer) -> Usage {
    let mut usage = answer.usage;
    if usage.input == 0 {
        usage.input = request.size(tokens);
    }
    if usage.output == 0 {
        usage.output = of_answer(answer);
    }
    usage
}

fn of_answer(answer: &Answer) -> u64 {
    let thinking = answer
        .thinking
        .iter()
        .map(|thinking| tokens(&thinking.text));
    let calls = answer.calls.iter();
    let calls = calls.map(|call| tokens(&call.name) + tokens(&call.args));
    tokens(&answer.text) + thinking.sum::<u64>() + calls.sum::<u64>()
}
