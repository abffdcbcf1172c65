//! Asking the models of a tier's chain until one answers.
//!
//! A fault decides what follows (S4.7): another model is asked if this one is unavailable or wrongly
//! configured; a request that is refused, that does not fit, or that nobody pays for goes no further.
//! When the chain is through and any model was merely unavailable, so is the tier, and a retry may
//! succeed (S1.6); if every one of them is wrongly configured, it cannot.

use std::sync::Arc;

use sayso_driver::{Deltas, ModelReply, ModelRequest, Models};
use sayso_run::{Currency, FailureCode, ModelFailover, Price};
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::answer::{Answer, Ear};
use crate::fault::Fault;
use crate::registry::{Model, Registry};
use crate::{content, count};

impl Models for Registry {
    async fn ask(&self, request: ModelRequest, deltas: &dyn Deltas) -> ModelReply {
        let mut failovers = Vec::new();
        let Some(chain) = self.chain(&request.tier) else {
            let known: Vec<&str> = self.tiers().collect();
            return failed(
                FailureCode::UNKNOWN_TIER,
                format!(
                    "there is no tier `{}`; the configuration has: {}",
                    request.tier,
                    if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    }
                ),
                failovers,
            );
        };
        let mut reasons = Vec::with_capacity(chain.len());
        let mut code = FailureCode::PROVIDER_REFUSED;
        for (at, model) in chain.iter().enumerate() {
            let asked = match unpriced(model, request.capped_in) {
                Some(fault) => Err(fault),
                None => self.ask_one(model, &request, deltas).await,
            };
            let fault = match asked {
                Ok(answer) => return answered(&request, answer, model, failovers),
                Err(fault) => fault,
            };
            let reason = format!("`{}` {}", model.name, fault.why());
            match fault {
                Fault::Unavailable(_) => code = FailureCode::PROVIDER_UNAVAILABLE,
                Fault::Misconfigured(_) => {}
                Fault::Unpriced(_) if code == FailureCode::PROVIDER_REFUSED => {
                    code = FailureCode::NO_PRICE;
                }
                Fault::Unpriced(_) => {}
                Fault::Refused(_) => {
                    return failed(FailureCode::PROVIDER_REFUSED, reason, failovers);
                }
                Fault::ContextLength(_) => {
                    return failed(FailureCode::CONTEXT_LENGTH, reason, failovers);
                }
                Fault::Script(code, _) => return failed(code, reason, failovers),
                Fault::Billing(_) => {
                    return ModelReply::Failed {
                        code: FailureCode::new(FailureCode::PROVIDER_REFUSED),
                        message: reason,
                        billing: Some(payee(model)),
                        failovers,
                    };
                }
            }
            tracing::warn!(run = %request.run, cycle = request.cycle, "{reason}");
            if let Some(next) = chain.get(at + 1) {
                failovers.push(ModelFailover {
                    from: model.name.clone(),
                    to: next.name.clone(),
                    reason: reason.clone(),
                });
            }
            reasons.push(reason);
        }
        failed(code, reasons.join("; "), failovers)
    }

    fn window(&self, tier: &str) -> Option<u64> {
        self.window_of(tier)
    }

    fn count(&self, text: &str) -> u64 {
        count::tokens(text)
    }

    fn price(&self, model: &str) -> Option<Price> {
        self.price_of(model)
    }
}

/// Under a cap only a model with a price in its currency may be asked: what it costs could not be
/// counted (S4.6).
fn unpriced(model: &Model, capped_in: Option<Currency>) -> Option<Fault> {
    let currency = capped_in?;
    let priced = model.price.is_some_and(|price| price.currency == currency);
    (!priced).then(|| {
        Fault::Unpriced(format!(
            "has no price in {currency}, and the namespace has a spending cap"
        ))
    })
}

impl Registry {
    /// Asks one model, under the ceiling of S4.2. Text of an answer that broke is withdrawn.
    async fn ask_one(
        &self,
        model: &Arc<Model>,
        request: &ModelRequest,
        deltas: &dyn Deltas,
    ) -> Result<Answer, Fault> {
        let span = tracing::info_span!(
            "chat",
            otel.name = %format_args!("chat {}", model.model),
            otel.kind = "client",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = model.provider(),
            gen_ai.request.model = %model.model,
            gen_ai.input.messages = Empty,
            gen_ai.output.messages = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            server.address = model.host(),
            error.type = Empty,
        );
        if self.tells_content {
            let said = content::input(request);
            span.record(
                "gen_ai.input.messages",
                request.redaction.view(&said).as_ref(),
            );
        }
        let ear = Ear::new(deltas);
        let asked = model.answer(request, &ear).instrument(span.clone());
        let answer = match tokio::time::timeout(self.ceiling, asked).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(Fault::Unavailable(format!(
                "did not finish its answer within {} s",
                self.ceiling.as_secs()
            ))),
        };
        match &answer {
            Ok(answer) => {
                if self.tells_content {
                    let said = content::output(answer);
                    let shown = request.redaction.view(&said);
                    span.record("gen_ai.output.messages", shown.as_ref());
                }
                span.record("gen_ai.usage.input_tokens", answer.usage.input);
                span.record("gen_ai.usage.output_tokens", answer.usage.output);
            }
            Err(fault) => {
                span.record("error.type", kind(fault));
                ear.withdraw();
            }
        }
        answer
    }
}

fn answered(
    request: &ModelRequest,
    answer: Answer,
    model: &Model,
    failovers: Vec<ModelFailover>,
) -> ModelReply {
    // A script says what it says.
    let usage = match model.host() {
        Some(_) => count::completed(request, &answer),
        None => answer.usage,
    };
    ModelReply::Answer {
        text: answer.text,
        thinking: answer.thinking,
        calls: answer.calls,
        model: model.name.clone(),
        usage,
        failovers,
    }
}

fn failed(code: &'static str, message: String, failovers: Vec<ModelFailover>) -> ModelReply {
    ModelReply::Failed {
        code: FailureCode::new(code),
        message,
        billing: None,
        failovers,
    }
}

/// Who wants money: the provider, and its host.
fn payee(model: &Model) -> String {
    match model.host() {
        Some(host) => format!("{} ({host})", model.provider()),
        None => model.provider().to_owned(),
    }
}

/// The kind of a fault, for traces.
fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Unavailable(_) => "unavailable",
        Fault::Misconfigured(_) => "misconfigured",
        Fault::Unpriced(_) => "unpriced",
        Fault::Refused(_) => "refused",
        Fault::ContextLength(_) => "context_length",
        Fault::Billing(_) => "billing",
        Fault::Script(code, _) => code,
    }
}
