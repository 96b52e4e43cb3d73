//! What must be so of the object of a change: `If-Match` and `If-None-Match`.

use evenkeel_core::input::Precondition;

use super::ApiClient;

/// The header of what the caller of a change has read of its object.
const MATCHES: &str = "if-match";
/// The header of a change that only creates.
const DIFFERS: &str = "if-none-match";

impl ApiClient {
    /// The same client, whose changes are made only of an object that is as the caller wants it: a change of any other is a
    /// [`Conflict`](crate::ClientErrorKind::Conflict), and nothing is changed. Reads are as without it. A change of several objects, or
    /// of one without a version, is refused as [`Invalid`](crate::ClientErrorKind::Invalid).
    ///
    /// ```no_run
    /// # use evenkeel_client::{ApiClient, ClientError, Precondition};
    /// # fn delete_as_read(client: &ApiClient) -> Result<(), ClientError> {
    /// let read = client.show_job("backup")?;
    /// client.only_if(Precondition::Version(vec![read.version])).delete_job("backup")?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn only_if(&self, wanted: Precondition) -> Self {
        Self { wanted: Some(wanted), ..self.clone() }
    }

    /// The header by which a change says what it wants of its object.
    pub(super) fn condition(&self) -> Option<(&'static str, String)> {
        let any = || "*".to_owned();
        self.wanted.as_ref().map(|wanted| match wanted {
            Precondition::Exists => (MATCHES, any()),
            Precondition::Absent => (DIFFERS, any()),
            Precondition::Version(versions) => {
                let tags: Vec<String> = versions.iter().map(|version| format!("\"{version}\"")).collect();
                (MATCHES, tags.join(", "))
            }
        })
    }
}
