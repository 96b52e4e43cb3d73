//! A method of the client for each operation of the API.
//!
//! A line of the table names the HTTP method, the path below `/api/v1`, the method of [`ApiClient`] with a parameter for each
//! placeholder in the path, what it takes, and what it answers. [`OPERATIONS`] lists them, so that a test can compare them with
//! the description of the API.

use std::fmt::Display;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::JobFile;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use ureq::http::Method;

use crate::address::{path_of, query_of};
use crate::client::ApiClient;
use crate::error::{ClientError, ClientErrorKind};
use crate::requests::{
    AcceptJobBody, ApplyBody, AttentionListQuery, AuditListQuery, BackfillBody, BulkBody, CalendarListQuery,
    ClaimQuery, ClusterViewQuery, DrainBody, EventListQuery, ForecastQuery, JobListQuery,
    JobVersionListQuery, JobVersionQuery, JoinTokenBody, LiveQuery, LogQuery, LogSearchQuery, NamespaceBody,
    NewTokenBody, NextFiresQuery, NodeLoadQuery, PasswordBody, PlanBody, PreviewQuery, ReportQuery,
    RollbackBody, RotateTokenBody, RunListQuery, RunNowBody, RunningQuery, SecretBody, SecretListQuery,
    ShardListQuery, SummaryQuery, UpgradeBody, UserBody, WaitQuery, WhatIfQuery,
};
use crate::types::{
    ApplyAnswer, AttentionPage, AuditPage, BackfillAnswer, BalanceReport, BulkAnswer, CalendarDetail,
    CalendarPage, CallerRow, ClaimAnswer, ClusterHealth, DeclaredAnswer, DoneAnswer, EventPage,
    ExplanationRow, ForecastAnswer, ForgetAnswer, JobDetail, JobPage, JobVersionDetail, JobVersionPage,
    JoinTokenAnswer, LayoutRow, LoadPage, LoginLink, NamespacePage, NamespaceRow, NewToken, NextFires,
    NodePage, PlanAnswer, ReportPage, RollbackAnswer, RunAnswer, RunDetail, RunPage, RunningRow, SecretPage,
    ServiceRow, SettingsChange, SettingsRow, ShardPage, ShardRangeRow, ShardRow, SummaryPage, TokenPage,
    TreePage, UnsealedPage, UpgradeAnswer, UserPage, UserRow, WaitAnswer,
};

/// An operation of the API that the client has a method for.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The HTTP method, as `GET`.
    pub method: &'static str,
    /// The path below `/api/v1`, with placeholders as `{name}`.
    pub path: &'static str,
    /// The name of the client's method.
    pub name: &'static str,
    /// What it does, in a sentence or two.
    pub about: &'static str,
    /// Whether its body is a declaration as in a file, of which this table has no schema.
    pub declares: bool,
    /// The schema of its query, if it takes one.
    pub query: Option<SchemaOf>,
    /// The schema of its body, if it takes one.
    pub body: Option<SchemaOf>,
    /// The schema of its answer.
    pub answer: SchemaOf,
}

/// Makes the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The JSON of a body. Fields without a value are left out: a node of an earlier version may not know them.
fn body_of<T: Serialize>(body: &T) -> Result<Value, ClientError> {
    let json = serde_json::to_value(body);
    let mut json = json.map_err(|e| ClientError::new(ClientErrorKind::Invalid, e.to_string()))?;
    if let Value::Object(fields) = &mut json {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(json)
}

/// The schema of the query that stands there, with its keys, or else `None`.
macro_rules! asked_schema {
    () => {
        None
    };
    ($type:ty) => {
        Some(<$type>::json_schema as SchemaOf)
    };
}

/// The schema of the body that stands there, or else `None`.
macro_rules! sent_schema {
    () => {
        None
    };
    ($type:ty) => {
        Some(schema_of::<$type> as SchemaOf)
    };
}

/// Whether a declaration stands there.
macro_rules! declared_body {
    () => {
        false
    };
    ($type:ty) => {
        true
    };
}

/// The query that stands there, or else none.
macro_rules! asked {
    () => {
        ""
    };
    ($query:ident as $type:ident) => {
        query_of::<$type>($query)
    };
}

/// The body that stands there, or else none.
macro_rules! sent {
    () => {
        Value::Null
    };
    ($body:ident as $type:ident) => {
        body_of::<$type>($body)?
    };
}

/// Writes the methods of the client and the list of them. `declares` stands before what is declared as in a file, whose schema is
/// made of the table of its keys.
macro_rules! operations {
    ($(
        $(#[doc = $doc:literal])*
        $method:ident $path:literal $name:ident($($value:ident),*)
            $(query $query:ident)? $(body $body:ident)? $(declares $declared:ident)? -> $answer:ty;
    )*) => {
        impl ApiClient {
            $(
                $(#[doc = $doc])*
                ///
                /// # Errors
                /// No node answers, or the request is refused.
                pub fn $name(
                    &self,
                    $($value: impl Display,)*
                    $(query: &$query,)?
                    $(body: &$body,)?
                    $(declared: &$declared,)?
                ) -> Result<$answer, ClientError> {
                    let path = path_of($path, &[$($value.to_string()),*]) + &asked!($(query as $query)?);
                    let sent = sent!($(body as $body)? $(declared as $declared)?);
                    self.request(&Method::$method, &path, &sent)
                }
            )*
        }

        /// All operations that answer with JSON.
        pub const OPERATIONS: &[Operation] = &[
            $(Operation {
                method: stringify!($method),
                path: $path,
                name: stringify!($name),
                about: concat!($($doc),*),
                declares: declared_body!($($declared)?),
                query: asked_schema!($($query)?),
                body: sent_schema!($($body)?),
                answer: schema_of::<$answer>,
            },)*
        ];
    };
}

operations! {
    /// Lists jobs, in the order of their names.
    GET "/jobs" list_jobs() query JobListQuery -> JobPage;
    /// Shows a job.
    GET "/jobs/{name}" show_job(name) -> JobDetail;
    /// Declares jobs: all, or none if one of them is invalid.
    POST "/jobs/apply" apply_jobs() body ApplyBody -> ApplyAnswer;
    /// Declares a job.
    PUT "/jobs/{name}" put_job(name) declares JobFile -> ApplyAnswer;
    /// Deletes a job.
    DELETE "/jobs/{name}" delete_job(name) -> DoneAnswer;
    /// Runs a job now.
    POST "/jobs/{name}/run" run_job(name) body RunNowBody -> RunAnswer;
    /// Switches a job, on all nodes or on one: `pause`, `resume`, `enable`, `disable` or `shutdown`.
    POST "/jobs/{name}/{verb}" switch_job(name, verb) query ClaimQuery -> DoneAnswer;
    /// Does something to many jobs, with an answer for each: a verb of [`ApiClient::switch_job`], or `run`.
    POST "/bulk/jobs/{verb}" switch_jobs(verb) body BulkBody -> BulkAnswer;
    /// Makes the node that answers claim free jobs now.
    POST "/jobs/claim" claim_jobs() -> ClaimAnswer;
    /// Lists the next fires of a job.
    GET "/jobs/{name}/next" next_fires(name) query NextFiresQuery -> NextFires;
    /// Says why a job runs where it does, or why not.
    GET "/jobs/{name}/explain" explain_job(name) -> ExplanationRow;
    /// Accepts the entry of a job that no node of the cluster wrote.
    POST "/jobs/{name}/accept" accept_job(name) body AcceptJobBody -> DoneAnswer;
    /// Lists the versions of a job, the latest first.
    GET "/jobs/{name}/versions" list_job_versions(name) query JobVersionListQuery -> JobVersionPage;
    /// Shows a version of a job, and what it changed.
    GET "/jobs/{name}/versions/{version}" show_job_version(name, version) query JobVersionQuery -> JobVersionDetail;
    /// Declares an earlier version of a job again.
    POST "/jobs/{name}/rollback" roll_back_job(name) body RollbackBody -> RollbackAnswer;
    /// Runs the fires of a span of the past once.
    POST "/jobs/{name}/backfill" backfill_job(name) body BackfillBody -> BackfillAnswer;
    /// Ends a backfill: no further run of it begins.
    DELETE "/jobs/{name}/backfill/{id}" cancel_backfill(name, id) -> BackfillAnswer;
    /// Lists the shards of a job, each with a row of its own.
    GET "/jobs/{name}/shards" list_shards(name) -> ShardPage<ShardRow>;
    /// Switches shards of a job: `enable` or `disable`.
    POST "/jobs/{name}/shards/{set}/{verb}" switch_shards(name, set, verb) -> DoneAnswer;

    /// Lists the fires that a job with this schedule would have.
    GET "/preview" preview_schedule() query PreviewQuery -> NextFires;
    /// Says what declarations or switches would change, and changes nothing.
    POST "/plan" plan_changes() body PlanBody -> PlanAnswer;
    /// Counts the fires of all jobs that are due in the next hours.
    GET "/forecast" forecast_fires() query ForecastQuery -> ForecastAnswer;
    /// Lists calendars.
    GET "/calendars" list_calendars() query CalendarListQuery -> CalendarPage;
    /// Shows a calendar.
    GET "/calendars/{name}" show_calendar(name) -> CalendarDetail;
    /// Declares a calendar.
    PUT "/calendars/{name}" put_calendar(name) declares Calendar -> DeclaredAnswer;
    /// Deletes a calendar.
    DELETE "/calendars/{name}" delete_calendar(name) -> DoneAnswer;

    /// Lists runs, the latest first.
    GET "/runs" list_runs() query RunListQuery -> RunPage;
    /// Lists all runs that execute now.
    GET "/runs/running" list_running() query RunningQuery -> RunningRow;
    /// Shows a run or a fire with its attempts.
    GET "/runs/{run}" show_run(run) -> RunDetail;
    /// Says why a run ran where it did, or why it waits.
    GET "/runs/{run}/explain" explain_run(run) -> ExplanationRow;
    /// Waits until a run has ended, or for half a minute.
    GET "/runs/{run}/wait" wait_for_run(run) query WaitQuery -> WaitAnswer;
    /// Ends a run, or withdraws its request.
    POST "/runs/{run}/kill" kill_run(run) -> DoneAnswer;
    /// Runs the job of an ended run once more.
    POST "/runs/{run}/restart" restart_run(run) -> RunAnswer;
    /// Deletes the output of a run on every node.
    DELETE "/runs/{run}/logs" delete_run_logs(run) -> ForgetAnswer;

    /// Lists jobs and nodes that need a person, the worst first.
    GET "/attention" list_attention() query AttentionListQuery -> AttentionPage;
    /// Counts fires by outcome, for each hour, day or job.
    GET "/summary" summarize_fires() query SummaryQuery -> SummaryPage;
    /// Says of each fire that was due what became of it.
    GET "/report" report_fires() query ReportQuery -> ReportPage;
    /// Lists events, the latest first.
    GET "/events" list_events() query EventListQuery -> EventPage;
    /// Lists changes and refusals, the latest first.
    GET "/audit" list_audit() query AuditListQuery -> AuditPage;

    /// Lists the nodes.
    GET "/nodes" list_nodes() -> NodePage;
    /// Names the node with the lowest load.
    GET "/service" least_loaded_node() -> ServiceRow;
    /// Shows how jobs are distributed over nodes, or would be.
    GET "/nodes/balance" balance_nodes() query WhatIfQuery -> BalanceReport;
    /// Shows the load of a node over time.
    GET "/nodes/{name}/load" show_node_load(name) query NodeLoadQuery -> LoadPage;
    /// Drains a node: it gives its jobs to the other nodes.
    POST "/nodes/{name}/drain" drain_node(name) body DrainBody -> DoneAnswer;
    /// Replaces the program of a node by the one in its file.
    POST "/nodes/{name}/upgrade" upgrade_node(name) body UpgradeBody -> UpgradeAnswer;
    /// Switches a node: `undrain`, `cordon`, `uncordon` or `activate`.
    POST "/nodes/{name}/{verb}" switch_node(name, verb) -> DoneAnswer;
    /// Shows the health of the cluster and of its nodes.
    GET "/cluster/health" cluster_health() -> ClusterHealth;
    /// Shows the cluster in another scheduler's format.
    GET "/cluster/view" cluster_view() query ClusterViewQuery -> TreePage;
    /// Shows the settings of the cluster.
    GET "/cluster/settings" show_settings() -> SettingsRow;
    /// Changes settings of the cluster.
    POST "/cluster/settings" change_settings() body SettingsChange -> SettingsRow;
    /// Allows nodes to write the newest layout of entries.
    POST "/cluster/finalize-upgrade" finalize_upgrade() -> LayoutRow;
    /// Makes a token by which a node joins.
    POST "/cluster/join-tokens" create_join_token() body JoinTokenBody -> JoinTokenAnswer;
    /// Lists entries that no node of the cluster wrote.
    GET "/unsealed" list_unsealed() -> UnsealedPage;

    /// Lists the namespaces in which the caller has a role.
    GET "/namespaces" list_namespaces() -> NamespacePage;
    /// Shows a namespace.
    GET "/namespaces/{name}" show_namespace(name) -> NamespaceRow;
    /// Declares a namespace.
    PUT "/namespaces/{name}" put_namespace(name) declares NamespaceBody -> DeclaredAnswer;
    /// Deletes an empty namespace.
    DELETE "/namespaces/{name}" delete_namespace(name) -> DoneAnswer;
    /// Lists the secrets in the registry, without their values.
    GET "/secrets" list_secrets() query SecretListQuery -> SecretPage;
    /// Sets a secret.
    PUT "/secrets/{name}" put_secret(name) body SecretBody -> DeclaredAnswer;
    /// Deletes a secret.
    DELETE "/secrets/{name}" delete_secret(name) -> DoneAnswer;
    /// Says who the caller is, and what it may do.
    GET "/whoami" whoami() -> CallerRow;
    /// Changes the caller's own password.
    POST "/whoami/password" change_password() body PasswordBody -> DoneAnswer;
    /// Makes a link that logs a browser in once, as the caller.
    POST "/login-links" create_login_link() -> LoginLink;
    /// Lists the users.
    GET "/users" list_users() -> UserPage;
    /// Shows a user.
    GET "/users/{name}" show_user(name) -> UserRow;
    /// Creates or changes a user.
    PUT "/users/{name}" put_user(name) body UserBody -> DeclaredAnswer;
    /// Deletes a user.
    DELETE "/users/{name}" delete_user(name) -> DoneAnswer;
    /// Ends all sessions of a user.
    POST "/users/{name}/logout" log_user_out(name) -> DoneAnswer;
    /// Lists the API tokens that the caller may delete.
    GET "/tokens" list_tokens() -> TokenPage;
    /// Creates an API token.
    POST "/tokens" create_token() body NewTokenBody -> NewToken;
    /// Gives an API token another secret.
    POST "/tokens/{name}/rotate" rotate_token(name) body RotateTokenBody -> NewToken;
    /// Deletes an API token.
    DELETE "/tokens/{name}" delete_token(name) -> DoneAnswer;
}

/// The operations that do not fit in the table.
impl ApiClient {
    /// Sends the request of an operation that is known only now. `places` are the values of the placeholders of its path, in
    /// their order; the fields of `query` are texts, numbers or truth values; `body` is null for none.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn call(
        &self,
        operation: &Operation,
        places: &[String],
        query: &Value,
        body: &Value,
    ) -> Result<Value, ClientError> {
        let path = path_of(operation.path, places) + &query_of(query);
        let method = operation.method.parse::<Method>();
        let method = method.map_err(|e| ClientError::new(ClientErrorKind::Invalid, e.to_string()))?;
        self.request(&method, &path, body)
    }

    /// Lists the shards of a job, with those whose other fields are equal in one row.
    ///
    /// # Errors
    /// No node answers, or the request is refused.
    pub fn list_shard_ranges(&self, name: impl Display) -> Result<ShardPage<ShardRangeRow>, ClientError> {
        let path = path_of("/jobs/{name}/shards", &[name.to_string()]);
        self.get(&(path + &query_of(&ShardListQuery { fold: true })))
    }

    /// Reads the output of a run, and passes it to `each` as it comes.
    ///
    /// # Errors
    /// No node answers, the request is refused, or `each` fails.
    pub fn read_run_logs<E: From<ClientError>>(
        &self,
        run: impl Display,
        query: &LogQuery,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.stream(&(path_of("/runs/{run}/logs", &[run.to_string()]) + &query_of(query)), each)
    }

    /// Searches the output of the latest attempts of a job, and passes the lines that are found to `each` as they come.
    ///
    /// # Errors
    /// No node answers, the request is refused, or `each` fails.
    pub fn search_job_logs<E: From<ClientError>>(
        &self,
        name: impl Display,
        query: &LogSearchQuery,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.stream(&(path_of("/jobs/{name}/logs", &[name.to_string()]) + &query_of(query)), each)
    }

    /// Reads what the console shows as one document, and then each change of it, as server-sent events.
    ///
    /// # Errors
    /// No node answers, the request is refused, or `each` fails.
    pub fn read_live_events<E: From<ClientError>>(
        &self,
        query: &LiveQuery,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.stream(&("/live".to_owned() + &query_of(query)), each)
    }
}
