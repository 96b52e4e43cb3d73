//! The kinds of engines, and how each is started, asked and stopped.

use super::{launch, quorum};
use anyhow::Result;
use std::path::PathBuf;

/// One kind of engine.
pub(super) struct EngineKind {
    /// As in a URL, and what it is when it is more than one server.
    pub(super) name: &'static str,
    /// Whether it is three servers that are one.
    pub(super) quorum: bool,
    /// What Debian calls it.
    pub(super) package: &'static str,
    /// Finds its program; `None` where it is not installed.
    pub(super) program: fn() -> Option<PathBuf>,
    /// Starts it in a folder of its own.
    pub(super) start: fn(&launch::EngineSite) -> Result<launch::StartedEngine>,
    /// Whether it answers by now.
    pub(super) answers: fn(&launch::EngineSite) -> bool,
    /// What asks it to stop.
    pub(super) stop: &'static str,
}

/// Every kind that the tests can speak to.
pub(super) const KINDS: &[EngineKind] = &[
    EngineKind {
        name: "etcd",
        quorum: false,
        package: "etcd-server",
        program: || launch::on_path("etcd"),
        start: launch::etcd,
        answers: launch::etcd_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "zookeeper",
        quorum: false,
        package: "zookeeper",
        program: launch::zookeeper_jar,
        start: launch::zookeeper,
        answers: launch::zookeeper_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "redis",
        quorum: false,
        package: "redis-server",
        program: || launch::on_path("redis-server"),
        start: launch::redis,
        answers: launch::redis_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "mysql",
        quorum: false,
        package: "mariadb-server",
        program: || launch::on_path("mariadbd"),
        start: launch::mysql,
        answers: launch::mysql_answers,
        stop: "TERM",
    },
    EngineKind {
        name: "postgres",
        quorum: false,
        package: "postgresql",
        program: || launch::postgres_program("postgres"),
        start: launch::postgres,
        answers: launch::postgres_answers,
        stop: "INT",
    },
    EngineKind {
        name: "etcd-quorum",
        quorum: true,
        package: "etcd-server",
        program: || launch::on_path("etcd"),
        start: quorum::etcd,
        answers: quorum::etcds_answer,
        stop: "TERM",
    },
    EngineKind {
        name: "zookeeper-quorum",
        quorum: true,
        package: "zookeeper",
        program: launch::zookeeper_jar,
        start: quorum::zookeeper,
        answers: quorum::zookeepers_answer,
        stop: "TERM",
    },
];
