//! A webhook as the settings give it: where to, in which shape, and with which secret.

use std::fmt;

use super::exchange;
use super::secret_source::SecretSource;
use super::shape::{SecretNeed, WebhookShape};

/// An address to which events are posted, and the shape that its service expects. The address may be a secret itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    url: String,
    shape: WebhookShape,
    secret: Option<SecretSource>,
}

impl Webhook {
    /// A webhook that gets Evenkeel's own JSON.
    ///
    /// # Errors
    /// The address is invalid; the text says the fix.
    pub fn plain(url: String) -> Result<Self, String> {
        Self::new(Some(url), WebhookShape::Json, None)
    }

    /// A webhook of a service; without an address the service's own, if it has the same for everyone.
    ///
    /// # Errors
    /// The address is missing or invalid, or the secret is missing or has no use; the text says the fix.
    pub fn new(
        url: Option<String>,
        shape: WebhookShape,
        secret: Option<SecretSource>,
    ) -> Result<Self, String> {
        let word = shape.as_str();
        let url = url.or_else(|| shape.usual_url().map(ToOwned::to_owned));
        let url = url.ok_or_else(|| {
            format!("shape {word:?} needs webhook = \"https://…\", the address that the service gave you")
        })?;
        exchange::check("webhook", &url)?;
        shape.check_url(&url)?;
        match (shape.secret(), &secret) {
            (SecretNeed::Required(what), None) => {
                return Err(format!(
                    "shape {word:?} needs {what}: write secret_file = \"/path/to/file\" or secret_env = \"EVENKEEL_…\""
                ));
            }
            (SecretNeed::None, Some(_)) => {
                return Err(format!("shape {word:?} takes no secret: leave out secret_file and secret_env"));
            }
            _ => {}
        }
        Ok(Self { url, shape, secret })
    }

    /// The shape of what is posted.
    #[must_use]
    pub fn shape(&self) -> WebhookShape {
        self.shape
    }

    /// The host of the address; the rest may be a secret.
    pub(super) fn host(&self) -> String {
        exchange::host(&self.url)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Reads the secret, if it has one.
    pub(super) fn read_secret(&self) -> Result<Option<String>, String> {
        self.secret.as_ref().map(|secret| secret.read("secret")).transpose()
    }
}

/// Without the address's path.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Webhook");
        shown.field("host", &self.host()).field("shape", &self.shape).field("secret", &self.secret).finish()
    }
}
