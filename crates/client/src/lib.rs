//! The typed client of the HTTP API of Evenkeel.
//!
//! [`ApiClient`] reaches one node of a cluster, whichever of the given ones answers. It has a method for each operation of the
//! API, named in [`operations`]; what they take is in [`requests`], and what they answer in [`types`]. It repeats reads whose
//! connection broke, never changes: the failure of a change says whether its outcome is unknown.
//!
//! ```no_run
//! use evenkeel_client::{ApiClient, ClientError, ClientKey, ClientSettings};
//! use evenkeel_client::requests::JobListQuery;
//!
//! fn paused_jobs() -> Result<Vec<String>, ClientError> {
//!     let client = ApiClient::new(ClientSettings {
//!         servers: vec!["https://n1.example:7700".to_owned(), "https://n2.example:7700".to_owned()],
//!         key: ClientKey::Given(std::env::var("EVENKEEL_TOKEN").unwrap_or_default()),
//!         ..ClientSettings::default()
//!     })?;
//!     let (mut paused, mut query) = (Vec::new(), JobListQuery::default());
//!     loop {
//!         let page = client.list_jobs(&query)?;
//!         paused.extend(page.jobs.into_iter().filter(|job| job.paused).map(|job| job.name));
//!         match page.after {
//!             Some(after) => query.after = after.parse().ok(),
//!             None => return Ok(paused),
//!         }
//!     }
//! }
//! ```

mod address;
mod client;
mod error;
pub mod key;
pub mod operations;
pub mod requests;
pub mod types;

pub use address::{escape, is_here, is_unencrypted};
pub use client::{ApiClient, CHALLENGE, CLIENT, ClientKey, ClientSettings, LEADER, OUTCOME_UNKNOWN, PROOF};
pub use error::{ClientError, ClientErrorKind};
pub use evenkeel_core::input::Precondition;
