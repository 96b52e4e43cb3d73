//! A job's declaration in a command, and one that says nothing new.

use alloc::boxed::Box;
use alloc::format;

use crate::ids::JobName;
use crate::job::{Job, JobError, JobFile};
use crate::record::decode;
use crate::registry::{Revision, Value};

/// A job's declaration in a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Declaration {
    /// The declaration. The node checks it.
    File(Box<JobFile>),
    /// The registry has it already.
    Same(SameDeclaration),
}

/// A declaration whose text the registry has already, as [`JobView::declares`](crate::view::JobView::declares) found, and
/// that was valid when this process took it. Only if the registry has another one by now it is parsed and compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SameDeclaration {
    /// The job's name.
    pub name: JobName,
    /// The revision of the job's spec that has this text.
    pub revision: Revision,
    /// The declaration as the registry keeps it.
    pub text: Value,
}

impl Declaration {
    /// The name of the job.
    #[must_use]
    pub fn name(&self) -> &JobName {
        match self {
            Self::File(file) => file.name.name(),
            Self::Same(same) => &same.name,
        }
    }
}

impl SameDeclaration {
    /// The job.
    ///
    /// # Errors
    /// The text is no valid declaration.
    pub(crate) fn job(&self) -> Result<Job, JobError> {
        let file = decode::<JobFile>(&self.text);
        file.ok_or_else(|| JobError::new(format!("job {}: it cannot be read", self.name)))
            .and_then(Job::parse)
    }
}
