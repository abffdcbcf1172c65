//! Anthropic messages, streamed.

mod request;
mod stream;

use reqwest::header::HeaderName;
use sayso_driver::ModelRequest;

use crate::answer::{Answer, Ear};
use crate::config::ModelConfig;
use crate::endpoint::{Address, BadEndpoint, Endpoint};
use crate::fault::Fault;
use request::Request;
use stream::Assembly;

const OWN: &str = "https://api.anthropic.com/v1/";

/// The version of the wire format that is written and read here.
const VERSION: &str = "2023-06-01";

/// Stands before the data of a redacted thinking block where a signature stands otherwise.
/// Signatures are base64, which has no colon, so the two cannot be taken for each other.
const REDACTED: &str = "redacted:";

/// One model behind the messages API.
pub(crate) struct Anthropic {
    endpoint: Endpoint,
    /// The configured name, by which answers of this model are known in the conversation.
    name: String,
    model: String,
    max_tokens: u32,
}

impl Anthropic {
    pub(crate) fn new(
        http: reqwest::Client,
        name: &str,
        config: &ModelConfig,
    ) -> Result<Self, BadEndpoint> {
        let address = Address {
            own: OWN,
            path: &["messages"],
            bare_path: &["v1", "messages"],
            key: (HeaderName::from_static("x-api-key"), ""),
        };
        let endpoint = Endpoint::new(http, config, &address)?.header("anthropic-version", VERSION);
        Ok(Self {
            endpoint,
            name: name.to_owned(),
            model: config.model.clone(),
            max_tokens: config.max_tokens,
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
        let body = Request::new(&self.name, &self.model, self.max_tokens, request);
        let mut events = self.endpoint.ask(&body).await?;
        let mut assembly = Assembly::new(self.endpoint.veil());
        while let Some(data) = events.next().await? {
            if assembly.take(&data, ear)?.is_break() {
                return assembly.finish();
            }
        }
        Err(Fault::broke_off())
    }
}
