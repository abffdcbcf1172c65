//! OpenAI chat completions, streamed, and the many servers that speak them.

mod request;
mod stream;

use reqwest::header::AUTHORIZATION;
use sayso_driver::ModelRequest;

use crate::answer::{Answer, Ear};
use crate::config::ModelConfig;
use crate::endpoint::{Address, BadEndpoint, Endpoint};
use crate::fault::Fault;
use request::{Request, TokenLimit};
use stream::Assembly;

const OWN: &str = "https://api.openai.com/v1/";
const OWN_HOST: &str = "api.openai.com";

/// One model behind chat completions.
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    model: String,
    limit: TokenLimit,
}

impl OpenAi {
    pub(crate) fn new(http: reqwest::Client, config: &ModelConfig) -> Result<Self, BadEndpoint> {
        let address = Address {
            own: OWN,
            path: &["chat", "completions"],
            bare_path: &["chat", "completions"],
            key: (AUTHORIZATION, "Bearer "),
        };
        let endpoint = Endpoint::new(http, config, &address)?;
        // OpenAI itself refuses the old name for its newer models; others know the old one alone.
        let limit = if endpoint.host() == OWN_HOST {
            TokenLimit::Completion(config.max_tokens)
        } else {
            TokenLimit::Plain(config.max_tokens)
        };
        Ok(Self {
            endpoint,
            model: config.model.clone(),
            limit,
        })
    }

    pub(crate) fn host(&self) -> &str {
        self.endpoint.host()
    }

    pub(crate) async fn answer(
        &self,
        request: &ModelRequest,
        ear: &Ear<'_>,
    ) -> Result<Answer, Fault> {
        let body = Request::new(&self.model, self.limit, request);
        let mut events = self.endpoint.ask(&body).await?;
        let mut assembly = Assembly::new(self.endpoint.veil());
        while let Some(data) = events.next().await? {
            if data.trim() == "[DONE]" {
                return assembly.finish();
            }
            assembly.take(&data, ear)?;
        }
        Err(Fault::broke_off())
    }
}
