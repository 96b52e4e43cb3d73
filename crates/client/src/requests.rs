//! What requests take: the keys of queries, and bodies.

mod cluster;
mod jobs;
mod principals;
mod records;
mod runs;
mod schedules;

pub use cluster::{ClusterViewQuery, DrainBody, JoinTokenBody, NodeLoadQuery, UpgradeBody, WhatIfQuery};
pub use jobs::{
    AcceptJobBody, ApplyBody, BackfillBody, BulkBody, ClaimQuery, JobListQuery, JobVersionListQuery,
    JobVersionQuery, NextFiresQuery, RollbackBody, RunNowBody, ShardListQuery,
};
pub use principals::{
    NamespaceBody, NewTokenBody, PasswordBody, RotateTokenBody, SecretBody, SecretListQuery, UserBody,
};
pub use records::{AttentionListQuery, AuditListQuery, EventListQuery, LiveQuery, ReportQuery, SummaryQuery};
pub use runs::{LogQuery, LogSearchQuery, RunListQuery, RunningQuery, WaitQuery};
pub use schedules::{CalendarListQuery, ForecastQuery, PlanBody, PreviewQuery};
